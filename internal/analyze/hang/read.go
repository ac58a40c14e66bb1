// Package hang reads the files of other programs beside the records of a job
// that hung: dumps of PyTorch's flight recorder, and stacks from py-spy or
// faulthandler.
//
//	f, err := hang.Read(path)  // nil for a file of another kind
//	...
//	m := hang.Meet(dumps)      // who did not enter which collective
package hang

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// File is the content of one file. At is the time of a dump's newest entry, or
// when stacks were taken: the time in a name by StackName, else the modification
// time of the file; nanoseconds.
type File struct {
	Path   string
	Rank   int     // from the name of the file, -1 without one
	PIDs   []int64 // numbers in the name of the file, one of which may be the process id
	At     int64
	Dump   *Dump
	Stacks []Stack
}

var digits = regexp.MustCompile(`\d+`)

// StackName returns the name of a file with the stack of a process. It has the
// time, because a copy of the file may have another modification time.
func StackName(rank int, pid int64, at time.Time) string {
	return fmt.Sprintf("stacks-rank%d-%d-%d.txt", rank, pid, at.UnixMilli())
}

// Read reads a file. It returns nil if the file has neither a dump nor stacks.
func Read(path string) (*File, error) {
	f, err := fsread.Open(path)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	out := &File{Path: path, Rank: identity.RankInName(path)}
	switch f.Kind {
	case fsread.FlightDump:
		if out.Dump, err = readDump(f); err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", path, err)
		}
		out.Dump.Rank, out.At = out.Rank, out.Dump.At
	case fsread.Stacks:
		out.Stacks = readStacks(f)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		out.At = info.ModTime().UnixNano()
		for _, n := range digits.FindAllString(info.Name(), 8) {
			switch v, err := strconv.ParseInt(n, 10, 64); {
			case err != nil || v <= 0:
			case v >= 1e12 && v < 1e13: // milliseconds, from 2001 to 2286
				out.At = v * 1e6
			default:
				out.PIDs = append(out.PIDs, v)
			}
		}
	default:
		return nil, nil
	}
	return out, nil
}
