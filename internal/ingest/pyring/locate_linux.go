package pyring

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/trainspan/trainspan/internal/platform/proc"
)

// locate returns the id by which this process knows another one, given its id
// in a PID namespace, such as that of a container. It returns 0 if no such
// process is visible.
func locate(pid int64, ticks, namespace uint64) int64 {
	if namespace == 0 || namespace == namespaceOf("self") {
		return pid
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		n, err := strconv.ParseInt(name, 10, 64)
		if err == nil && proc.Alive(int(n), ticks) && namespaceOf(name) == namespace && numberInside(name) == pid {
			return n
		}
	}
	return 0
}

// namespaceOf returns the PID namespace of a process, or 0.
func namespaceOf(process string) uint64 {
	info, err := os.Stat("/proc/" + process + "/ns/pid")
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Ino
}

// numberInside returns the id of a process in its own namespace.
func numberInside(process string) int64 {
	text, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if list, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			fields := bytes.Fields(list)
			n, _ := strconv.ParseInt(string(fields[len(fields)-1]), 10, 64)
			return n
		}
	}
	return 0
}
