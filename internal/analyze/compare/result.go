package compare

import "github.com/trainspan/trainspan/internal/analyze/finding"

// Kind is the verdict of a comparison.
type Kind string

// The verdicts.
const (
	Slower        Kind = "slower"
	Faster        Kind = "faster"
	NoDifference  Kind = "no_difference"  // the whole interval is within ±2 %
	Inconclusive  Kind = "inconclusive"   // none of the others
	NotComparable Kind = "not_comparable" // Reasons has the reasons
)

// The possible causes of a difference.
const (
	twoRuns      = "two_runs_a_side" // both sides have several runs, which show how much equal runs differ
	sameHosts    = "same_hosts"
	otherHosts   = "other_hosts"   // the hosts may be the cause
	unknownHosts = "unknown_hosts" // the hosts may be the cause: they are not recorded
)

// Result is the result of a comparison. Changes are relative: 0.03 is 3 %
// slower.
type Result struct {
	Version int      `json:"version"` // of this format: 1
	Kind    Kind     `json:"kind"`
	Reasons []string `json:"reasons,omitempty"`
	Base    string   `json:"base"`
	New     string   `json:"new"`
	Runs    int      `json:"base_runs"`
	NewRuns int      `json:"new_runs"`
	// Evidence tells whether the difference can be due to the change
	// (two_runs_a_side and same_hosts), or also to the hosts.
	Evidence string   `json:"evidence,omitempty"`
	Median   Interval `json:"median_step"`
	Mean     Interval `json:"mean_step"` // with pauses and checkpoints, which do not affect medians
	BaseMS   float64  `json:"base_step_ms"`
	NewMS    float64  `json:"new_step_ms"`
	Steps    [2]int   `json:"steps"` // used of base and new, of all runs of a side together
	// Correlation is the lag-1 autocorrelation of the steps of base and new.
	Correlation [2]float64    `json:"autocorrelation"`
	Phases      []PhaseChange `json:"phases,omitempty"` // the largest share of the change first
	// Difference is the additional time of the new run, in seconds of a mean rank;
	// nil if the duration of a run is unknown. Parts add up to it, those within
	// steps to StepMS, the difference of the mean steps. With several runs on a
	// side it is that of the median runs.
	Difference *float64       `json:"difference_s,omitempty"`
	StepMS     float64        `json:"mean_step_difference_ms"`
	Parts      []Part         `json:"parts,omitempty"`
	Profile    *ProfileChange `json:"profile,omitempty"` // if both runs are profiles
	// Goodput is the share of the time in steps of base and new. It grows with
	// longer steps, so it does not show which run is better.
	Goodput *[2]float64 `json:"goodput,omitempty"`
	// RunTime is the duration of base and new, in seconds of a mean rank, and
	// Account its goodput shares.
	RunTime *[2]float64     `json:"run_s,omitempty"`
	Account []AccountChange `json:"account,omitempty"`
	// BaseFinding and NewFinding are the findings with the largest cost of base and
	// new; nil without a finding or without sufficient records. With several runs
	// on a side they are those of the median run.
	BaseFinding *finding.Finding `json:"base_finding,omitempty"`
	NewFinding  *finding.Finding `json:"new_finding,omitempty"`
	Sentence    string           `json:"sentence"`
	Notes       []string         `json:"notes,omitempty"`

	// Paired is set if the interval is that of pairs of alternating runs.
	Paired bool `json:"paired,omitempty"`

	failOver, floor float64
	meanMS          [2]float64 // of base and new, as BaseMS and NewMS
}

// ExitCode returns 0 for no difference and for a faster run, 3 for a run that
// is slower by at least FailOver and Floor, 4 if there is no verdict.
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

// fails reports whether a slower run is slow enough for a failure.
func (r *Result) fails() bool {
	by, ms := r.Median, r.NewMS-r.BaseMS
	if r.byMean() {
		by, ms = r.Mean, r.meanMS[1]-r.meanMS[0]
	}
	return by.Change >= r.failOver && ms >= r.floor
}

// byMean reports whether the verdict is about the mean step, not the median: its change is significant, and that
// of the median is not or is less than half.
func (r *Result) byMean() bool {
	switch r.Kind {
	case Slower:
		return r.Mean.Low > 0 && (r.Median.Low <= 0 || r.Mean.Change > 2*r.Median.Change)
	case Faster:
		return r.Mean.High < 0 && (r.Median.High >= 0 || r.Mean.Change < 2*r.Median.Change)
	}
	return false
}
