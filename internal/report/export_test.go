package report

import (
	"io"
	"strings"

	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// The ways of a digest, as a program that has one takes them.
var Collect = collect

// ReadDigest reads a digest into memory.
func ReadDigest(r io.Reader) (*State, error) { return readDigest(r, nil) }

// Merge adds what another State knows.
func (s *State) Merge(o *State) { s.merge(o) }

// Text writes the first screen at its widest.
func Text(w io.Writer, r *Report) error {
	_, err := io.WriteString(w, strings.Join(r.First(maxColumns), "\n")+"\n")
	return err
}

// Full writes all tables at their widest.
func Full(w io.Writer, r *Report) error {
	_, err := io.WriteString(w, strings.Join(r.Screen(maxColumns), "\n")+"\n")
	return err
}

// FirstPart is what a digest holds of the first process, unpacked.
func FirstPart(s *State) ([]byte, error) { return s.procs[0].append(nil) }

// StateOfPart is a State with one process.
func StateOfPart(part []byte) (*State, error) {
	p, err := readProcess(columns.NewReader(part), nil)
	if err != nil {
		return nil, err
	}
	return &State{procs: []*process{p}}, nil
}

// The words and the statistics of the screen.
var (
	Quantile = stats.NearestRank
)

// ParseStart reads a run.json.
func ParseStart(text []byte) bool {
	_, err := rundir.Parse(text)
	return err == nil
}
