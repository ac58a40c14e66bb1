package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// Run has the compared values of one run. Fields that are empty or zero are
// unknown and not compared.
type Run struct {
	Name      string
	WorldSize int
	Tokens    int64     // tokens of all ranks per step
	Missing   []int     // ranks whose steps are not compared
	Periods   []float64 // nanoseconds of each step after the slow start of its attempt, in order; the period of package straggler
	// Unit names what a period is the mean of, if it is not one step: "windows of 100 steps". Steps is then the
	// number of steps.
	Unit  string
	Steps int
	// Updates is set if single steps are not on record: each has the mean of those since the last update of the
	// metrics.
	Updates bool
	// Phases holds the time of each step by phase, nanoseconds, as long as Periods.
	Phases map[string][]float64
	// HostWork names what most of the time of the phase host was, such as an evaluation or a custom span, or that no
	// span divides the steps; empty if it was other code.
	HostWork string
	Doubts   string   // why the records are not complete; empty if they are
	Goodput  float64  // share of the rank time in steps, 0 … 1
	Account  []Share  // its goodput shares, as in the report
	Hosts    []string // each once, sorted; empty if one is unknown
	Spent    Spent
	Table    *straggler.Table // of the longest attempt
	Profile  *profile.Use     // of all ranks, if the run is a profile
	// Finding is the finding with the largest cost; nil without a finding or
	// without sufficient records.
	Finding *finding.Finding
}

// minSteps is the minimum number of steps for a comparison: fewer than ten
// blocks of four do not show the correlation of steps.
const minSteps = 40

// minWaves is the minimum number of steps for an interval. Profiles have few
// steps: without an interval they are compared by their content.
const minWaves = 3

// reasons returns the reasons why runs cannot be compared, each once.
func reasons(base, next []*Run) (out []string) {
	switch {
	case len(base) == 0:
		return []string{"no base run is given"}
	case len(next) == 0:
		return []string{"no new run is given"}
	}
	add := func(a, b *Run) {
		for _, d := range differences(a, b) {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	for _, a := range base {
		for _, b := range next {
			add(a, b)
		}
	}
	return out
}

// differences returns the reasons why two runs cannot be compared.
func differences(a, b *Run) []string {
	var out []string
	differ := func(what string, x, y any, known bool) {
		if known && x != y {
			out = append(out, fmt.Sprintf("%s: %v and %v", what, x, y))
		}
	}
	differ("world size", a.WorldSize, b.WorldSize, a.WorldSize != 0 && b.WorldSize != 0)
	differ("ranks without compared steps", fmt.Sprint(a.Missing), fmt.Sprint(b.Missing), true)
	// Tokens of a step vary with the data; 1 % is the size of the effects to find.
	if a.Tokens != 0 && b.Tokens != 0 && 100*max(a.Tokens-b.Tokens, b.Tokens-a.Tokens) > min(a.Tokens, b.Tokens) {
		out = append(out, fmt.Sprintf("tokens per step: %d and %d", a.Tokens, b.Tokens))
	}
	if len(a.Phases) > 0 && len(b.Phases) > 0 && !(a.profiled() && b.profiled()) {
		if a.lacks(b) || b.lacks(a) {
			differ("phases", strings.Join(a.phases(), " "), strings.Join(b.phases(), " "), true)
		}
	}
	for _, r := range []*Run{a, b} {
		if n := len(r.Periods); n < minSteps && !r.profiled() {
			out = append(out, fmt.Sprintf("%s has %d %s after its warm-up; at least %d are needed", r.Name, n, r.unit(), minSteps))
		}
		for p, x := range r.Phases {
			if len(x) != len(r.Periods) {
				out = append(out, fmt.Sprintf("%s has %d steps with %s, but %d step times", r.Name, len(x), p, len(r.Periods)))
			}
		}
		if slices.ContainsFunc(r.Periods, func(p float64) bool { return !(p > 0) }) {
			out = append(out, r.Name+" has step times of 0 or less")
		}
	}
	return out
}

// steps returns the number of steps that the periods cover.
func (r *Run) steps() int { return cmp.Or(r.Steps, len(r.Periods)) }

// values returns how many values the periods are: one for each group of equal steps. If fewer than a third of the
// neighbors are equal, updates came with each step, and all are values.
func (r *Run) values() int {
	if !r.Updates {
		return len(r.Periods)
	}
	const equal = 2e3 // nanoseconds; times are rounded to microseconds
	n, pairs, same := 0, 0, false
	for i := 1; i < len(r.Periods); i++ {
		was := same
		if same = math.Abs(r.Periods[i]-r.Periods[i-1]) < equal; !same {
			continue
		}
		if pairs++; !was {
			n++
		}
	}
	if 3*pairs < len(r.Periods) {
		return len(r.Periods)
	}
	return n
}

// unit returns what the periods are of.
func (r *Run) unit() string { return cmp.Or(r.Unit, "steps") }

// rarePhase is the fraction of the steps up to which a phase, such as a save, says nothing about what a step is.
const rarePhase = 0.1

// phases returns the phases of usual steps.
func (r *Run) phases() []string {
	var out []string
	for p, x := range r.Phases {
		n := 0
		for _, v := range x {
			if v > 0 {
				n++
			}
		}
		if float64(n) > rarePhase*float64(len(x)) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// lacks reports whether r never has a phase of the usual steps of other.
func (r *Run) lacks(other *Run) bool {
	return slices.ContainsFunc(other.phases(), func(p string) bool {
		return !slices.ContainsFunc(r.Phases[p], func(v float64) bool { return v > 0 })
	})
}

// workOf returns the name of what most of the time of a phase was in two runs, empty if the phase says it.
func workOf(phase string, a, b *Run) string {
	if phase != straggler.Host.String() {
		return ""
	}
	return cmp.Or(b.HostWork, a.HostWork)
}

// profiled reports whether the run is a profile with steps.
func (r *Run) profiled() bool { return r.Profile != nil && r.Profile.Steps > 0 }

// Share is a part of the goodput account of a run.
type Share struct {
	Name    string
	Seconds float64 // of a mean rank
}

// Spent is the use of the time of a run, nanoseconds of a mean rank.
type Spent struct {
	Wall     float64
	StartUp  float64 // until the first steps, warm-up included, of all attempts
	Lost     float64 // steps that were repeated or not completed
	Down     float64 // between attempts, and without a rank
	StepsRun int     // the steps that count
}
