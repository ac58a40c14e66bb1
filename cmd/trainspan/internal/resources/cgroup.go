package resources

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroup is the control group of a process, of version 2 or 1. A nil Cgroup
// means an unknown group: all its values are unknown.
type Cgroup struct {
	dir string // of memory; empty if there is no such controller
	cpu string // of the CPU; empty if there is no such controller
	v1  bool
}

// Limits holds limits and counters of a control group. Negative means unknown
// or no limit.
type Limits struct {
	Memory, MemoryLimit int64   // bytes
	Cores               float64 // CPU cores
	Throttled           int64   // total microseconds in which the group was throttled
	// Periods is the number of periods of the CPU limit, Held the number of those
	// in which the group was throttled.
	Periods, Held int64
}

// FindCgroup returns the group of a process; proc and sys are /proc and /sys.
func FindCgroup(proc, sys string, pid int) *Cgroup {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil
	}
	found := &Cgroup{v1: true}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		path := filepath.Clean("/" + parts[2])
		switch {
		case parts[0] == "0" && parts[1] == "":
			if dir := firstWith("memory.events", filepath.Join(sys, "fs/cgroup", path), filepath.Join(sys, "fs/cgroup")); dir != "" {
				return &Cgroup{dir: dir, cpu: dir}
			}
		case contains(parts[1], "memory"):
			found.dir = firstWith("memory.oom_control", filepath.Join(sys, "fs/cgroup/memory", path), filepath.Join(sys, "fs/cgroup/memory"))
		case contains(parts[1], "cpu"):
			found.cpu = firstWith("cpu.stat", filepath.Join(sys, "fs/cgroup/cpu", path), filepath.Join(sys, "fs/cgroup/cpu"))
		}
	}
	if found.dir == "" && found.cpu == "" {
		return nil
	}
	return found
}

func contains(list, word string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item == word {
			return true
		}
	}
	return false
}

// firstWith returns the first of the folders that has a file. In a container
// the group's own folder is the visible root.
func firstWith(file string, dirs ...string) string {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
	}
	return ""
}

// OOMKills returns the number of processes of the group that the out-of-memory
// killer has ended so far, negative if unknown.
func (c *Cgroup) OOMKills() int64 {
	if c == nil || c.dir == "" {
		return -1
	}
	if c.v1 {
		return field(c.dir, "memory.oom_control", "oom_kill")
	}
	return field(c.dir, "memory.events", "oom_kill")
}

// Limits reads the current values.
func (c *Cgroup) Limits() Limits {
	l := Limits{Memory: -1, MemoryLimit: -1, Cores: -1, Throttled: -1, Periods: -1, Held: -1}
	if c == nil {
		return l
	}
	c.readProcessor(&l)
	if c.v1 {
		l.Memory, l.MemoryLimit = number(c.dir, "memory.usage_in_bytes"), number(c.dir, "memory.limit_in_bytes")
		if l.MemoryLimit >= 1<<62 {
			l.MemoryLimit = -1
		}
		return l
	}
	l.Memory, l.MemoryLimit = number(c.dir, "memory.current"), number(c.dir, "memory.max")
	return l
}

// readProcessor reads the CPU limit, and how often it throttled the group.
func (c *Cgroup) readProcessor(l *Limits) {
	if c.cpu == "" {
		return
	}
	l.Periods, l.Held = field(c.cpu, "cpu.stat", "nr_periods"), field(c.cpu, "cpu.stat", "nr_throttled")
	if c.v1 {
		if ns := field(c.cpu, "cpu.stat", "throttled_time"); ns >= 0 {
			l.Throttled = ns / 1000
		}
		if q, p := number(c.cpu, "cpu.cfs_quota_us"), number(c.cpu, "cpu.cfs_period_us"); q > 0 && p > 0 { // -1 means no limit
			l.Cores = float64(q) / float64(p)
		}
		return
	}
	l.Throttled = field(c.cpu, "cpu.stat", "throttled_usec")
	if text, err := os.ReadFile(filepath.Join(c.cpu, "cpu.max")); err == nil {
		quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		q, bad := strconv.ParseFloat(quota, 64) // "max" means no limit
		p, worse := strconv.ParseFloat(period, 64)
		if bad == nil && worse == nil && p > 0 {
			l.Cores = q / p
		}
	}
}

func number(dir, file string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// field reads a line of "key number".
func field(dir, file, key string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == key {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
