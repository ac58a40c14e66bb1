package dftracer

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/identity"
)

// Process says who a trace is about. Every empty field is filled in from the
// running process, which is right except for importers that write on behalf
// of another one.
type Process struct {
	PID, PPID int
	Host      string // host name
	Exec      string // base name of the program
	Command   string // command line, its arguments joined by ";"; only the program unless given, see [CommandLine]
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
		p.Host = identity.HostName()
	}
	if p.Command == "" {
		p.Command = dft.Arguments()[0]
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
