package straggler

// Kind is what a verdict or a finding says.
type Kind string

// The kinds of verdicts.
const (
	Healthy              Kind = "healthy"                // no finding costs as much as Options.MinCost
	Straggler            Kind = "straggler"              // the same ranks are late, in most steps of an interval
	Intermittent         Kind = "intermittent_straggler" // the same ranks are late, in single steps
	RotatingStalls       Kind = "rotating_stalls"        // single steps, another rank each time: typical of garbage collection
	UnevenWork           Kind = "uneven_work"            // time follows the amount of work
	CheckpointStall      Kind = "checkpoint_stall"       // ranks wait for a rank that saves
	InputBound           Kind = "input_bound"            // all ranks wait for data
	SlowCommunication    Kind = "slow_communication"     // the transfer itself is slow; Ranks is the group, or empty
	SlowdownAll          Kind = "slowdown_all"           // all ranks are slower from a step on
	RankLost             Kind = "rank_lost"              // a rank stopped and the others wait for it
	InsufficientEvidence Kind = "insufficient_evidence"  // Reason and Needed say what is missing
)

// Reasons for insufficient evidence, and remarks on other verdicts.
const (
	ReasonBarrierHidden = "barrier_hidden" // the wait for other ranks lies in a span with work
	ReasonNoBarrier     = "no_barrier"     // nothing was found at which the ranks leave together
	ReasonMissingRank   = "missing_rank"   // a rank without data may be the one that is waited for
	ReasonWorkUnknown   = "work_unknown"   // a slow rank and a rank with more work look the same
	ReasonTooFewSteps   = "too_few_steps"
	ReasonSingleRank    = "single_rank" // nobody to compare with
)

// Causes that are no phases.
const (
	CauseCompute       = "compute" // forward and backward alike
	CauseMixed         = "mixed"
	CauseWork          = "work"
	CauseCommunication = "communication"
)

// Finding is one thing that costs time.
type Finding struct {
	Kind  Kind     `json:"kind"`
	Ranks []int    `json:"ranks,omitempty"`
	Hosts []string `json:"hosts,omitempty"`
	// Cause is the name of a phase, or one of the causes above.
	Cause string `json:"cause,omitempty"`
	// FromStep is the first affected step, and ToStep the first one after it
	// has ended; -1: it lasts to the end of the data.
	FromStep int64 `json:"from_step"`
	ToStep   int64 `json:"to_step"`
	// Slowdown is the time of the affected steps over what they would have
	// taken without this; 0 where that is not known.
	Slowdown float64 `json:"slowdown,omitempty"`
	// Cost is the share of the time of all judged steps.
	Cost     float64   `json:"cost,omitempty"`
	Evidence *Evidence `json:"evidence,omitempty"`

	gain float64 // share of the time of the affected steps
}

// Evidence is what a finding rests on. Times are milliseconds.
type Evidence struct {
	Affected  int     `json:"affected_steps"`       // steps with an excess
	Interval  int     `json:"interval_steps"`       // steps of the interval
	Last      float64 `json:"last_share,omitempty"` // share of the affected steps in which one of the ranks came last
	Excess    float64 `json:"excess_ms,omitempty"`  // median excess over comparable ranks
	ExcessMAD float64 `json:"excess_mad_ms,omitempty"`
	Peers     float64 `json:"peers_mad_ms,omitempty"` // how well the other ranks agree
	Level     float64 `json:"level_ms,omitempty"`     // what all ranks have, for findings without a rank
	Before    float64 `json:"before_ms,omitempty"`    // and had before
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
	// Barrier says where the ranks leave together: collective, backward or
	// optimizer; BarrierSpread how far they disagree, as a share of a step.
	Barrier       string  `json:"barrier,omitempty"`
	BarrierSpread float64 `json:"barrier_spread,omitempty"`
	// Detectable is the smallest share of the time that a rank slow in all of
	// these steps must cost to be told from noise.
	Detectable float64 `json:"detectable,omitempty"`
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
	Wait   float64            `json:"wait_ms"`    // in the span that waits, less the shortest of all ranks
	Last   float64            `json:"last_share"` // of the steps in which it came last
}

// Verdict is the answer for one run. Its largest finding is the embedded one.
type Verdict struct {
	Version int `json:"version"` // of this format: 1
	Finding
	// Reason is why the evidence does not suffice; Reasons are remarks besides.
	Reason   string   `json:"reason,omitempty"`
	Reasons  []string `json:"reasons,omitempty"`
	Suspects []int    `json:"suspects,omitempty"` // who it may be, where the evidence does not suffice
	Cleared  []string `json:"cleared_phases,omitempty"`
	Needed   string   `json:"needed,omitempty"` // evidence that would settle it
	Next     string   `json:"next_action,omitempty"`
	Sentence string   `json:"sentence"`
	StepTime float64  `json:"step_ms,omitempty"` // median
	Coverage Coverage `json:"coverage"`
	// Others are the findings that cost less, the largest first.
	Others  []Finding `json:"other_findings,omitempty"`
	Ranking []RankRow `json:"ranks_table,omitempty"`
}

// ExitCode is for CI: 0 for a healthy run, 3 when something costs time, 4 when
// the evidence does not suffice.
func (v *Verdict) ExitCode() int {
	switch v.Kind {
	case Healthy:
		return 0
	case InsufficientEvidence:
		return 4
	}
	return 3
}
