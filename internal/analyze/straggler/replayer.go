package straggler

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/meet"
)

// repair is what a replay changes. Functions that are nil change nothing.
type repair struct {
	// work gives by which factor the work of a row of a rank takes longer in a
	// round; ranks are those that it is asked for, nil is all.
	ranks []int
	work  func(s, r, row int) float64
	// like splits what work leaves of the work of a rank among its pieces; nil leaves it split
	// as it is.
	like *likeness
	// extra is work that a rank does more at the end of a round.
	extra func(s, r int) float64
	// transfer returns the time of a transfer in place of t.
	transfer func(s int, m *meeting, t float64) float64
}

// meetKey tells the meetings of a round apart.
type meetKey struct {
	group int // number, -1 for the hidden one
	lane  uint8
	nth   int
}

// meeting is what ranks come together at, in one round.
type meeting struct {
	meetKey
	meet.Meeting

	came    int
	arrival []float64 // the latest, of each replay
	waiters []waiter
}

type waiter struct {
	a    *actor
	took int64 // as recorded
}

// actor runs a program: the host of a rank, or a lane of it.
type actor struct {
	rank  int
	lane  uint8
	i     int       // of the piece
	clock []float64 // of each replay
	nth   []int     // how often each group of the rank was met in this round
	// Of a lane: when each piece was launched, replay by replay.
	launched []float64
	ops      []*laneOp
	on       waitsOn
	todo     []piece // of a host, in this round
	// Which piece between cuts comes next, and up to where the factors are set, if a repair
	// has a likeness: of a host, a place in todo; of a device, a number of pieces.
	piece, until int
	// Of a lane: how long it waited for others in this round, and for whom last.
	waited  int64
	culprit int
	at      string // the group in which it waited last
	// What its time is made of, and of a lane what that of its host was at each launch; noted
	// for a wait budget only.
	path  path
	paths []path
}

// waitsOn is what an actor cannot go on without.
type waitsOn uint8

const (
	nothing waitsOn = iota
	queued          // it goes on soon
	others
	ownLane
	message
)

// outcome is what replays give.
type outcome struct {
	k int
	// clock is the mean over ranks of the end of each round, replay by replay.
	clock []float64
	// Of a replay without repairs, of each round and rank: the wait and the transfer.
	wait, transfer []float32
	own            []float32 // what is left of the time of the rank
	caused         []float64 // by each rank: how long others waited for it, judged rounds
	budget         *budget
	late           []int // rounds in which the rank was the last at a meeting of most
	finished       bool
	transfers      map[int][]float64 // of each round, NaN without one; by group
}

// replayer replays a job with several repairs at once. The first replay is the job
// as it was.
type replayer struct {
	w        *job
	k        int
	repairs  []repair
	budget   bool // who waited for whom is noted
	hosts    []*actor
	lanes    [][3]*actor
	meetings map[meetKey]*meeting // of this round
	pool     []*meeting
	used     int       // of the pool
	factor   []float64 // rank, row, replay
	plain    []bool    // rank: all factors are 1
	likes    []*likeness
	byRow    []float64 // factor, before pieces were told apart
	programs []*program
	ready    []*actor
	out      *outcome
	sends    map[[2]int][]sent
	latency  int64   // of a message in this round
	roundOf  []int64 // by each rank: how long others waited for it in this round
	idle     []int64 // of each rank in this round: joins of nothing that is on record
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

// groupOf returns the number of the group of a piece, and its place among the groups of
// the rank.
func (rp *replayer) groupOf(r int, pc *piece) (id, local int) {
	if pc.group == hiddenGroup {
		return -1, len(rp.w.gid[r])
	}
	return rp.w.gid[r][pc.group], int(pc.group)
}

// wake lets an actor go on.
func (rp *replayer) wake(a *actor) {
	a.on = queued
	rp.ready = append(rp.ready, a)
}

// take lets an actor do work.
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

// span is how long the rounds from one to before another took in a replay.
func (o *outcome) span(k, from, to int) float64 {
	start := 0.0
	if from > 0 {
		start = o.clock[(from-1)*o.k+k]
	}
	return o.clock[(to-1)*o.k+k] - start
}

// gain is how much faster rounds are with a repair.
func (o *outcome) gain(k, from, to int) float64 {
	with := o.span(k, from, to)
	if with <= 0 {
		return 1
	}
	return o.span(0, from, to) / with
}

// path is what the time of an actor is made of, from the first step on: its own work, and
// that of those for whom it waited. The last are transfers.
type path [phases + 1]float64

// budget is a wait budget that is being counted.
type budget struct {
	by     string
	names  []string
	nameOf []int // of each rank
	cells  []float64
	groups map[string]float64
	phases path
}

// sent is when a message was sent, in each replay, and what that time is made of.
type sent struct {
	clock []float64
	path  path
}

// A loader that works ahead puts batches into a queue. Whoever finds it empty waits until
// the next batch is ready; whoever does not takes no time, but would wait as well if the
// rest of the step were faster than the loader. So the fetch of a rank is no work that
// takes a time, but a moment before which it does not end.
const (
	queueUsual  = 200  // us: as long as a fetch from a queue takes that is not empty
	queueWaited = 0.05 // of a step: from here on it was, and nothing else held it up
	queuePart   = 0.1  // of the fetches of a rank that take no longer: then there is a queue
	queueRare   = 0.1  // of what the rank waits that waits most: it did not wait because of its loader
	queueQuick  = 10   // one of so many fetches of a rank is quicker than usual
	queueTimes  = 3    // as long as a usual one: then it waited
	queueOften  = 0.02 // of the fetches of a rank that waited: one pause of a quick loader is no queue
)

// hasQueues reports whether batches come from queues: of one rank that has one all do, since
// they run the same program.
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

// findQueues finds the ranks whose batches come from a queue, and how long before the end
// of each fetch its batch was ready.
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
	waits := make([]float64, n) // of each rank, in all
	for r := range n {
		for s := j.from; s < m; s++ {
			if d := float64(x[j.stepIndex(s, r)]); d > least {
				waits[r] += d
			}
		}
	}
	// Which ranks find a queue empty is chance: where most do at some time, all wait. Where few
	// do, a pause of another one does not say that its loader could not do more.
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

// leastWait is from when on a fetch from a queue waited for its batch: it took a part of a
// step, and several times as long as one of a queue that has batches, which moves them
// between processes. That is how long the quickest rank usually takes at best.
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

// slackOf interpolates when the batches of a rank were ready between those that it
// waited for, at least so long.
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
	// Between two of them batches come at the pace of these, else at that of all.
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

// fetch lets a host take a batch from its queue. A repair of its loader has the batch
// there.
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
