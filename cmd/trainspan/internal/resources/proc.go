package resources

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tick is a hundredth of a second, the unit of processor time in /proc on every
// system that Linux runs on.
const tick = 100

// stat is what /proc says of a process at one moment.
type stat struct {
	pid, parent int
	program     string
	state       byte
	started     uint64 // ticks after boot; with the number it tells processes apart
	user, sys   uint64 // ticks
	minor       uint64 // page faults
	major       uint64
	threads     int64
	rss         int64 // bytes

	io ioStat
}

// ioStat is what a process read and wrote: by calls, and from and to storage.
type ioStat struct {
	known                  bool
	chars, written         uint64 // bytes by calls, whatever served them
	readCalls, writeCalls  uint64
	fromStorage, toStorage uint64
}

var errFormat = errors.New("unknown format")

// readStat reads /proc/PID/stat.
func readStat(root string, pid int) (stat, error) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// Began is when a process was started, in the system's clock ticks since boot, 0
// where there is none. With its number it tells processes apart; root is /proc.
func Began(root string, pid int) uint64 {
	st, err := readStat(root, pid)
	if err != nil {
		return 0
	}
	return st.started
}

// parseStat reads one line. The name of the program stands in brackets and may
// hold anything.
func parseStat(text []byte) (stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return stat{}, errFormat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	fields := strings.Fields(string(text[end+1:]))
	if err != nil || len(fields) < 22 || len(fields[0]) != 1 {
		return stat{}, errFormat
	}
	s := stat{pid: pid, program: string(text[open+1 : end]), state: fields[0][0]}
	var bad error
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			bad = errFormat
		}
		return n
	}
	s.parent = int(number(1)) //nolint:gosec // numbers of processes are small
	s.minor, s.major = number(7), number(9)
	s.user, s.sys = number(11), number(12)
	s.threads = int64(number(17)) //nolint:gosec // as above
	s.started = number(19)
	s.rss = int64(number(21)) * int64(os.Getpagesize()) //nolint:gosec // as above
	return s, bad
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
