// Package finding defines [Finding], the single type for problems that cost a training job time. A [Finding]
// holds the numbers and their evidence; titles, sentences, tables and advice are rendered only from it. A
// finding without evidence has no sentence.
//
// Findings about steps come from package straggler, losses from the goodput accounting through package
// report.
package finding

// Kind is the kind of a finding. JSON uses the same words.
type Kind string

// The kinds of findings about steps, and the two answers that are not findings.
const (
	Fine         Kind = "fine"          // no repair gains enough to report
	SlowRanks    Kind = "slow_ranks"    // the same ranks are late
	Imbalance    Kind = "imbalance"     // the late rank changes from step to step, or work is distributed unevenly
	InputSlow    Kind = "input"         // all ranks wait for data
	SlowTransfer Kind = "communication" // the transfer itself is slow; Ranks is the group, or empty
	Drift        Kind = "drift"         // all ranks are slower from a step on
	Hang         Kind = "hang"          // ranks wait for one that does not arrive
	Unknown      Kind = "unknown"       // Reason and Needed of the verdict report what is missing
)

// The kinds of losses: a large fraction of the time of all ranks. [InputSlow] and [SlowTransfer] are losses
// too if no repair of steps gains enough.
const (
	StartUp     Kind = "start_up"
	Checkpoints Kind = "checkpoints"
	LostWork    Kind = "lost_work"
	Down        Kind = "down"
	Wait        Kind = "wait"
	Evaluation  Kind = "evaluation"
	OtherCode   Kind = "other_code"
	Recompile   Kind = "recompilation"
	Copies      Kind = "copies"
	IdleDevice  Kind = "idle_device"
	Other       Kind = "other"
)

// Causes other than phases.
const (
	CauseCompute = "compute" // forward and backward alike
	CauseMixed   = "mixed"
	CauseWork    = "work"
	// Of a hang: ranks wait in different collectives.
	CauseMismatch = "mismatch"
	// Of a hang: ranks ended normally after fewer steps than the others began.
	CauseUneven = "uneven_steps"
)

// Patterns over time.
const (
	MostSteps   = "most_steps"
	SingleSteps = "single_steps"
	InTurn      = "in_turn" // different ranks in each step
	Growing     = "growing" // increasing from step to step
)

// Finding is one problem that costs time. The zero value is not a finding and has no sentence.
type Finding struct {
	Kind  Kind     `json:"kind"`
	Ranks []int    `json:"ranks,omitempty"`
	Hosts []string `json:"hosts,omitempty"`
	// Cause is the name of a phase or one of the causes above. Causes holds it by rank.
	Cause  string         `json:"cause,omitempty"`
	Causes map[int]string `json:"causes,omitempty"`
	// FromStep is the first affected step, and ToStep the first step after the problem ended; -1 means that
	// it lasts to the end of the data.
	FromStep int64 `json:"from_step"`
	ToStep   int64 `json:"to_step"`
	// Pattern is whether most steps of the interval are affected, or single ones, or different ranks in each
	// step, or whether the problem grows.
	Pattern string `json:"pattern,omitempty"`
	// Gain is the speed-up by the repair: the time of all judged steps divided by their time with the repair,
	// 0 if unknown. Cost is the fraction of the time that the repair saves.
	Gain float64 `json:"gain,omitempty"`
	// GainLow and GainHigh are the 95 % confidence bounds of Gain, from the variation between parts of the
	// run; 0 if there are too few steps. GainLow without Gain is a lower bound only: the rest of the gain is
	// in a phase that also contains the wait.
	GainLow  float64 `json:"gain_low,omitempty"`
	GainHigh float64 `json:"gain_high,omitempty"`
	Cost     float64 `json:"cost,omitempty"`
	// Saved is the time that the repair saves per judged step (mean), in milliseconds; a lower bound if only
	// GainLow is known.
	Saved float64 `json:"saved_step_ms,omitempty"`
	// RunTime is the duration of the run, and RunRepaired its approximate duration with the repair, in
	// seconds; 0 if only the steps are known. RunLow and RunHigh are the 95 % confidence bounds of
	// RunRepaired; 0 if unknown.
	RunTime     float64 `json:"run_s,omitempty"`
	RunRepaired float64 `json:"run_repaired_s,omitempty"`
	RunLow      float64 `json:"run_repaired_low_s,omitempty"`
	RunHigh     float64 `json:"run_repaired_high_s,omitempty"`
	// SegmentGain is the gain over the steps of the interval alone.
	SegmentGain float64   `json:"segment_gain,omitempty"`
	Evidence    *Evidence `json:"evidence,omitempty"`
	// Step is the composition of the affected steps of the first of Ranks, the largest part first; empty if
	// only one number is known.
	Step []Part `json:"step_parts,omitempty"`
	// Lost is the time of a loss per rank (mean), of the single rank of Ranks if OfOne is set, or per waiting
	// rank if Kind is [Wait] and Ranks has the rank that the others wait for. Parts are its components, per
	// rank (mean).
	Lost  int64  `json:"lost_ns,omitempty"`
	OfOne bool   `json:"of_one_rank,omitempty"`
	Parts []Part `json:"parts,omitempty"`
	// NotKnown lists, as clauses, what the records leave open about the finding.
	NotKnown []string `json:"not_known,omitempty"`

	// Proof is the table that supports the sentence. JSON has it next to the sentence.
	Proof *Proof `json:"-"`
	// Job holds properties of the job that sentences and advice depend on.
	Job Job `json:"-"`
}

// Part is a named part of a time.
type Part struct {
	Name string `json:"name"`
	Time int64  `json:"ns"`
}

// Job holds properties of a job that sentences and advice depend on.
type Job struct {
	OneHost bool // all ranks run on one host
	Devices bool // devices are recorded
	Ranks   int  // number of ranks, 0 if unknown
}

// Evidence is the data that a finding is based on. Times are milliseconds.
type Evidence struct {
	Affected int `json:"affected_steps"`         // steps with an excess
	Interval int `json:"interval_steps"`         // steps of the interval
	Judged   int `json:"judged_steps,omitempty"` // all judged steps; 0 if unknown
	Every    int `json:"every_steps,omitempty"`  // distance in steps between single affected steps; 0 if it varies
	// Excess is the mean over the affected steps of how much longer ranks take than comparable ranks, or all
	// ranks than before. ExcessLow and ExcessHigh are its 95 % confidence bounds; 0 if fewer than three steps
	// are affected.
	Excess     float64 `json:"excess_ms,omitempty"`
	ExcessLow  float64 `json:"excess_low_ms,omitempty"`
	ExcessHigh float64 `json:"excess_high_ms,omitempty"`
	// Level is the mean time that ranks take for the cause in the affected steps: the named ranks, or all
	// ranks if none is named. Others is the time of the other ranks, or the least of any rank if all wait for
	// data, and Before that of all ranks before the change.
	Level  float64 `json:"level_ms,omitempty"`
	Others float64 `json:"others_ms,omitempty"`
	Before float64 `json:"before_ms,omitempty"`
	// Chance is the probability that ranks drawn at random for each step are as late; 1 if it is not tested
	// so far.
	Chance float64 `json:"chance,omitempty"`
	// Waited is how long a hang lasts up to the last heartbeat. For a slow start it is how long each rank
	// waited for the named rank.
	Waited float64 `json:"waited_ms,omitempty"`
	// LastStep is, for a hang, the step after which the named ranks began no other step.
	LastStep *int64 `json:"last_step,omitempty"`
	// Seen is a clause from a source other than the steps. For a hang: how a process ended, or a flight
	// recorder. For recompilations: the reason that the compiler gave.
	Seen string `json:"seen,omitempty"`
	// Steps lists the affected steps if they are few: at most three of slow ranks, and the first ones of a loss.
	Steps []int64 `json:"steps,omitempty"`
}

// all reports whether the interval covers all judged steps.
func (e *Evidence) all() bool { return e.Judged > 0 && e.Interval >= e.Judged }

// IsProblem reports whether the kind is a problem that costs time.
func (k Kind) IsProblem() bool { return k != "" && k != Fine && k != Unknown }

// IsOfSteps reports whether the kind is a hang or one that a repair of steps would improve.
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
	OtherCode: "OTHER CODE", Recompile: "RECOMPILATION", Copies: "COPIES", IdleDevice: "IDLE DEVICE", Other: "OTHER",
	Fine: "NO PROBLEM FOUND", Unknown: "UNKNOWN",
}

// Title returns the kind as a heading.
func (k Kind) Title() string { return titles[k] }

// Title returns the heading of the finding.
func (f *Finding) Title() string {
	if f.Kind == SlowRanks && len(f.Ranks) > 1 {
		return f.Kind.Title() + "S"
	}
	return f.Kind.Title()
}

// rests reports whether the finding has the evidence for its sentence.
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

// CostOf returns the fraction of the time that a repair with the given gain saves.
func CostOf(gain float64) float64 { return 1 - 1/max(gain, 1) }

// InRun sets the cost of the finding in a run. took is the duration of the run, saved the time that the
// repair saves and bound its upper bound, all in seconds.
func (f *Finding) InRun(took, saved, bound float64) {
	f.RunTime = took
	f.RunRepaired = max(took-min(saved, bound), 0)
	f.RunLow, f.RunHigh = 0, 0
	if least, most, ok := f.uncertain(); ok {
		f.RunLow = max(took-min(saved*most, bound), 0)
		f.RunHigh = max(took-min(saved*least, bound), 0)
	}
}

// CostInRun returns the fraction of the run that the repair saves, 0 if it is unknown.
func (f *Finding) CostInRun() float64 {
	if f.RunTime <= 0 {
		return 0
	}
	return 1 - f.RunRepaired/f.RunTime
}

// uncertain returns the 95 % confidence bounds of the saving in these steps, as multiples of the stated
// saving. They come from the excess of the affected steps, whose number is known. If all steps are affected
// alike, they come from the variation of the gain between parts of the run. ok is false if neither is known.
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
