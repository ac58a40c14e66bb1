package straggler

import (
	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// Reasons for an unknown verdict.
const (
	reasonHidden      = "barrier_hidden" // the wait for other ranks lies in a span with work, or in none
	reasonNoBarrier   = "no_barrier"     // nothing was found at which the ranks meet
	reasonMissingRank = "missing_rank"   // a rank without data may be the one that is waited for
	reasonTooFewSteps = "too_few_steps"
	ReasonSingleRank  = "single_rank" // nobody to compare with
	reasonNoSteps     = "no_steps"    // the ranks are on record, their single steps are not
	reasonReplay      = "replay"      // the replay of what was recorded takes another time
	reasonDevice      = "no_device_times"
	reasonDamaged     = "damaged_files" // of a rank that would be named
	reasonLoader      = "loader"        // a repair would gain, if batches came as soon: Suspected
	reasonChance      = "chance"        // a repair would gain, if what it repairs is no chance: Suspected
)

// Coverage says what the verdict could see.
type Coverage struct {
	Expected  int   `json:"ranks_expected"`
	Seen      int   `json:"ranks_seen"`
	Missing   []int `json:"ranks_missing,omitempty"` // without usable steps, at most 64 of them
	Steps     int   `json:"steps_used"`
	FirstStep int64 `json:"first_step"`
	LastStep  int64 `json:"last_step"`
	SlowStart int   `json:"slow_start_steps,omitempty"` // left out, before FirstStep
	// MissingMore is how many ranks more are missing than Missing has.
	MissingMore int `json:"ranks_missing_more,omitempty"`
	// ReplayError is by how much the replay of what was recorded differs from it, as
	// a share of the time.
	ReplayError float64 `json:"replay_error,omitempty"`
	// Disputed counts steps that two records describe differently, as two
	// writers for one rank do.
	Disputed  int  `json:"disputed_steps,omitempty"`
	Forgotten bool `json:"older_steps_forgotten,omitempty"`
	// WindowSteps is how many steps were judged by their mean, 0 where each was
	// judged: first steps are exact to that, and single late steps not judged.
	WindowSteps int `json:"window_steps,omitempty"`
}

// RankRow is one rank in the table that makes a verdict believable: a straggler
// has much own work and no wait, the others the reverse. Times are median
// milliseconds.
type RankRow struct {
	Rank   int                `json:"rank"`
	Host   string             `json:"host,omitempty"`
	Role   string             `json:"role,omitempty"`
	Own    float64            `json:"own_ms"`
	Excess float64            `json:"excess_ms"`
	Phases map[string]float64 `json:"phases_ms"`
	Wait   float64            `json:"wait_ms"`    // for others
	Last   float64            `json:"last_share"` // of the steps in which the others waited longest for it
	Caused float64            `json:"caused_ms"`  // of waiting by others, in a step
}

// Verdict is the answer for one run. Its headline is the embedded finding.
type Verdict struct {
	Version int `json:"version"` // of this format: 2
	finding.Finding
	Reason   string   `json:"reason,omitempty"` // why it is unknown
	Reasons  []string `json:"reasons,omitempty"`
	Suspects []int    `json:"suspects,omitempty"` // who it may be, where the evidence does not suffice
	// Suspected is what costs time if it is no chance: of an unknown verdict for that reason, and of ranks
	// that are late in turn.
	Suspected *finding.Finding `json:"suspected,omitempty"`
	Needed    string           `json:"needed,omitempty"` // evidence that would settle it
	Next      string           `json:"next_action,omitempty"`
	Sentence  string           `json:"sentence"`
	// Witness is what PyTorch's flight recorder left about a hang.
	Witness []string `json:"witness,omitempty"`
	// Stacks are where the ranks of a hang are.
	Stacks []Stack `json:"stacks,omitempty"`
	// Second is a sentence on the best repair after the first one.
	Second   string   `json:"second,omitempty"`
	StepTime float64  `json:"step_ms,omitempty"` // median
	Coverage Coverage `json:"coverage"`
	// Others are the findings that gain less, the largest first.
	Others  []finding.Finding `json:"other_findings,omitempty"`
	Ranking []RankRow         `json:"ranks_table,omitempty"`
	// Waits is nil where nothing on record says that ranks wait for each other.
	Waits *Waits `json:"waits,omitempty"`

	below []finding.Finding // that gain less than their kinds are reported from
}

// Stack is where a rank of a hang is, as a stack of its process shows.
type Stack struct {
	Rank     int      `json:"rank"`
	Place    string   `json:"place"`    // the innermost line of the program's own code, such as train.py:41
	Function string   `json:"function"` // what it called there, else what the line is in
	From     string   `json:"from"`     // py-spy or faulthandler
	At       int64    `json:"at_ns"`
	After    float64  `json:"after_ms,omitempty"` // how long the ranks had waited then
	Frames   []string `json:"frames"`             // the innermost first
}

// ExitCode is for CI: 0 for a run that is fine, 3 when something costs time, 4 when
// the evidence does not suffice.
func (v *Verdict) ExitCode() int {
	switch v.Kind {
	case finding.Fine:
		return 0
	case finding.Unknown:
		return 4
	}
	return 3
}
