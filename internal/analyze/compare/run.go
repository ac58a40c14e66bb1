package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// Run is what is compared of one run. Fields that are empty or zero are not
// known and are not compared.
type Run struct {
	Name      string
	WorldSize int
	Batch     int64     // samples of all ranks per step
	Tokens    int64     // tokens of all ranks per step
	Model     string    // a tag
	Missing   []int     // ranks without data
	Periods   []float64 // nanoseconds of each step after the slow start of its attempt, in order; what package straggler calls the period
	// Phases holds the time of each step by phase, nanoseconds, as long as Periods.
	Phases  map[string][]float64
	Goodput float64  // share of the rank time that is in steps, 0 … 1
	Account []Share  // where its time went, as the report shows it
	Hosts   []string // each once, sorted; none where one is not known
	Spent   Spent
	Table   *straggler.Table // of the longest attempt
	Profile *profile.Use     // of all ranks, where the run is a profile
}

// minSteps is how many steps of a run can be compared: fewer than ten blocks of
// four say nothing about how steps hang together.
const minSteps = 40

// minWaves is how many steps make an interval. Profiles have few steps: without an interval
// they are compared by what is in them.
const minWaves = 3

// reasons returns those why runs cannot be compared, each once.
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
	differ("batch", a.Batch, b.Batch, a.Batch != 0 && b.Batch != 0)
	differ("model", a.Model, b.Model, a.Model != "" && b.Model != "")
	differ("ranks without data", fmt.Sprint(a.Missing), fmt.Sprint(b.Missing), true)
	// Tokens of a step vary with the data; 1 % is the effect that is looked for.
	if a.Tokens != 0 && b.Tokens != 0 && 100*max(a.Tokens-b.Tokens, b.Tokens-a.Tokens) > min(a.Tokens, b.Tokens) {
		out = append(out, fmt.Sprintf("tokens per step: %d and %d", a.Tokens, b.Tokens))
	}
	if len(a.Phases) > 0 && len(b.Phases) > 0 && !(a.profiled() && b.profiled()) {
		differ("phases", strings.Join(a.phases(), " "), strings.Join(b.phases(), " "), true)
	}
	for _, r := range []*Run{a, b} {
		if n := len(r.Periods); n < minSteps && !r.profiled() {
			out = append(out, fmt.Sprintf("%s has %d steps after its warm-up; at least %d are needed", r.Name, n, minSteps))
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

// phases returns the phases that take any time.
func (r *Run) phases() []string {
	var out []string
	for p, x := range r.Phases {
		if slices.ContainsFunc(x, func(v float64) bool { return v > 0 }) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// profiled reports whether the run is a profile with steps.
func (r *Run) profiled() bool { return r.Profile != nil && r.Profile.Steps > 0 }

// Share is a part of the time of a run.
type Share struct {
	Name    string
	Seconds float64 // of a mean rank
}

// Spent is where the time of a run went, nanoseconds of a mean rank.
type Spent struct {
	Wall     float64
	StartUp  float64 // until steps are made, warm-up included, of all attempts
	Lost     float64 // steps that were made again, or never finished
	Down     float64 // between attempts, and where a rank was not there
	StepsRun int     // that were kept
}
