package simjob

import "slices"

// Job is a training job to simulate. The zero value of each field except
// Layout, Ranks and Steps is a healthy job with equal clocks. A Job is for one
// goroutine.
type Job struct {
	Name, Family string
	Layout       Layout
	Ranks, Steps int
	Seed         uint64
	Noise        Noise // empty is IID
	Faults       []Fault

	Scale      float64 // of all times; 0 is 1
	Save       int     // steps between checkpoints
	Queue      int     // batches that a loader may be ahead
	Fetch      float64 // of a loader with a queue: its input time as a multiple of the usual one; 0 is 12
	Unrecorded bool    // collectives of the model and messages have no span
	JoinSpan   bool    // the join of overlapped buckets has a span
	Loss       bool    // buckets: an all-reduce of the loss after them
	Ahead      int     // GPU: steps that the host may be ahead
	Item       int     // GPU: steps between the host's waits for the device
	NoDevice   bool    // GPU: no device times in the records
	Idle       bool    // one more rank without work
	PerHost    int     // ranks of a host, 0 is 8

	Offset func(rank int) int64   // of a clock, microseconds
	Drift  func(rank int) float64 // of a clock, parts per million

	noises [][]float64
	even   bool // every piece of work takes its average time
}

// Result is the result of one simulation.
type Result struct {
	Spans   [][]Span // by rank
	Ends    []int64  // when the last rank ended each step, microseconds
	Killed  int64    // when all processes ended, or Open
	Waiting float64  // the share of the ranks' time after step 0 in which they waited for others
}

func (j *Job) scale() float64 {
	if j.Scale == 0 {
		return 1
	}
	return j.Scale
}

func (j *Job) fetch() float64 {
	if j.Fetch == 0 {
		return 12
	}
	return j.Fetch
}

// Run simulates the job. It panics if the job stops without a fault that causes
// it.
func (j *Job) Run() *Result {
	if j.Layout == Prefetch && j.Queue == 0 {
		j.Queue = 2
	}
	if j.onGPU() && j.Ahead == 0 {
		j.Ahead = 2
	}
	e := j.engine()
	e.run()
	res := &Result{Spans: make([][]Span, j.Ranks), Killed: Open}
	hung, killed := j.fault(Hang), j.fault(Kill)
	if hung == nil {
		e.mustFinish()
	} else {
		last := int64(0) // time of the stop: when the last lane reached its last possible operation
		for _, l := range e.lanes {
			if l.thread != 0 && l.at < len(l.ops) {
				last = max(last, l.now)
			}
		}
		res.Killed = last + int64(hung.Watchdog*1000)
	}
	ends := j.ends(e)
	if killed != nil {
		res.Killed = ends[killed.From-1] + (ends[killed.From]-ends[killed.From-1])*6/10
	}
	var waited, from int64
	for _, l := range e.lanes {
		waited += l.counted()
		if res.Killed != Open {
			l.cut(res.Killed)
		}
		base := len(res.Spans[l.rank])
		for _, s := range l.spans {
			if l.thread >= devTID && (j.NoDevice || s.End == Open) {
				continue // a device's span is recorded at its end
			}
			s.ID = len(res.Spans[l.rank])
			if s.Parent >= 0 {
				s.Parent += base
			}
			if l.thread >= devTID { // each device span is recorded separately
				s.Parent, s.Deep = -1, 1
			}
			res.Spans[l.rank] = append(res.Spans[l.rank], s)
		}
	}
	res.Ends = ends
	if res.Killed != Open {
		res.Ends = j.ends(e)
	}
	if n := len(res.Ends); n > 1 {
		from = res.Ends[0]
		res.Waiting = float64(waited-j.waitedBefore()) / float64(j.Ranks) / float64(res.Ends[n-1]-from)
	}
	return res
}

// waitedBefore returns how long the ranks waited in step 0, from a separate run
// of that step, which later steps do not affect.
func (j *Job) waitedBefore() (sum int64) {
	first := *j
	first.Steps = 1
	first.noises = nil
	e := first.engine()
	e.run()
	for _, l := range e.lanes {
		sum += l.counted()
	}
	return sum
}

func (j *Job) ends(e *engine) (out []int64) {
	for _, l := range e.lanes {
		for s, t := range l.ends {
			if s == len(out) {
				out = append(out, 0)
			}
			out[s] = max(out[s], t)
		}
	}
	return out
}

func (j *Job) fault(what What) *Fault {
	i := slices.IndexFunc(j.Faults, func(f Fault) bool { return f.What == what })
	if i < 0 {
		return nil
	}
	return &j.Faults[i]
}

// Time returns how long the steps after the first took, in microseconds.
func (r *Result) Time() int64 { return r.Ends[len(r.Ends)-1] - r.Ends[0] }

// Gain returns the time of the job over its time without the faults for which
// without returns true. The work of an imbalance stays and is divided evenly.
func (j *Job) Gain(without func(*Fault) bool) float64 {
	other := *j
	other.Faults = nil
	for _, f := range j.Faults {
		switch {
		case !without(&f):
		case f.What == Imbalance || f.What == Tokens:
			f.Spread = true
		default:
			continue
		}
		other.Faults = append(other.Faults, f)
	}
	return float64(j.Run().Time()) / float64(other.Run().Time())
}

// GainOf returns the gain of the repair of ranks: they then have no fault of
// their own.
func (j *Job) GainOf(ranks ...int) float64 {
	other := *j
	other.Faults = nil
	for _, f := range j.Faults {
		if f.What == Slow {
			f.Ranks = slices.DeleteFunc(slices.Clone(f.Ranks), func(r int) bool { return slices.Contains(ranks, r) })
		}
		other.Faults = append(other.Faults, f)
	}
	return float64(j.Run().Time()) / float64(other.Run().Time())
}

// Even returns the gain if every piece of work took all ranks its average time:
// without imbalance and without noise that ranks do not share.
func (j *Job) Even() float64 {
	other := *j
	other.even = true
	return float64(j.Run().Time()) / float64(other.Run().Time())
}
