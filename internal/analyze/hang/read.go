// Package hang reads what other programs left beside the records of a job that
// hung: dumps of PyTorch's flight recorder, and stacks that py-spy or faulthandler
// printed.
//
//	f, err := hang.Read(path)  // nil for a file of another kind
//	...
//	m := hang.Meet(dumps)      // who did not come to which collective
package hang

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// File is what one file says. At is when: of a dump its newest entry, of stacks when
// the file was written; nanoseconds.
type File struct {
	Path   string
	Rank   int     // as the name of the file says, -1 where it does not
	PIDs   []int64 // numbers in the name of the file, one of them may be that of its process
	At     int64
	Dump   *Dump
	Stacks []Stack
}

var digits = regexp.MustCompile(`\d+`)

// Read reads a file, and gives nil for one that holds neither a dump nor stacks.
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
			if pid, err := strconv.ParseInt(n, 10, 64); err == nil && pid > 0 {
				out.PIDs = append(out.PIDs, pid)
			}
		}
	default:
		return nil, nil
	}
	return out, nil
}
