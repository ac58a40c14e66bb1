package proc

import (
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxThreads bounds the threads per process that are read.
const maxThreads = 256

// RunDelays returns for how long each thread of a process was runnable without
// a CPU, in nanoseconds since it began: the second number of
// /proc/PID/task/TID/schedstat. For a process with more than 256 threads the
// result has some of them. It is nil if the kernel does not provide these
// numbers.
func RunDelays(root string, pid int) map[int]uint64 {
	tasks := filepath.Join(root, strconv.Itoa(pid), "task")
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()                        //nolint:errcheck // only read
	names, _ := dir.Readdirnames(maxThreads) // without names the result is empty
	var out map[int]uint64
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(tasks, name, "schedstat"))
		if err != nil {
			continue // the thread has ended, or there are no numbers
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			continue
		}
		if out == nil {
			out = make(map[int]uint64, len(names))
		}
		out[tid] = n
	}
	return out
}

// AllowedCores returns on how many CPU cores the processes may run together, or
// 0 if that of one of them is unknown.
func AllowedCores(root string, pids ...int) (n int) {
	var all []uint64 // masks of 32 cores each
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "status"))
		if err != nil {
			return 0
		}
		_, rest, ok := strings.Cut(string(text), "\nCpus_allowed:")
		if !ok {
			return 0
		}
		mask, _, _ := strings.Cut(rest, "\n")
		for i, word := range strings.Split(strings.TrimSpace(mask), ",") {
			v, err := strconv.ParseUint(word, 16, 64)
			if err != nil {
				return 0
			}
			if i == len(all) {
				all = append(all, 0)
			}
			all[i] |= v // masks of the same system have the same length
		}
	}
	for _, v := range all {
		n += bits.OnesCount64(v)
	}
	return n
}

// Host holds counters of the system since boot. Times are ticks of 10 ms.
type Host struct {
	Busy, Steal, IOWait, All uint64 // of all CPUs together
	Cores                    int    // online CPUs
	Runnable                 int    // threads that run or are runnable now
	// Pressure is for how long some thread waited for a CPU, for I/O, and for
	// memory, in microseconds; PressureKnown is false if the kernel does not
	// provide it.
	Pressure      [3]uint64
	PressureKnown [3]bool
}

// Resources are the resources of Host.Pressure.
var Resources = [3]string{"cpu", "io", "memory"}

// ReadHost reads /proc/stat and /proc/pressure.
func ReadHost(root string) (Host, error) {
	text, err := os.ReadFile(filepath.Join(root, "stat"))
	if err != nil {
		return Host{}, err
	}
	h, err := parseHost(string(text))
	for i, name := range Resources {
		if text, err := os.ReadFile(filepath.Join(root, "pressure", name)); err == nil {
			h.Pressure[i], h.PressureKnown[i] = parsePressure(string(text))
		}
	}
	return h, err
}

func parseHost(text string) (h Host, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 8 && fields[0] == "cpu":
			var v [8]uint64 // user nice system idle iowait irq softirq steal
			for i := range v {
				if v[i], err = strconv.ParseUint(fields[i+1], 10, 64); err != nil {
					return Host{}, errFormat
				}
				h.All += v[i]
			}
			h.IOWait, h.Steal = v[4], v[7]
			h.Busy = h.All - v[3] - v[4] - v[7]
		case len(fields) > 0 && len(fields[0]) > 3 && strings.HasPrefix(fields[0], "cpu"):
			h.Cores++
		case len(fields) == 2 && fields[0] == "procs_running":
			if h.Runnable, err = strconv.Atoi(fields[1]); err != nil {
				return Host{}, errFormat
			}
		}
	}
	if h.All == 0 {
		return Host{}, errFormat
	}
	return h, nil
}

// parsePressure returns the total of the line that begins with "some".
func parsePressure(text string) (uint64, bool) {
	for line := range strings.Lines(text) {
		if _, total, ok := strings.Cut(line, "total="); ok && strings.HasPrefix(line, "some ") {
			n, err := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
