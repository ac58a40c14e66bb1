package simjob

import "slices"

// The phases of a step in the simulator.
const (
	Input      = "input"
	Transfer   = "transfer"
	Forward    = "forward"
	Backward   = "backward"
	Optimizer  = "optimizer"
	Checkpoint = "checkpoint"
	Host       = "host"
	Launch     = "launch" // the host of a GPU
)

// What is the kind of a fault.
type What string

// Kinds of faults.
const (
	Slow      What = "slow"      // Ranks take longer in Phase
	Link      What = "link"      // transfers of Group take longer, of all groups if it is empty
	Imbalance What = "imbalance" // another rank takes longer in each step
	Storage   What = "storage"   // input takes longer for all ranks
	Drift     What = "drift"     // Phase takes longer for all ranks, from a step on
	Hang      What = "hang"      // Ranks stop in Phase, or the next collective of Group, at step From
	Kill      What = "kill"      // all ranks end at once in step From
	Tokens    What = "tokens"    // the ranks have different numbers of tokens
)

// Pattern is the course of a fault over time.
type Pattern string

// Patterns; the empty one is constant.
const (
	Uniform     Pattern = "uniform"     // random from zero to twice the amount
	Alternating Pattern = "alternating" // every second step
	Every       Pattern = "every"       // every Each steps
	Ramp        Pattern = "ramp"        // grows from From to the end
)

// Fault is a fault. The affected work takes Factor times as long (0 is 1) and
// Add milliseconds more.
type Fault struct {
	What        What
	Ranks       []int
	Phase       string
	Group       string
	Factor, Add float64
	Pattern     Pattern
	Each        int
	From, To    int     // steps; To 0 is the end
	Watchdog    float64 // ms, of a hang
	Recorded    bool    // of tokens
	Spread      bool    // of an imbalance: the same work, evenly for all ranks
}

// level returns the amount of the fault in a step.
func (f *Fault) level(j *Job, rank, step int) float64 {
	last := f.To
	if last == 0 {
		last = j.Steps
	}
	if step < f.From || step >= last || step == 0 {
		return 0
	}
	switch f.Pattern {
	case Uniform:
		return 2 * draw(j.Seed, "uniform", rank, step).Float64()
	case Alternating:
		return float64(step % 2)
	case Every:
		if step%max(f.Each, 1) != 0 {
			return 0
		}
	case Ramp:
		return float64(step-f.From+1) / float64(last-f.From)
	}
	return 1
}

// hits returns the amount of the fault for a rank in a step.
func (f *Fault) hits(j *Job, rank, step int, phase string) float64 {
	if f.What == Tokens && (phase == Forward || phase == Backward) && step > 0 {
		return j.tokens(rank, step) - 1
	}
	if f.Phase != phase && !(f.What == Storage && phase == Input) {
		return 0
	}
	switch f.What {
	case Slow:
		if slices.Contains(f.Ranks, rank) {
			return f.level(j, rank, step)
		}
	case Storage, Drift:
		return f.level(j, rank, step)
	case Imbalance:
		if f.Spread {
			return f.level(j, 0, step) / float64(j.Ranks)
		}
		if draw(j.Seed, "whose turn", step).IntN(j.Ranks) == rank {
			return f.level(j, 0, step)
		}
	}
	return 0
}

// tokens returns the amount of work of a rank in a step, 1 on average.
func (j *Job) tokens(rank, step int) float64 {
	for i := range j.Faults {
		if f := &j.Faults[i]; f.What == Tokens && !f.Spread {
			return 1 + f.Factor*(2*draw(j.Seed, "tokens", rank, step).Float64()-1)
		}
	}
	return 1
}

// took returns how long a piece of work takes, in microseconds: a share of the
// time ms of its phase in a step, in milliseconds.
func (j *Job) took(rank, step int, phase string, piece int, ms, share float64) int64 {
	took := 0.0
	if j.even {
		for r := range j.Ranks {
			took += j.milliseconds(r, step, phase, piece, ms, share) / float64(j.Ranks)
		}
	} else {
		took = j.milliseconds(rank, step, phase, piece, ms, share)
	}
	return max(int64(took*1000+0.5), 1)
}

func (j *Job) milliseconds(rank, step int, phase string, piece int, ms, share float64) float64 {
	ms *= share * j.scale()
	if step == 0 {
		ms *= 5
	}
	ms *= j.factor(rank, step, phase, piece)
	more := 0.0
	for i := range j.Faults {
		f := &j.Faults[i]
		if level := f.hits(j, rank, step, phase); level != 0 {
			if f.What == Tokens {
				more += ms * level
			} else {
				more += level * (f.Add*share + ms*max(f.Factor-1, 0))
			}
		}
	}
	return ms + more
}

// sent returns how long a transfer takes, in microseconds.
func (j *Job) sent(group string, step, n int, ms float64) int64 {
	ms *= j.scale()
	if j.Noise != None {
		ms *= 1 + 0.03*clip(draw(j.Seed, "link "+group, step, n).NormFloat64(), 3)
	}
	for i := range j.Faults {
		if f := &j.Faults[i]; f.What == Link && (f.Group == "" || f.Group == group) {
			ms += f.level(j, 0, step) * (f.Add + ms*max(f.Factor-1, 0))
		}
	}
	return max(int64(ms*1000+0.5), 1)
}

// stops reports whether an operation of a rank, or a collective of a group,
// never ends.
func (j *Job) stops(rank, step int, phase, group string) bool {
	for i := range j.Faults {
		f := &j.Faults[i]
		if f.What == Hang && f.From == step && (group != "" && f.Group == group || f.Group == "" && group == "" && f.Phase == phase && slices.Contains(f.Ranks, rank)) {
			return true
		}
	}
	return false
}
