package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/tracefile"
)

// Problem is one defect of a trace.
type Problem struct {
	Line int // counted from 1; 0 for the whole trace
	Rule string
	Text string
}

// String returns the problem on one line.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Report is the result of a validation.
type Report struct {
	Dialect  tracefile.Dialect
	Lines    int // physical lines, including an unfinished last one
	Events   int // complete events, including the framing, and counters
	Spans    int // complete events other than the framing
	Counters int // samples
	Metadata int
	Lanes    int            // different pairs of pid and tid that have events
	Open     int            // spans begun but not ended
	Orphans  int            // events whose parent is not in the trace
	Lost     int            // events that the trace itself reports as missing
	Counts   map[string]int // "cat/name/ph" to the number of records
	Count    int            // of problems; Problems has the first 100
	Problems []Problem
	// Groups has every kind of problem, in the order of their first lines.
	Groups []ProblemGroup
}

// maxProblems bounds the number of single problems in a report.
const maxProblems = 100

// ProblemGroup is all problems of one kind.
type ProblemGroup struct {
	Rule  string // the broken rule, in a few words
	Count int
	First Problem
}

// OK reports whether no problem was found.
func (r *Report) OK() bool { return r.Count == 0 }

// Err returns nil or an error that names the first problems.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	text := make([]string, 0, 10)
	for _, p := range r.Problems[:min(len(r.Problems), 10)] {
		text = append(text, p.String())
	}
	return fmt.Errorf("dftracer: %d problems: %s", r.Count, strings.Join(text, "; "))
}

// problem counts a defect. Problems keeps the first ones in the order of lines.
func (r *Report) problem(p Problem) {
	r.Count++
	r.group(ProblemGroup{p.Rule, 1, p})
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, p)
	}
}

// group adds problems to a kind.
func (r *Report) group(g ProblemGroup) {
	i := slices.IndexFunc(r.Groups, func(have ProblemGroup) bool { return have.Rule == g.Rule })
	if i < 0 {
		r.Groups = append(r.Groups, g)
		return
	}
	r.Groups[i].Count += g.Count
	if g.First.Line < r.Groups[i].First.Line {
		r.Groups[i].First = g.First
	}
}

func (r *Report) sortGroups() {
	slices.SortStableFunc(r.Groups, func(a, b ProblemGroup) int { return cmp.Compare(a.First.Line, b.First.Line) })
}

// Options relaxes a validation. The zero value, and nil, are strict.
type Options struct {
	// AllowUnfinished accepts a trace without end event and closing bracket, such
	// as the trace of a running or killed process, which may lack parents.
	AllowUnfinished bool
	// AllowMissingParents accepts a p_idx that names no event of the trace. Parts
	// of a rotated trace, and traces that report lost events, are always accepted.
	AllowMissingParents bool
	// AllowOutliving accepts events that end after, or begin before, their parent.
	AllowOutliving bool
	// AllowForeign accepts what other producers and their tools do: repeated and
	// missing ids, parents that were never written, framing that is missing,
	// repeated or in the middle (as in merged traces), commas between records,
	// blank and long lines, arguments without hhash, and partial overlaps on a
	// lane. Every record still has to be strict JSON with the right types.
	AllowForeign bool
	// Memory bounds the bytes held to compare events with each other, 32 MiB if
	// zero. The rest is sorted in temporary files in TempDir, by default the
	// system's: about 60 bytes per event.
	Memory  int64
	TempDir string
	// Stop, if not nil, is called now and then; its error ends the validation and
	// is returned. The Err method of a context fits.
	Stop func() error
}
