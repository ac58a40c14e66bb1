package compare

// Kind is the answer of a comparison.
type Kind string

// The answers.
const (
	Slower        Kind = "slower"
	Faster        Kind = "faster"
	NoDifference  Kind = "no_difference"  // the whole interval lies within ±2 %
	Inconclusive  Kind = "inconclusive"   // none of these can be said
	NotComparable Kind = "not_comparable" // Reasons say why
)

// What a difference may be due to.
const (
	twoRuns      = "two_runs_a_side" // what differs between two runs of the same thing was seen on both sides
	sameHosts    = "same_hosts"
	otherHosts   = "other_hosts"   // it may be the hosts
	unknownHosts = "unknown_hosts" // it may be the hosts: they are not on record
)

// Result is what a comparison says. Changes are relative: 0.03 is 3 % slower.
type Result struct {
	Version int      `json:"version"` // of this format: 1
	Kind    Kind     `json:"kind"`
	Reasons []string `json:"reasons,omitempty"`
	Base    string   `json:"base"`
	New     string   `json:"new"`
	Runs    int      `json:"base_runs"`
	NewRuns int      `json:"new_runs"`
	// Evidence says whether the difference can be due to what was changed, with
	// two_runs_a_side and same_hosts, or to the hosts as well.
	Evidence string   `json:"evidence,omitempty"`
	Median   Interval `json:"median_step"`
	Mean     Interval `json:"mean_step"` // with pauses and checkpoints, which medians do not see
	BaseMS   float64  `json:"base_step_ms"`
	NewMS    float64  `json:"new_step_ms"`
	Steps    [2]int   `json:"steps"` // used of base and new, of all runs of a side together
	// Correlation is the lag-1 autocorrelation of the steps of base and new.
	Correlation [2]float64    `json:"autocorrelation"`
	Phases      []PhaseChange `json:"phases,omitempty"` // the largest share of the change first
	// Difference is how much longer the new run took, seconds of a mean rank; nil where
	// it is not known how long a run took. Parts add up to it, those within steps to
	// StepMS, the difference of the mean steps. Of several runs a side it is that of
	// the runs in the middle.
	Difference *float64       `json:"difference_s,omitempty"`
	StepMS     float64        `json:"mean_step_difference_ms"`
	Parts      []Part         `json:"parts,omitempty"`
	Profile    *ProfileChange `json:"profile,omitempty"` // where both runs are profiles
	// Goodput is the share of the time in steps of base and new. It grows when steps take
	// longer, so it does not show which run is better.
	Goodput *[2]float64 `json:"goodput,omitempty"`
	// RunTime is how long base and new took, seconds of a mean rank, and Account where that went.
	RunTime  *[2]float64     `json:"run_s,omitempty"`
	Account  []AccountChange `json:"account,omitempty"`
	Sentence string          `json:"sentence"`
	Notes    []string        `json:"notes,omitempty"`

	// Paired says that the interval is that of pairs of runs that were made in turns.
	Paired bool `json:"paired,omitempty"`

	failOver, floor float64
}

// ExitCode returns 0 for no difference and for a faster run, 3 for a run that is
// slower by FailOver or more and by the floor, 4 when nothing can be said.
func (r *Result) ExitCode() int {
	switch r.Kind {
	case Slower:
		if r.fails() {
			return 3
		}
	case Inconclusive, NotComparable:
		return 4
	}
	return 0
}

// fails reports whether a slower run is slower by as much as is a failure.
func (r *Result) fails() bool {
	return max(r.Median.Change, r.Mean.Change) >= r.failOver && max(r.NewMS-r.BaseMS, r.StepMS) >= r.floor
}
