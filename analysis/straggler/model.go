package straggler

import "time"

// Phase is what a rank does during a span.
type Phase uint8

// The phases of a step. Host is the time that no span covers; it is measured,
// never passed in.
const (
	Host       Phase = iota // in no recorded span, or in one that is Other
	Input                   // waiting for the next batch, or making it
	Transfer                // copying the batch to the device
	Forward                 // model forward
	Backward                // model backward
	Optimizer               // optimizer update
	Checkpoint              // a blocking save
	phases                  // how many phases own work is split into

	Communication // a collective: waiting for other ranks, and the transfer
	Other         // anything else that is worth a span: counted as Host
)

var phaseNames = [...]string{
	Host: "host", Input: "input", Transfer: "transfer", Forward: "forward", Backward: "backward",
	Optimizer: "optimizer", Checkpoint: "checkpoint", phases: "", Communication: "communication", Other: "other",
}

// String gives the phase as a verdict spells it.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "unknown"
}

// Span is one recorded piece of a step. Its times are nanoseconds of the clock
// of the rank that recorded it; where the zero of that clock lies is of no
// interest, because times of two ranks are never subtracted.
type Span struct {
	Phase Phase
	Start int64
	End   int64  // before Start: the span never ended, the process or the run died in it
	Group string // of a collective: the sub-group it ran in, empty when all ranks took part
	// Lane is 0 for the thread that trains. A collective of another lane (a
	// communication stream) runs beside it; any other span there is ignored.
	Lane int
	// Device is how long the device worked for this span, without collectives
	// and without waiting for them; 0 where that is not known. It replaces the
	// host's time where the host only launches the work.
	Device time.Duration
}

// Step is one training step of one rank. A step without an end is the last
// sign of a rank that was lost.
type Step struct {
	Rank   int
	Number int64 // of the step, the same on all ranks
	Tokens int64 // work that the rank did in it: tokens or samples; 0 where that is not recorded
	Spans  []Span
}

// Rank is what is known of a rank besides its steps.
type Rank struct {
	Host string
	// Role tells ranks apart that do different work, such as the stages of a
	// pipeline: ranks are compared within a role only.
	Role string
	// LastSeen is the last sign of life, nanoseconds of the rank's own clock; 0
	// where that is not known. With it a rank counts as lost only when the
	// others were seen to wait for it for long.
	LastSeen int64
}

// Options of a State. Nil and the zero value are valid.
type Options struct {
	// WorldSize is the number of ranks that the job was started with; 0 means
	// the ranks that have data.
	WorldSize int
	// MaxCells bounds the memory: the number of steps that are held, times the
	// number of ranks; one takes 20 to 50 bytes, and 60 more while it is judged.
	// When there are more, the oldest steps of all ranks are forgotten. 0 means
	// 4,000,000, which is 1,024 ranks of 3,906 steps, in about 160 MB.
	MaxCells int
	// MinCost is the share of the time from which on a finding counts; 0 means
	// 0.02: below that healthy runs have findings, too.
	MinCost float64
}

func (o *Options) orDefault() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.MaxCells <= 0 {
		out.MaxCells = 4_000_000
	}
	if out.MinCost <= 0 {
		out.MinCost = 0.02
	}
	return out
}
