package straggler

import (
	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Reasons for an unknown verdict.
const (
	reasonHidden      = "barrier_hidden" // the wait for other ranks is hidden in a span with work, or in no span
	reasonNoBarrier   = "no_barrier"     // no meeting of the ranks was found
	reasonPeers       = "unknown_peers"  // ranks wait for messages of unknown ranks
	reasonMissingRank = "missing_rank"   // a rank without data may be the one waited for
	reasonTooFewSteps = "too_few_steps"
	ReasonSingleRank  = "single_rank" // no rank to compare with
	reasonNoSteps     = "no_steps"    // ranks are recorded without single steps
	reasonReplay      = "replay"      // the replay differs too much from the recorded times
	reasonDevice      = "no_device_times"
	reasonDamaged     = "damaged_files" // of a rank that would be named
	reasonLoader      = "loader"        // the repair gains only if batches arrive faster; see Suspected
	reasonChance      = "chance"        // the repair gains, but what it repairs may be chance; see Suspected
)

// Coverage describes the data that a verdict is based on.
type Coverage struct {
	Expected  int   `json:"ranks_expected"`
	Seen      int   `json:"ranks_seen"`
	Missing   []int `json:"ranks_missing,omitempty"` // without usable steps, at most 64 of them
	Steps     int   `json:"steps_used"`
	FirstStep int64 `json:"first_step"`
	LastStep  int64 `json:"last_step"`
	SlowStart int   `json:"slow_start_steps,omitempty"` // steps left out before FirstStep
	// MissingMore is the number of missing ranks that Missing does not list.
	MissingMore int `json:"ranks_missing_more,omitempty"`
	// ReplayError is the relative difference between the replayed and the recorded time.
	ReplayError float64 `json:"replay_error,omitempty"`
	// Disputed counts steps that two records describe differently, as happens if two processes write for one
	// rank.
	Disputed  int  `json:"disputed_steps,omitempty"`
	Forgotten bool `json:"older_steps_forgotten,omitempty"`
	// WindowSteps is the number of steps per judged mean, 0 if each step was judged. With windows, first
	// steps are accurate to a window and single late steps are not judged.
	WindowSteps int `json:"window_steps,omitempty"`
}

// RankRow is one rank in the table that supports a verdict: a straggler has a high compute time and no wait,
// the others the reverse. Times are median milliseconds per step, except that Caused is a mean.
type RankRow struct {
	Rank   int                `json:"rank"`
	Host   string             `json:"host,omitempty"`
	Role   string             `json:"role,omitempty"`
	Own    float64            `json:"own_ms"`
	Excess float64            `json:"excess_ms"`
	Phases map[string]float64 `json:"phases_ms"`
	Wait   float64            `json:"wait_ms"`    // for others
	Last   float64            `json:"last_share"` // fraction of steps in which the others waited longest for this rank
	Caused float64            `json:"caused_ms"`  // wait of other ranks per step, summed over them
}

// Verdict is the diagnosis of one run. Its headline is the embedded finding.
type Verdict struct {
	Version int `json:"version"` // format version: 2
	finding.Finding
	Reason   string   `json:"reason,omitempty"` // why the verdict is unknown
	Reasons  []string `json:"reasons,omitempty"`
	Suspects []int    `json:"suspects,omitempty"` // ranks that may be the cause if the evidence is insufficient
	// Suspected is a finding that may be chance. It is set for an unknown verdict with that reason, and for
	// ranks that are late in turn.
	Suspected *finding.Finding `json:"suspected,omitempty"`
	Needed    string           `json:"needed,omitempty"` // data that would settle an unknown verdict
	Next      string           `json:"next_action,omitempty"`
	Sentence  string           `json:"sentence"`
	// Witness holds what PyTorch's flight recorder recorded about a hang.
	Witness []string `json:"witness,omitempty"`
	// Stacks are the call stacks of the ranks of a hang.
	Stacks []Stack `json:"stacks,omitempty"`
	// Second is a sentence on the second best repair.
	Second   string   `json:"second,omitempty"`
	StepTime float64  `json:"step_ms,omitempty"` // median
	Coverage Coverage `json:"coverage"`
	// Others are the remaining findings, the largest gain first.
	Others  []finding.Finding `json:"other_findings,omitempty"`
	Ranking []RankRow         `json:"ranks_table,omitempty"`
	// Waits is nil if no record shows that ranks wait for each other.
	Waits *Waits `json:"waits,omitempty"`

	below []finding.Finding // findings below the reporting threshold of their kind
}

// Stack is the position of a rank of a hang, from a stack dump of its process.
type Stack struct {
	Rank     int      `json:"rank"`
	Place    string   `json:"place"`    // innermost line of the program's own code, such as train.py:41
	Function string   `json:"function"` // function called there, or else the function that contains the line
	From     string   `json:"from"`     // py-spy or faulthandler
	At       int64    `json:"at_ns"`
	After    float64  `json:"after_ms,omitempty"` // how long the ranks had waited at that time
	Frames   []string `json:"frames"`             // innermost first
}

// ExitCode returns an exit code for CI: 0 if no problem was found, 3 if something costs time, 4 if the
// verdict is unknown.
func (v *Verdict) ExitCode() int {
	switch v.Kind {
	case finding.Fine:
		return 0
	case finding.Unknown:
		return 4
	}
	return 3
}
