package resources

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/proc"
)

// tick is a hundredth of a second, the unit of processor time in /proc on every
// system that Linux runs on.
const tick = 100

// stat is what /proc says of a process at one moment.
type stat struct {
	proc.Stat
	io ioStat
}

// ioStat is what a process read and wrote: by calls, and from and to storage.
type ioStat struct {
	known                  bool
	chars, written         uint64 // bytes by calls, whatever served them
	readCalls, writeCalls  uint64
	fromStorage, toStorage uint64
}

// readIO reads /proc/PID/io, which only the owner may.
func readIO(root string, pid int) (s ioStat) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "io"))
	if err != nil {
		return s
	}
	fields := map[string]*uint64{
		"rchar": &s.chars, "wchar": &s.written, "syscr": &s.readCalls, "syscw": &s.writeCalls,
		"read_bytes": &s.fromStorage, "write_bytes": &s.toStorage,
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if to := fields[key]; to != nil {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return ioStat{}
			}
			*to, s.known = n, true
		}
	}
	return s
}

// numbers lists the processes of the system.
func numbers(root string) []int {
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	out := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out
}
