package dftracer

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/identity"
)

// Process says who a trace is about. Every empty field of the first group is filled
// in from the running process, which is right except for importers that write on
// behalf of another one. What is empty of the second, its place in a job, is unknown.
type Process struct {
	PID, PPID int
	Host      string // host name
	Exec      string // base name of the program
	Command   string // command line, its arguments joined by ";"; only the program unless given, see [CommandLine]
	Dir       string // working directory

	// Rank, when not nil, replaces {rank} in the path and is written as the
	// PR record. Without it {rank} becomes 0.
	Rank *int
	// WorldSize is how many ranks the job has; 0 is unknown. Where it is above 1 it is an
	// argument of the start event, so that readers can tell which ranks are missing, and
	// where the path has no {rank} besides, "-rank2" goes before its extension.
	WorldSize int
	// Attempt counts the starts of the job from zero; nil is unknown. With
	// JobID, the job's id at the launcher, and SessionTag it becomes an
	// argument of the start event.
	Attempt    *int
	JobID      string
	SessionTag string
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
