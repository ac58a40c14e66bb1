// Package finding has the one type for what costs a training job time. A [Finding] holds the
// numbers and what they rest on; titles, sentences, tables and advice are rendered from it, and
// from nothing else. A finding without evidence has no sentence.
//
// Findings about steps come from package straggler, losses from the account of time by way of
// package report.
package finding

// Kind is what a finding is about. It is the same word in JSON.
type Kind string

// The kinds of findings about steps, and the two answers that are no finding.
const (
	Fine         Kind = "fine"          // no repair gains as much as is worth a word
	SlowRanks    Kind = "slow_ranks"    // the same ranks are late
	Imbalance    Kind = "imbalance"     // another rank is late each time, or work is given out unevenly
	InputSlow    Kind = "input"         // all ranks wait for data
	SlowTransfer Kind = "communication" // the transfer itself is slow; Ranks is the group, or empty
	Drift        Kind = "drift"         // all ranks are slower from a step on
	Hang         Kind = "hang"          // ranks wait for one that does not come
	Unknown      Kind = "unknown"       // the reason and what is needed say what is missing
)

// The kinds of losses: a share of the time of all ranks that is large. [InputSlow] and
// [SlowTransfer] are losses as well where no repair of steps gains enough.
const (
	StartUp     Kind = "start_up"
	Checkpoints Kind = "checkpoints"
	LostWork    Kind = "lost_work"
	Down        Kind = "down"
	Wait        Kind = "wait"
	Evaluation  Kind = "evaluation"
	OtherCode   Kind = "other_code"
	Copies      Kind = "copies"
	IdleDevice  Kind = "idle_device"
	Other       Kind = "other"
)

// Causes that are no phases.
const (
	CauseCompute = "compute" // forward and backward alike
	CauseMixed   = "mixed"
	CauseWork    = "work"
	// Of a hang: the ranks wait in different collectives.
	CauseMismatch = "mismatch"
	// Of a hang: ranks ended in good order after fewer steps than the others began.
	CauseUneven = "uneven_steps"
)

// Patterns in time.
const (
	MostSteps   = "most_steps"
	SingleSteps = "single_steps"
	InTurn      = "in_turn" // other ranks in each step
	Growing     = "growing" // more and more in each step
)

// Finding is one thing that costs time. The zero value is no finding and has no sentence.
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
	// GainLow and GainHigh bound it with 95 %: how far the gains of parts of the run are
	// apart. Zero where there are too few steps to say. GainLow without Gain is the least that
	// it can be: what else the repair would gain is in a phase that also holds the wait.
	GainLow  float64 `json:"gain_low,omitempty"`
	GainHigh float64 `json:"gain_high,omitempty"`
	Cost     float64 `json:"cost,omitempty"`
	// Saved is what the repair saves of a judged step in the mean, in milliseconds; at
	// least that where only GainLow is known.
	Saved float64 `json:"saved_step_ms,omitempty"`
	// RunTime is how long the run took, and RunRepaired how long it takes about with the
	// repair, in seconds; zero where only the steps are known. RunLow and RunHigh bound
	// RunRepaired with 95 %; zero where the steps do not say.
	RunTime     float64 `json:"run_s,omitempty"`
	RunRepaired float64 `json:"run_repaired_s,omitempty"`
	RunLow      float64 `json:"run_repaired_low_s,omitempty"`
	RunHigh     float64 `json:"run_repaired_high_s,omitempty"`
	// SegmentGain is the same of the steps of the interval alone.
	SegmentGain float64   `json:"segment_gain,omitempty"`
	Evidence    *Evidence `json:"evidence,omitempty"`
	// Step is what the affected steps of the first of Ranks consist of, the largest part first;
	// empty where only one number is known.
	Step []Part `json:"step_parts,omitempty"`
	// Lost is the time of a loss, of each rank in the mean, or of the rank of Ranks if OfOne;
	// Parts are what it consists of.
	Lost  int64  `json:"lost_ns,omitempty"`
	OfOne bool   `json:"of_one_rank,omitempty"`
	Parts []Part `json:"parts,omitempty"`
	// NotKnown is what the records leave open about the finding, as clauses.
	NotKnown []string `json:"not_known,omitempty"`

	// Proof is the table that shows why the sentence is true. JSON has it beside the sentence.
	Proof *Proof `json:"-"`
	// Job is what the job has that sentences and advice may be about.
	Job Job `json:"-"`
}

// Part is a named part of a time.
type Part struct {
	Name string `json:"name"`
	Time int64  `json:"ns"`
}

// Job is what a job has that sentences and advice may be about.
type Job struct {
	OneHost bool // all ranks are on one
	Devices bool // on record
	Ranks   int  // how many there are, 0 if that is not known
}

// Evidence is what a finding rests on. Times are milliseconds.
type Evidence struct {
	Affected int `json:"affected_steps"`         // steps with an excess
	Interval int `json:"interval_steps"`         // steps of the interval
	Judged   int `json:"judged_steps,omitempty"` // all that were judged; 0 is not known
	Every    int `json:"every_steps,omitempty"`  // how many steps apart single ones are; 0 where that varies
	// Excess is the mean over the affected steps of what ranks take longer than comparable
	// ones, or all ranks than before. ExcessLow and ExcessHigh bound it with 95 %; zero where
	// fewer than three steps are affected.
	Excess     float64 `json:"excess_ms,omitempty"`
	ExcessLow  float64 `json:"excess_low_ms,omitempty"`
	ExcessHigh float64 `json:"excess_high_ms,omitempty"`
	// Level is what the ranks take for the cause in the affected steps, in the mean: those named, or
	// all where none is. Others is what the other ranks take, and Before what all took before.
	Level  float64 `json:"level_ms,omitempty"`
	Others float64 `json:"others_ms,omitempty"`
	Before float64 `json:"before_ms,omitempty"`
	// Chance is how often ranks that are drawn at random for each step are as late; 1 of
	// what is not tested so far.
	Chance float64 `json:"chance,omitempty"`
	// Waited is, of a hang, how long, to the last sign of life; of a slow start, how long each rank
	// waited for the one that is named.
	Waited float64 `json:"waited_ms,omitempty"`
	// LastStep is, of a hang, the step after which the ranks named began no other.
	LastStep *int64 `json:"last_step,omitempty"`
	// Seen is, of a hang, what others than the steps say of the ranks, as a clause: how a process ended, or
	// what a flight recorder has.
	Seen string `json:"seen,omitempty"`
}

// all reports whether the interval is all that was judged.
func (e *Evidence) all() bool { return e.Judged > 0 && e.Interval >= e.Judged }

// IsProblem reports whether a kind is something that costs time.
func (k Kind) IsProblem() bool { return k != "" && k != Fine && k != Unknown }

// IsOfSteps reports whether a kind is one of those that a repair of steps would gain from, or a hang.
func (k Kind) IsOfSteps() bool {
	switch k {
	case SlowRanks, Imbalance, InputSlow, SlowTransfer, Drift, Hang:
		return true
	}
	return false
}

var titles = map[Kind]string{
	SlowRanks: "SLOW RANK", Imbalance: "IMBALANCE", InputSlow: "INPUT", SlowTransfer: "COMMUNICATION", Drift: "DRIFT", Hang: "HANG",
	StartUp: "START-UP", Checkpoints: "CHECKPOINTS", LostWork: "LOST WORK", Down: "DOWN", Wait: "WAIT", Evaluation: "EVALUATION",
	OtherCode: "OTHER CODE", Copies: "COPIES", IdleDevice: "IDLE DEVICE", Other: "OTHER",
	Fine: "NO PROBLEM FOUND", Unknown: "UNKNOWN",
}

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{Fine, Unknown, SlowRanks, Imbalance, InputSlow, SlowTransfer, Drift, Hang, StartUp, Checkpoints, LostWork, Down, Wait, Evaluation, OtherCode, Copies, IdleDevice, Other}
}

// Causes are the causes that are no phases.
func Causes() []string {
	return []string{CauseCompute, CauseMixed, CauseWork, CauseMismatch, CauseUneven}
}

// Title is the kind as the heading of a screen.
func (k Kind) Title() string { return titles[k] }

// Title is the heading of the finding.
func (f *Finding) Title() string {
	if f.Kind == SlowRanks && len(f.Ranks) > 1 {
		return f.Kind.Title() + "S"
	}
	return f.Kind.Title()
}

// rests reports whether the finding has what its sentence would state.
func (f *Finding) rests() bool {
	switch {
	case !f.Kind.IsProblem():
		return false
	case f.Evidence == nil && len(f.Parts) == 0:
		return false
	case f.Kind == SlowRanks:
		return len(f.Ranks) > 0
	}
	return true
}

// CostOf is the share of the time that a repair with a gain saves.
func CostOf(gain float64) float64 { return 1 - 1/max(gain, 1) }

// InRun says what the finding costs in a run: it took so many seconds, and the repair saves so
// many of them, at most bound.
func (f *Finding) InRun(took, saved, bound float64) {
	f.RunTime = took
	f.RunRepaired = max(took-min(saved, bound), 0)
	f.RunLow, f.RunHigh = 0, 0
	if least, most, ok := f.uncertain(); ok {
		f.RunLow = max(took-min(saved*most, bound), 0)
		f.RunHigh = max(took-min(saved*least, bound), 0)
	}
}

// uncertain returns how many times as much as stated the repair saves at least and at most, with 95 %, in
// these steps. It rests on the excess of the affected steps, whose number is known; else, where all steps
// are affected alike, on how the gain differs between parts of the run.
func (f *Finding) uncertain() (least, most float64, ok bool) {
	e := f.Evidence
	switch {
	case f.Gain == 0 || e == nil:
		return 0, 0, false
	case e.ExcessHigh > 0:
		return max(e.ExcessLow, 0) / e.Excess, e.ExcessHigh / e.Excess, true
	case f.Kind == Imbalance && f.GainHigh > 0 && 10*e.Affected >= 9*e.Judged:
		cost := CostOf(f.Gain)
		return CostOf(f.GainLow) / cost, CostOf(f.GainHigh) / cost, true
	}
	return 0, 0, false
}
