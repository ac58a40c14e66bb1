package resources

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroup is the control group of a process, version 2 or the memory part of
// version 1. A nil Cgroup knows nothing.
type Cgroup struct {
	dir string
	v1  bool
}

// Limits is what a control group may use and does. Negative is unknown or no limit.
type Limits struct {
	Memory, MemoryLimit int64   // bytes
	Cores               float64 // processors
	Throttled           int64   // microseconds in which it was held back, in all
}

// FindCgroup finds the group of a process; proc and sys are /proc and /sys.
func FindCgroup(proc, sys string, pid int) *Cgroup {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil
	}
	var found *Cgroup
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		path := filepath.Clean("/" + parts[2])
		switch {
		case parts[0] == "0" && parts[1] == "":
			if c := firstWith("memory.events", filepath.Join(sys, "fs/cgroup", path), filepath.Join(sys, "fs/cgroup")); c != "" {
				return &Cgroup{dir: c}
			}
		case contains(parts[1], "memory"):
			if c := firstWith("memory.oom_control", filepath.Join(sys, "fs/cgroup/memory", path), filepath.Join(sys, "fs/cgroup/memory")); c != "" {
				found = &Cgroup{dir: c, v1: true}
			}
		}
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

// firstWith is the first of the folders that has a file. In a container the
// group's own folder is the root of what it sees.
func firstWith(file string, dirs ...string) string {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return dir
		}
	}
	return ""
}

// OOMKills is how many processes of the group the out-of-memory killer has ended so
// far, negative when that is not known.
func (c *Cgroup) OOMKills() int64 {
	if c == nil {
		return -1
	}
	if c.v1 {
		return c.field("memory.oom_control", "oom_kill")
	}
	return c.field("memory.events", "oom_kill")
}

// Limits reads what the group uses.
func (c *Cgroup) Limits() Limits {
	l := Limits{Memory: -1, MemoryLimit: -1, Cores: -1, Throttled: -1}
	if c == nil {
		return l
	}
	if c.v1 {
		l.Memory, l.MemoryLimit = c.number("memory.usage_in_bytes"), c.number("memory.limit_in_bytes")
		if l.MemoryLimit >= 1<<62 {
			l.MemoryLimit = -1
		}
		return l
	}
	l.Memory, l.MemoryLimit = c.number("memory.current"), c.number("memory.max")
	l.Throttled = c.field("cpu.stat", "throttled_usec")
	if text, err := os.ReadFile(filepath.Join(c.dir, "cpu.max")); err == nil {
		quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		q, bad := strconv.ParseFloat(quota, 64) // "max" is no limit
		p, worse := strconv.ParseFloat(period, 64)
		if bad == nil && worse == nil && p > 0 {
			l.Cores = q / p
		}
	}
	return l
}

func (c *Cgroup) number(file string) int64 {
	text, err := os.ReadFile(filepath.Join(c.dir, file))
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
func (c *Cgroup) field(file, key string) int64 {
	text, err := os.ReadFile(filepath.Join(c.dir, file))
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
