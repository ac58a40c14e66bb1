package report

import (
	"io"
	"strings"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Collect reads the files of a set into a State.
func Collect(set *job.Set) (*State, error) { return collect(set, newSpill()) }

// ReadDigest reads a digest into memory.
func ReadDigest(r io.Reader) (*State, error) { return readDigest(r, nil) }

// Merge adds the contents of another State.
func (s *State) Merge(o *State) { s.merge(o) }

// Text writes the first screen at its largest width.
func Text(w io.Writer, r *Report) error {
	_, err := io.WriteString(w, strings.Join(r.First(maxColumns), "\n")+"\n")
	return err
}

// Full writes the first screen and all tables at their largest width.
func Full(w io.Writer, r *Report) error {
	_, err := io.WriteString(w, strings.Join(r.Screen(maxColumns), "\n")+"\n")
	return err
}

// FirstPart returns the unpacked part of a digest for the first process.
func FirstPart(s *State) ([]byte, error) { return s.procs[0].append(nil) }

// StateOfPart returns a State with the process of an unpacked part.
func StateOfPart(part []byte) (*State, error) {
	p, err := readProcess(columns.NewReader(part), nil)
	if err != nil {
		return nil, err
	}
	return &State{procs: []*process{p}}, nil
}

var (
	Quantile = stats.NearestRank
)

// ParseStart reports whether text is a valid run.json.
func ParseStart(text []byte) bool {
	_, err := rundir.Parse(text)
	return err == nil
}
