// Package proc reads what /proc contains about processes and the system.
package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stat is the state of a process in /proc at one moment.
type Stat struct {
	PID, Parent  int
	Program      string
	State        byte
	Started      uint64 // ticks after boot; with the id it identifies a process
	User, Sys    uint64 // ticks
	Minor, Major uint64 // page faults
	Threads      int64
	RSS          int64 // bytes
	// IODelay is for how many ticks the process waited for block I/O, 0 if the
	// kernel does not count them.
	IODelay uint64
}

// Ended reports whether the process has ended and only waits for its parent to
// collect its status.
func (s *Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

var errFormat = errors.New("unknown format")

// Read reads the state of a process below root, which is normally /proc.
func Read(root string, pid int) (Stat, error) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return Stat{}, err
	}
	return Parse(text)
}

// Parse parses one line. The program's name is in brackets and may contain any
// bytes.
func Parse(text []byte) (Stat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return Stat{}, errFormat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	fields := strings.Fields(string(text[end+1:]))
	if err != nil || len(fields) < 22 || len(fields[0]) != 1 {
		return Stat{}, errFormat
	}
	s := Stat{PID: pid, Program: string(text[open+1 : end]), State: fields[0][0]}
	var bad error
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			bad = errFormat
		}
		return n
	}
	s.Parent = int(number(1)) //nolint:gosec // numbers of processes are small
	s.Minor, s.Major = number(7), number(9)
	s.User, s.Sys = number(11), number(12)
	s.Threads = int64(number(17)) //nolint:gosec // as above
	s.Started = number(19)
	if len(fields) > 39 {
		s.IODelay = number(39)
	}
	s.RSS = int64(number(21)) * int64(os.Getpagesize()) //nolint:gosec // as above
	return s, bad
}
