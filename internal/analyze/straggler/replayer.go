package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
)

// repair is a change applied in a replay. Nil functions change nothing.
type repair struct {
	// work returns the factor for the time of a row of a rank in a round. It is called for ranks only; nil
	// means all.
	ranks []int
	work  func(s, r, row int) float64
	// like redistributes the remaining work of a rank among its intervals; nil keeps the recorded split.
	like *likeness
	// extra returns additional work of a rank at the end of a round.
	extra func(s, r int) float64
	// transfer returns the time of a transfer that replaces t.
	transfer func(s int, m *meeting, t float64) float64
}

// meeting is a synchronization point of ranks in one round.
type meeting struct {
	group int // number of the group, -1 for the hidden one
	meet.Meeting

	came    int
	arrival []float64 // latest arrival, by replay
	waiters []waiter
}

type waiter struct {
	a    *actor
	took int64 // recorded duration
}

// actor executes the program of a host of a rank or of one of its lanes.
type actor struct {
	rank  int
	lane  uint8
	i     int       // index of the current piece
	clock []float64 // by replay
	nth   []int     // by group of the rank: meetings so far in this round
	// For a lane: the launch time of each operation, by replay.
	launched []float64
	ends     []float64 // for the communication lane: when each operation of the round ended, by replay
	ops      []*laneOp
	on       waitsOn
	todo     []piece // for a host: the pieces of this round
	// For repairs with a likeness: the next interval, and the position up to which the factors are set. The
	// position is an index in todo for a host and a number of intervals for a device.
	piece, until int
	// For a lane: how long it waited for others in this round, and the last rank it waited for.
	waited  int64
	culprit int
	at      int // the group of its last wait
	// Composition of its time and, for a lane, of the time of its host at each launch. Only kept for a wait
	// budget.
	path  path
	paths []path
}

// waitsOn is what an actor waits for.
type waitsOn uint8

const (
	nothing waitsOn = iota
	queued          // in the ready list
	others
	ownLane
	message
)

// outcome is the result of a set of replays.
type outcome struct {
	k int
	// clock is the mean over ranks of the end of each round, by replay.
	clock []float64
	// Only for a replay without repairs, by round and rank: wait and transfer time.
	wait, transfer []float32
	own            []float32 // the remaining time of the rank
	caused         []float64 // by rank: how long others waited for it in the judged rounds
	budget         *budget
	late           []int // by rank: judged rounds in which the others waited longest for it
	finished       bool
	transfers      map[int][]float64 // by group and round; NaN if the group does not meet in the round
	met            bool              // ranks met in a collective or received a message
}

// replayer replays a job with several repairs at once. The first replay is without repair.
type replayer struct {
	w        *job
	k        int
	repairs  []repair
	budget   bool // records which rank waited for which
	hosts    []*actor
	lanes    [][3]*actor
	meetings [][]*meeting // of this round, by lane of a group, in order
	pool     []*meeting
	used     int       // used entries of pool
	factor   []float64 // indexed by rank, row and replay
	plain    []bool    // by rank: all factors are 1
	likes    []*likeness
	byRow    []float64 // factor before it is adjusted by interval
	programs []*program
	ready    []*actor
	out      *outcome
	sends    map[[2]int][]sent
	latency  int64   // of a message in this round
	roundOf  []int64 // by rank: how long others waited for it in this round
	idle     []int64 // by rank, in this round: joins of unrecorded work
	s        int
}

// lane returns the actor of a lane of a rank.
func (rp *replayer) lane(r int, lane uint8) *actor {
	a := rp.lanes[r][lane]
	if a == nil {
		a = &actor{rank: r, lane: lane, clock: make([]float64, rp.k), nth: make([]int, len(rp.w.gid[r])+1)}
		rp.lanes[r][lane] = a
	}
	return a
}

// groupOf returns the number of the group of a piece and its index among the groups of the rank.
func (rp *replayer) groupOf(r int, pc *piece) (id, local int) {
	if pc.group == hiddenGroup {
		return -1, len(rp.w.gid[r])
	}
	return rp.w.gid[r][pc.group], int(pc.group)
}

// wake adds an actor to the ready list.
func (rp *replayer) wake(a *actor) {
	a.on = queued
	rp.ready = append(rp.ready, a)
}

// take advances the clocks of an actor by the time of a piece of work.
func (rp *replayer) take(a *actor, pc *piece, device bool) {
	d := float64(pc.dur)
	if rp.plain[a.rank] {
		for k := range a.clock {
			a.clock[k] += d
		}
		return
	}
	f := rp.factor[(a.rank*rows+rowOf(device, pc.phase))*rp.k:]
	for k := range a.clock {
		a.clock[k] += d * f[k]
	}
}

// span returns the duration of the rounds from until before to in a replay.
func (o *outcome) span(k, from, to int) float64 {
	start := 0.0
	if from > 0 {
		start = o.clock[(from-1)*o.k+k]
	}
	return o.clock[(to-1)*o.k+k] - start
}

// gain returns the speed-up of rounds by a repair: the time without it over the time with it.
func (o *outcome) gain(k, from, to int) float64 {
	with := o.span(k, from, to)
	if with <= 0 {
		return 1
	}
	return o.span(0, from, to) / with
}

// path is the composition of an actor's time since the first step, by phase: its own work and the work of
// those it waited for. The last element is transfers.
type path [phases + 1]float64

// budget accumulates a wait budget.
type budget struct {
	by     string
	names  []string
	nameOf []int // of each rank
	cells  []float64
	groups []float64 // by group - messages
	phases path
}

// sent is the time at which a message was sent, by replay, and the composition of that time.
type sent struct {
	clock []float64
	path  path
}

// A prefetching loader puts batches into a queue. A rank that finds the queue empty waits for the next batch.
// A rank that does not would still wait if the rest of the step were faster than the loader. A fetch is
// therefore not work with a duration but an earliest end.
const (
	queueUsual  = 200  // us: upper bound of a fetch from a non-empty queue
	queueWaited = 0.05 // of a step: a longer fetch waited for its batch
	queuePart   = 0.1  // of the fetches of a rank: least fraction of quick ones for a queue
	queueRare   = 0.1  // of the wait of the rank that waits most: a rank below this did not wait for its loader
	queueQuick  = 10   // the quickest 1/queueQuick of the fetches of a rank define a quick fetch
	queueTimes  = 3    // a fetch that takes this many times a quick one waited
	queueOften  = 0.02 // of the fetches of a rank: least fraction that waited, because one pause of a quick loader is not a queue
)

// hasQueues reports whether batches come from queues. If one rank has a queue all have, because they run the
// same program.
func (j *job) hasQueues(x []float32) bool {
	var known Loader
	for i := range j.info {
		known = max(known, j.info[i].Loader)
	}
	if known != 0 {
		return known == LoaderAhead
	}
	n, m := len(j.ranks), len(j.steps)
	least := queueWaited * j.typical()
	for r := range n {
		fast, waited := 0, 0
		for s := j.from; s < m; s++ {
			d := x[j.stepIndex(s, r)]
			if d < queueUsual {
				fast++
			}
			if float64(d) > least {
				waited++
			}
		}
		if of := float64(m - j.from); float64(waited) >= max(queueOften*of, 1) && float64(fast) >= queuePart*of {
			return true
		}
	}
	return false
}

// findQueues finds the ranks whose batches come from a queue, and how long before the end of each fetch its
// batch was ready.
func (j *job) findQueues() {
	x := j.row[rowOf(false, Input)]
	if x == nil || !j.hasQueues(x) {
		return
	}
	n, m := len(j.ranks), len(j.steps)
	ends := make([]int64, n*m)
	rd := j.read()
	for s := range m {
		rd.round()
		for r, p := range rd.programs {
			for i := range p.host {
				if p.host[i].kind == work && p.host[i].phase == Input {
					ends[j.stepIndex(s, r)] = p.endOf(i)
				}
			}
		}
	}
	j.slack = make([][]float64, n)
	least := j.leastWait(x)
	waits := make([]float64, n) // by rank, total
	for r := range n {
		for s := j.from; s < m; s++ {
			if d := float64(x[j.stepIndex(s, r)]); d > least {
				waits[r] += d
			}
		}
	}
	// It is chance which ranks find a queue empty: if most do at some time, all are treated as waiting. If
	// few do, a rank that rarely waits may have been delayed by another rank, not by its loader.
	often := func(r int) bool { return waits[r] > slices.Max(waits)*queueRare }
	count := 0
	for r := range n {
		if often(r) {
			count++
		}
	}
	for r := range n {
		if 2*count > n || often(r) {
			j.slack[r] = j.slackOf(r, x, ends, least)
		}
	}
}

// leastWait returns the duration above which a fetch from a queue waited for its batch: a fraction of a step,
// and several times the duration of a fetch from a non-empty queue, which moves the batch between processes.
// The latter is estimated from the quick fetches of the quickest rank.
func (j *job) leastWait(x []float32) float64 {
	quick, m := math.Inf(1), len(j.steps)
	of := make([]float64, 0, m)
	for r := range j.ranks {
		of = of[:0]
		for s := j.from; s < m; s++ {
			of = append(of, float64(x[j.stepIndex(s, r)]))
		}
		slices.Sort(of)
		quick = min(quick, of[len(of)/queueQuick])
	}
	return max(queueWaited*j.typical(), queueTimes*quick)
}

// slackOf returns, by round, how long before the end of its fetch the batch of a rank was ready. It
// interpolates between the fetches that took longer than least.
func (j *job) slackOf(r int, x []float32, ends []int64, least float64) []float64 {
	m := len(j.steps)
	var waited []int
	for s := range m {
		if float64(x[j.stepIndex(s, r)]) > least {
			waited = append(waited, s)
		}
	}
	out := slices.Repeat([]float64{math.Inf(1)}, m)
	end := func(s int) float64 { return float64(ends[j.stepIndex(s, r)]) }
	for _, s := range waited {
		out[s] = 0
	}
	if len(waited) < 2 {
		return out
	}
	// Between two waits batches arrive at the rate between them, elsewhere at the overall rate.
	first, last := waited[0], waited[len(waited)-1]
	next := 0
	for s := range m {
		for next < len(waited) && waited[next] < s {
			next++
		}
		a, b := first, last
		if next > 0 && next < len(waited) {
			a, b = waited[next-1], waited[next]
		}
		from := a
		if next == len(waited) {
			from = b
		}
		if out[s] != 0 {
			out[s] = max(end(s)-end(from)-(end(b)-end(a))*float64(s-from)/float64(b-a), 0)
		}
	}
	return out
}

// fetch lets a host take a batch from its queue. With a repair of the loader the batch is available at once.
func (rp *replayer) fetch(a *actor, pc *piece) {
	after := a.clock[0] + float64(pc.dur)
	ready := after - rp.w.slack[a.rank][rp.s]
	for k := range a.clock {
		switch {
		case k == 0:
			a.clock[k] = after
		case !rp.plain[a.rank] && rp.factor[(a.rank*rows+rowOf(false, Input))*rp.k+k] != 1:
		default:
			a.clock[k] = max(a.clock[k], ready)
		}
	}
}
