package evidence

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/infile"
)

// File is what one file says. At is when: of a dump its newest entry, of stacks when
// the file was written; nanoseconds.
type File struct {
	Path   string
	Rank   int     // as the name of the file says, -1 where it does not
	PIDs   []int64 // numbers in the name of the file, of which one may be that of its process
	At     int64
	Dump   *Dump
	Stacks []Stack
}

var digits = regexp.MustCompile(`\d+`)

// Read reads a file, and gives nil for one that holds neither a dump nor stacks.
func Read(path string) (*File, error) {
	f, err := infile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	out := &File{Path: path, Rank: identity.RankInName(path)}
	switch f.Kind {
	case infile.FlightDump:
		if out.Dump, err = readDump(f); err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", path, err)
		}
		out.Dump.Rank, out.At = out.Rank, out.Dump.At
	case infile.Stacks:
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
