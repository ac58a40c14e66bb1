package dftracer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// Process says who a trace is about. Every empty field is filled in from the
// running process, which is right except for importers that write on behalf
// of another one.
type Process struct {
	PID, PPID int
	Host      string // host name
	Exec      string // base name of the program
	Command   string // command line, its arguments joined by ";"; secrets are hidden in the one found
	Dir       string // working directory
}

func (p Process) withDefaults() Process {
	if p.PID == 0 {
		p.PID = os.Getpid()
	}
	if p.PPID == 0 {
		p.PPID = os.Getppid()
	}
	if p.Host == "" {
		p.Host = hostName()
	}
	if p.Command == "" {
		p.Command = commandLine()
	}
	if p.Exec == "" {
		first, _, _ := strings.Cut(p.Command, ";")
		p.Exec = filepath.Base(first)
	}
	if p.Dir == "" {
		p.Dir, _ = os.Getwd()
	}
	return p
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return host
}

// maxCommand is how much of a command line the reference looks at.
const maxCommand = 4096

func commandLine() string {
	line, err := os.ReadFile("/proc/self/cmdline")
	line = bytes.TrimRight(line, "\x00")
	if err != nil || len(line) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return "DEFAULT"
		}
		return exe
	}
	line = line[:min(len(line), maxCommand)]
	return strings.Join(redact(strings.Split(string(line), "\x00")), ";")
}
