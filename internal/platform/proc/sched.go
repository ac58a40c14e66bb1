package proc

import (
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxThreads bounds the threads of a process that are read.
const maxThreads = 256

// RunDelays reads for how long each thread of a process was ready to run and had no
// processor, in nanoseconds since it began: the second number of /proc/PID/task/TID/schedstat.
// Of a process with more than 256 threads it has some. It is nil where the kernel does not
// keep these numbers.
func RunDelays(root string, pid int) map[int]uint64 {
	tasks := filepath.Join(root, strconv.Itoa(pid), "task")
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()                        //nolint:errcheck // only read
	names, _ := dir.Readdirnames(maxThreads) // without any nothing is known
	var out map[int]uint64
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(tasks, name, "schedstat"))
		if err != nil {
			continue // the thread has ended, or nothing is kept
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

// AllowedCores reads how many processors a process may run on, 0 where that is not known.
func AllowedCores(root string, pid int) int {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(text), "\nCpus_allowed:")
	if !ok {
		return 0
	}
	mask, _, _ := strings.Cut(rest, "\n")
	n := 0
	for word := range strings.SplitSeq(strings.TrimSpace(mask), ",") {
		v, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			return 0
		}
		n += bits.OnesCount64(v)
	}
	return n
}

// Host is what the system did since it started. Times are ticks of a hundredth of a second.
type Host struct {
	Busy, Steal, IOWait, All uint64 // of all processors together
	Cores                    int    // processors that are on
	Runnable                 int    // threads that run or want to, at this moment
	// Pressure is for how long some thread waited for a processor, for reads and writes, and
	// for memory, in microseconds; PressureKnown says whether the kernel keeps it.
	Pressure      [3]uint64
	PressureKnown [3]bool
}

// Resources are those of Host.Pressure.
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

// parsePressure reads the total of the line that begins with some.
func parsePressure(text string) (uint64, bool) {
	for line := range strings.Lines(text) {
		if _, total, ok := strings.Cut(line, "total="); ok && strings.HasPrefix(line, "some ") {
			n, err := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
