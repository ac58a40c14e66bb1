package straggler

// Kind is what a verdict or a finding says.
type Kind string

// The kinds of verdicts.
const (
	Fine         Kind = "fine"          // no repair gains as much as is worth a word
	SlowRanks    Kind = "slow_ranks"    // the same ranks are late
	Imbalance    Kind = "imbalance"     // another rank is late each time, or work is given out unevenly
	InputSlow    Kind = "input"         // all ranks wait for data
	SlowTransfer Kind = "communication" // the transfer itself is slow; Ranks is the group, or empty
	Drift        Kind = "drift"         // all ranks are slower from a step on
	Hang         Kind = "hang"          // ranks wait for one that does not come
	Unknown      Kind = "unknown"       // Reason and Needed say what is missing
)

// Reasons for an unknown verdict.
const (
	reasonHidden      = "barrier_hidden" // the wait for other ranks lies in a span with work, or in none
	reasonNoBarrier   = "no_barrier"     // nothing was found at which the ranks meet
	reasonMissingRank = "missing_rank"   // a rank without data may be the one that is waited for
	reasonTooFewSteps = "too_few_steps"
	ReasonSingleRank  = "single_rank" // nobody to compare with
	reasonReplay      = "replay"      // the replay of what was recorded takes another time
	reasonDevice      = "no_device_times"
	reasonDamaged     = "damaged_files" // of a rank that would be named
	reasonLoader      = "loader"        // a repair would gain, if batches came as soon: Suspected
	reasonChance      = "chance"        // a repair would gain, if what it repairs is no chance: Suspected
)

// Causes that are no phases.
const (
	causeCompute = "compute" // forward and backward alike
	causeMixed   = "mixed"
	causeWork    = "work"
	// Of a hang: the ranks wait in different collectives.
	CauseMismatch = "mismatch"
	// Of a hang: ranks ended in good order after fewer steps than the others began.
	CauseUneven = "uneven_steps"
)

// Patterns in time.
const (
	patternMost   = "most_steps"
	patternSingle = "single_steps"
	patternTurn   = "in_turn" // other ranks in each step
	patternGrows  = "growing" // more and more in each step
)

// Finding is one thing that costs time.
type Finding struct {
	Kind  Kind     `json:"kind"`
	Ranks []int    `json:"ranks,omitempty"`
	Hosts []string `json:"hosts,omitempty"`
	// Cause is the name of a phase, or one of the causes above; Causes has it by
	// rank.
	Cause  string         `json:"cause,omitempty"`
	Causes map[int]string `json:"causes,omitempty"`
	// FromStep is the first affected step, and ToStep the first one after it
	// has ended; -1: it lasts to the end of the data.
	FromStep int64 `json:"from_step"`
	ToStep   int64 `json:"to_step"`
	// Pattern says whether most steps of the interval are affected, or single ones, or
	// other ranks in each step.
	Pattern string `json:"pattern,omitempty"`
	// Gain is the time of all judged steps over what they would have taken with the
	// repair; zero where that is not known. Cost is the share of that time.
	Gain float64 `json:"gain,omitempty"`
	// GainLow and GainHigh bound it with 95 %: how far the gains of stretches of steps lie
	// apart. Zero where there are too few steps to say. GainLow without Gain is the least that
	// it can be: what else the repair would gain is in a phase that also holds the wait.
	GainLow  float64 `json:"gain_low,omitempty"`
	GainHigh float64 `json:"gain_high,omitempty"`
	Cost     float64 `json:"cost,omitempty"`
	// Saved is what the repair saves of a judged step in the mean, in milliseconds; at
	// least that where only GainLow is known.
	Saved float64 `json:"saved_step_ms,omitempty"`
	// RunTime is how long the run took, and RunRepaired how long it takes about with the
	// repair, in seconds; zero where only the steps are known. See [Verdict.InRun].
	RunTime     float64 `json:"run_s,omitempty"`
	RunRepaired float64 `json:"run_repaired_s,omitempty"`
	// SegmentGain is the same of the steps of the interval alone.
	SegmentGain float64   `json:"segment_gain,omitempty"`
	Evidence    *Evidence `json:"evidence,omitempty"`
}

// Evidence is what a finding rests on. Times are milliseconds.
type Evidence struct {
	Affected  int     `json:"affected_steps"`        // steps with an excess
	Interval  int     `json:"interval_steps"`        // steps of the interval
	Every     int     `json:"every_steps,omitempty"` // how many steps apart single ones are; 0 where that varies
	Excess    float64 `json:"excess_ms,omitempty"`   // median excess over comparable ranks
	ExcessMAD float64 `json:"excess_mad_ms,omitempty"`
	Level     float64 `json:"level_ms,omitempty"`  // what all ranks have, for findings without a rank
	Before    float64 `json:"before_ms,omitempty"` // and had before
	// Chance is how often ranks that are drawn at random for each step are as late; 1 of
	// what is not tested so far.
	Chance float64 `json:"chance,omitempty"`
	Waited float64 `json:"waited_ms,omitempty"` // of a hang: how long, to the last sign of life
	// LastStep is, of a hang, the step after which the ranks named began no other.
	LastStep *int64 `json:"last_step,omitempty"`
}

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
	Finding
	Reason   string   `json:"reason,omitempty"` // why it is unknown
	Reasons  []string `json:"reasons,omitempty"`
	Suspects []int    `json:"suspects,omitempty"` // who it may be, where the evidence does not suffice
	// Suspected is what costs time if it is no chance: of an unknown verdict for that reason, and of ranks
	// that are late in turn.
	Suspected *Finding `json:"suspected,omitempty"`
	Needed    string   `json:"needed,omitempty"` // evidence that would settle it
	Next      string   `json:"next_action,omitempty"`
	Sentence  string   `json:"sentence"`
	// Witness is what PyTorch's flight recorder left about a hang.
	Witness []string `json:"witness,omitempty"`
	// Stacks are where the ranks of a hang are.
	Stacks []Stack `json:"stacks,omitempty"`
	// Second is a sentence on the best repair after the first one.
	Second   string   `json:"second,omitempty"`
	StepTime float64  `json:"step_ms,omitempty"` // median
	Coverage Coverage `json:"coverage"`
	// Others are the findings that gain less, the largest first.
	Others  []Finding `json:"other_findings,omitempty"`
	Ranking []RankRow `json:"ranks_table,omitempty"`
	// Waits is nil where nothing on record says that ranks wait for each other.
	Waits *Waits `json:"waits,omitempty"`
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
	case Fine:
		return 0
	case Unknown:
		return 4
	}
	return 3
}
