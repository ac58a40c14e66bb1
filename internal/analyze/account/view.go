package account

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// view is a job as known at time asOf.
type view struct {
	asOf  int64
	start int64 // of the job
	end   int64 // the last record or heartbeat of any rank, or the end of a start without records
	began int64 // start of the first process
	quiet int64 // the last record or heartbeat of any rank
	ranks []rankView
	tries []try // the attempts of any rank, by number

	meetings *table

	spare [][]iteration // memory of the rank that was visited last, for reuse
}

// try is an attempt of the job: that of all ranks that took part in it.
type try struct {
	number int
	lowest int64 // the lowest iteration from which a loop of any rank starts, job.NoEnd if unknown
	next   int64 // when the first process of any later attempt began
}

// find returns the index of an attempt.
func (v *view) find(attempt int) int {
	i, _ := slices.BinarySearchFunc(v.tries, attempt, func(t try, number int) int { return cmp.Compare(t.number, number) })
	return i
}

type rankView struct {
	*rank
	attempts []attemptView
	finish   int64 // time of its proper end, or job.NoEnd
}

// attemptView is an attempt as known at the time of its view.
type attemptView struct {
	*attempt
	loops      []loop      // from is unknown where the numbers of the loop do not say it
	iterations []iteration // nil unless its rank is being visited
	sketches   []sketch    // nil unless its rank is being visited
	from, to   int64       // the part of the wall time that belongs to this attempt
	latest     int64       // the time until which it may have lived, at least to
	over       bool        // it will not do anything more
	later      int64       // the lowest first iteration of any later attempt, job.NoEnd if none
	floor      []int64     // by loop: the lowest iteration that a later loop or attempt repeats
	usual      int64       // usual own time of an iteration, or job.Unknown
	own        bool        // usual comes from this attempt
	counted    int         // number of iterations behind usual
	first      int64       // own time of the first iteration, job.Unknown if none
	warmup     int64
	waits      []wait        // outside of iterations
	unmatched  int64         // time in unmatched meetings outside of iterations
	partial    map[int]int64 // own time so far of unfinished iterations
}

// see returns the view of the ledger at asOf.
func (l *Ledger) see(asOf int64) *view {
	v := &view{asOf: asOf}
	start, ok := l.startBefore(asOf)
	if !ok {
		return v
	}
	v.start, v.end = start, start
	v.meetings = l.meet()
	lowest := make(map[int]int64)
	repeats := l.repeatsNumbers(asOf)
	for _, id := range l.rankIDs() {
		rv := rankView{rank: l.ranks[id]}
		for _, a := range l.ranks[id].attempts {
			if a.Start >= asOf {
				continue
			}
			rv.attempts = append(rv.attempts, attemptView{
				attempt: a, loops: a.loops, from: a.Start, to: min(a.stop, asOf), latest: min(max(a.stop, a.Latest), asOf), over: a.End <= asOf,
				later: job.NoEnd, usual: job.Unknown,
			})
			av := &rv.attempts[len(rv.attempts)-1]
			if repeats {
				av.loops = slices.Clone(a.loops)
				for i := range av.loops {
					if lp := &av.loops[i]; lp.inferred {
						lp.from = job.Unknown
					}
				}
			}
			met := v.meetings.answers[a]
			av.waits, av.unmatched = met.waits, met.unmatched
			v.end = max(v.end, min(a.stop, asOf))
			low, ok := lowest[a.Attempt]
			if !ok {
				low = job.NoEnd
			}
			for _, lp := range av.loops {
				if lp.start < asOf && lp.from >= 0 {
					low = min(low, lp.from)
				}
			}
			lowest[a.Attempt] = low
		}
		if len(rv.attempts) == 0 {
			continue // not started yet
		}
		rv.place()
		v.ranks = append(v.ranks, rv)
	}
	v.began, v.quiet = v.start, v.end
	for _, t := range l.tried {
		if t.From < asOf {
			v.start, v.end = min(v.start, t.From), max(v.end, min(t.To, asOf))
		}
	}
	v.link(lowest)
	v.measure()
	return v
}

// repeatsNumbers reports whether the program restarts its count of iterations in each loop:
// then the numbers of a loop do not say with which iteration of the job it began.
func (l *Ledger) repeatsNumbers(asOf int64) bool {
	for _, r := range l.ranks {
		for _, a := range r.attempts {
			if slices.ContainsFunc(a.loops, func(lp loop) bool { return lp.again && lp.start < asOf }) {
				return true
			}
		}
	}
	return false
}

// visit returns an iterator over the ranks. The iterations of a rank are unpacked only
// while it is visited.
func (v *view) visit() iter.Seq[*rankView] {
	return func(yield func(*rankView) bool) {
		for i := range v.ranks {
			r := &v.ranks[i]
			for len(v.spare) < len(r.attempts) {
				v.spare = append(v.spare, nil)
			}
			for k := range r.attempts {
				a := &r.attempts[k]
				v.spare[k], a.sketches = a.packed.open(v.spare[k][:0])
				a.iterations = v.spare[k]
			}
			more := yield(r)
			for k := range r.attempts {
				r.attempts[k].iterations, r.attempts[k].sketches = nil, nil
			}
			if !more {
				return
			}
		}
	}
}

// place assigns each attempt its part of the time. If an attempt begins before the
// last record or heartbeat of an earlier one, a clock was set back: the time that
// both claim belongs to the later one.
func (r *rankView) place() {
	next := int64(job.NoEnd)
	for i := len(r.attempts) - 1; i >= 0; i-- {
		a := &r.attempts[i]
		a.to = max(min(a.to, next), a.from)
		if next <= a.from {
			a.from, a.to = next, next
		}
		a.latest = max(min(a.latest, next), a.to)
		next = min(next, a.from)
	}
	r.finish = job.NoEnd
	if n := len(r.attempts); n > 0 && r.attempts[n-1].over {
		r.finish = r.attempts[n-1].to
	}
}

// link finds the attempts of the job, and the iterations that later attempts and loops undid.
func (v *view) link(lowest map[int]int64) {
	for _, number := range slices.Sorted(maps.Keys(lowest)) {
		v.tries = append(v.tries, try{number: number, lowest: lowest[number], next: job.NoEnd})
	}
	for i := range v.ranks {
		for k := range v.ranks[i].attempts {
			a := &v.ranks[i].attempts[k]
			if at := v.find(a.Attempt); at > 0 {
				v.tries[at-1].next = min(v.tries[at-1].next, a.from)
			}
		}
	}
	later := make([]int64, len(v.tries))
	low, next := int64(job.NoEnd), v.quiet
	for i := len(v.tries) - 1; i >= 0; i-- {
		next = min(next, v.tries[i].next)
		later[i], v.tries[i].next = low, next
		low = min(low, v.tries[i].lowest)
	}
	for i := range v.ranks {
		for k := range v.ranks[i].attempts {
			a := &v.ranks[i].attempts[k]
			at := v.find(a.Attempt)
			a.over = a.over || at < len(v.tries)-1
			a.later = later[at]
			a.floor = make([]int64, len(a.loops))
			low := a.later
			for j := len(a.loops) - 1; j >= 0; j-- {
				a.floor[j] = low
				if lp := &a.loops[j]; lp.start < v.asOf && lp.from >= 0 {
					low = min(low, lp.from)
				}
			}
		}
	}
}

// measure finds the usual iteration time of each attempt, and from it the warm-up.
func (v *view) measure() {
	var all, buf []int64
	for r := range v.visit() {
		for k := range r.attempts {
			a := &r.attempts[k]
			if a.usual, a.counted = a.median(v.asOf, &buf); a.usual >= 0 {
				a.own = true
				all = append(all, a.usual)
			}
			a.unfinished(v.asOf)
			if a.first = job.Unknown; len(a.iterations) > 0 && a.iterations[0].start < v.asOf {
				a.first = a.ownTime(0)
			}
		}
	}
	for i := range v.ranks {
		var same []int64
		for k := range v.ranks[i].attempts {
			if a := &v.ranks[i].attempts[k]; a.own {
				same = append(same, a.usual)
			}
		}
		if len(same) == 0 {
			same = all
		}
		fallback := stats.MedianInt(same, job.Unknown)
		for k := range v.ranks[i].attempts {
			a := &v.ranks[i].attempts[k]
			if !a.own && len(same) > 0 {
				a.usual = fallback
			}
			if !a.means {
				a.warmup = beyondUsual(a.first, a.usual)
			}
		}
	}
}

// median returns the median own time of the finished iterations except the first, and
// their number.
func (a *attemptView) median(asOf int64, buf *[]int64) (usual int64, n int) {
	own := (*buf)[:0]
	for i := range a.iterations {
		if i > 0 && a.iterations[i].finished(asOf) {
			for range a.iterations[i].count() {
				own = append(own, a.sketch(i).mid)
			}
		}
	}
	*buf = own
	return usualOf(own)
}

// sketch returns the sketch of a window or of a single iteration.
func (a *attemptView) sketch(i int) sketch {
	if a.sketches == nil {
		return sketch{a.iterations[i].own, a.iterations[i].own}
	}
	return a.sketches[i]
}

// unfinished computes the own time so far of the iterations that had not ended at asOf.
func (a *attemptView) unfinished(asOf int64) {
	for i := range a.iterations {
		it := &a.iterations[i]
		if it.start >= asOf || it.finished(asOf) {
			continue
		}
		if a.partial == nil {
			a.partial = make(map[int]int64)
		}
		a.partial[i] = 0
	}
	if len(a.partial) == 0 {
		return
	}
	for s, end := range a.packed.stretches(a.stop) {
		if s.start >= asOf {
			break
		}
		if n, ok := s.what.iteration(); ok {
			if had, ok := a.partial[n]; ok {
				a.partial[n] = had + min(end, asOf) - s.start
			}
		}
	}
}

// ownTime returns the own time of an iteration, so far if it is unfinished.
func (a *attemptView) ownTime(i int) int64 {
	if own, ok := a.partial[i]; ok {
		return own
	}
	return a.iterations[i].own
}

// isLost reports whether an iteration was undone, or its attempt ended before it finished.
func (a *attemptView) isLost(i int) bool {
	it := &a.iterations[i]
	if _, ok := a.partial[i]; ok && a.over {
		return true
	}
	return it.number >= 0 && a.floor[it.loop] <= it.number
}

// parts divides the own time of an iteration into the lengths of its warm-up, its
// work and its stall, which follow each other in this order.
func (a *attemptView) parts(i int) (warmup, work, stall int64) {
	own := a.ownTime(i)
	if a.usual < 0 {
		return 0, own, 0
	}
	if i == 0 {
		return a.warmup, own - a.warmup, 0
	}
	if _, ok := a.partial[i]; ok && own > a.usual {
		return 0, a.usual, own - a.usual
	}
	return 0, own, 0
}

// stretch is an interval of one category of an attempt.
type stretch struct {
	from, to  int64
	category  Category
	iteration int  // index, -1 outside of iterations
	part      part // set only outside of iterations
	waits     bool // the rank waits for another one
	rank      int  // the rank that it waits for
}

// eachStretch calls fn with the intervals of the attempt between two times, in
// order and without gaps.
func (a *attemptView) eachStretch(from, to int64, fn func(stretch)) {
	from, to = max(from, a.from), min(to, a.to)
	if from >= to {
		return
	}
	var used map[int]int64
	waits := a.waits
	for seg, e := range a.packed.stretches(a.stop) {
		s := seg.start
		if s >= to {
			break
		}
		e = min(e, to)
		n, isIteration := seg.what.iteration()
		if !isIteration {
			s = max(s, from)
			if a.meetsIn(seg.what) {
				for len(waits) > 0 && waits[0].to <= s {
					waits = waits[1:]
				}
				for _, w := range waits {
					if w.from >= e {
						break
					}
					x, y := max(w.from, s), min(w.to, e)
					a.give(fn, s, x, seg.what)
					if x < y {
						c := Wait
						if seg.what == what(kindInit) {
							c = Init // waiting in an initialization counts as Init
						}
						fn(stretch{from: x, to: y, category: c, iteration: -1, waits: true, rank: w.rank})
					}
					s = max(s, y)
				}
			}
			a.give(fn, s, e, seg.what)
			continue
		}
		work := Productive
		if a.isLost(n) {
			work = LostWork
		}
		if !a.special(n) {
			if s = max(s, from); s < e {
				fn(stretch{from: s, to: e, category: work, iteration: n})
			}
			continue
		}
		if used == nil {
			used = make(map[int]int64)
		}
		warm, did, _ := a.parts(n)
		at := s
		for _, p := range [...]struct {
			until int64
			c     Category
		}{{warm, Warmup}, {warm + did, work}, {job.NoEnd, Stall}} {
			end := e
			if p.until != job.NoEnd {
				end = min(e, s+p.until-used[n])
			}
			if end > at {
				if x, y := max(at, from), end; x < y {
					fn(stretch{from: x, to: y, category: p.c, iteration: n})
				}
				at = end
			}
		}
		used[n] += e - s
	}
}

// give calls fn with time outside of iterations.
func (a *attemptView) give(fn func(stretch), from, to int64, w what) {
	if from >= to {
		return
	}
	p := partCompute
	if w == what(kindMeeting) {
		p = partCollective
	}
	fn(stretch{from: from, to: to, category: a.names[w], iteration: -1, part: p})
}

// special reports whether an iteration may contain warm-up or a stall: the first and the unfinished ones.
func (a *attemptView) special(n int) bool {
	_, ok := a.partial[n]
	return n == 0 || ok
}

// eachRankStretch calls fn with the intervals of a rank between two times of the job, in
// order and without gaps, and with the index of the attempt to which they belong, or -1
// before the first one.
func (v *view) eachRankStretch(r *rankView, from, to int64, fn func(s stretch, attempt int)) {
	emit := func(x, y int64, c Category, attempt int) {
		if x, y = max(x, from), min(y, to); x < y {
			fn(stretch{from: x, to: y, category: c, iteration: -1}, attempt)
		}
	}
	// lived emits the time in which an attempt may have lived without records as
	// Unobserved, and returns its end.
	lived := func(i int, at, before int64) int64 {
		until := max(at, min(r.attempts[i].latest, before))
		emit(at, until, Unobserved, i)
		return until
	}
	at := v.start
	for i := range r.attempts {
		a := &r.attempts[i]
		if a.from > at {
			c := Downtime
			if i == 0 {
				emit(at, v.began, Downtime, -1)
				at, c = max(at, v.began), Absent
			} else if _, until, ok := v.follow(r, i-1); ok {
				emit(lived(i-1, at, until), until, Downtime, i-1)
				at, c = until, Absent // from attempts that it skipped
			}
			emit(at, a.from, c, i-1)
		}
		a.eachStretch(from, to, func(s stretch) { fn(s, i) })
		at = max(at, a.to)
	}
	last := len(r.attempts) - 1
	if _, until, ok := v.follow(r, last); ok { // the job was started again, and this rank did not come back
		emit(lived(last, at, until), until, Downtime, last)
		at = until
		emit(at, max(v.quiet, at), Absent, last)
		at = max(v.quiet, at)
	}
	if r.finish != job.NoEnd {
		emit(at, max(v.quiet, at), Absent, last)
		at = max(v.quiet, at)
	}
	if v.end > v.quiet {
		emit(lived(last, at, v.end), v.end, Downtime, last)
		at = max(v.end, at)
	}
	emit(at, to, Unobserved, last)
}

// follow returns the attempt of the job that followed attempt k of a rank, and until when the rank was down: until its
// own process of that attempt began or, if it skipped that attempt, until the first process of a later one. ok is false
// if no attempt followed, or the rank had ended before.
func (v *view) follow(r *rankView, k int) (next int, until int64, ok bool) {
	a, at := &r.attempts[k], v.find(r.attempts[k].Attempt)
	last := k == len(r.attempts)-1
	if at == len(v.tries)-1 || last && r.finish != job.NoEnd {
		return 0, 0, false
	}
	next, until = v.tries[at+1].number, max(v.tries[at].next, a.to)
	switch {
	case last:
	case r.attempts[k+1].Attempt == next:
		until = r.attempts[k+1].from
	default:
		until = min(until, r.attempts[k+1].from)
	}
	return next, until, true
}

// Stretch is an interval of one rank in one category.
type Stretch struct {
	Rank int
	// Attempt is 0 before the first attempt of the rank. The time between two
	// attempts belongs to the earlier one.
	Attempt  int
	Category Category
	// Step is the number of the iteration, job.Unknown outside of one.
	Step int64
	// Start and End are nanoseconds since the Unix epoch.
	Start, End int64
}

// Stretches calls fn with the intervals of all ranks, from everything that is known:
// by rank, in time order, without gaps. Their sums by category equal those of
// [Ledger.Report] for the zero [Query]. Stretches stops at the first error of fn and
// returns it. The argument of fn is valid only during the call.
func (l *Ledger) Stretches(fn func(*Stretch) error) error {
	v := l.see(final)
	for r := range v.visit() {
		var open Stretch
		var failed error
		give := func() {
			if failed == nil && open.End > open.Start {
				failed = fn(&open)
			}
		}
		v.eachRankStretch(r, v.start, v.end, func(of stretch, attempt int) {
			s := Stretch{Rank: r.id, Category: of.category, Step: job.Unknown, Start: of.from, End: of.to}
			if attempt >= 0 {
				a := &r.attempts[attempt]
				s.Attempt = a.Attempt
				if of.iteration >= 0 {
					s.Step = a.iterations[of.iteration].number
				}
			}
			if open.End == of.from && open.Category == of.category && open.Attempt == s.Attempt && open.Step == s.Step {
				open.End = of.to
				return
			}
			give()
			open = s
		})
		if give(); failed != nil {
			return failed
		}
	}
	return nil
}
