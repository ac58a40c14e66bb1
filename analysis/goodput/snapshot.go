package goodput

import (
	"time"

	"github.com/trainspan/trainspan/internal/robust"
	"github.com/trainspan/trainspan/internal/run"
)

// Snapshot is what a [Live] says at a moment.
type Snapshot struct {
	Time    int64 `json:"time_ns"`
	Rank    int   `json:"rank"`
	Attempt int   `json:"attempt"`

	// Wall is the time since the first attempt began, and Categories what it
	// was spent on.
	Wall       int64  `json:"wall_ns"`
	Categories Totals `json:"categories_ns"`

	// Committed is the productive time that saved checkpoints hold. It never
	// falls. AtRisk is the productive time beyond it.
	Committed int64 `json:"committed_ns"`
	AtRisk    int64 `json:"at_risk_ns"`

	// Usual is the usual own time of an iteration of this attempt, -1 when it
	// is not known, and Counted how many iterations it comes from.
	Usual   int64 `json:"usual_iteration_ns"`
	Counted int   `json:"usual_of"`

	// LostWorkUnknown: a resume did not say with which iteration it goes on.
	// Rough: it went back so far that the lost work is not exact.
	LostWorkUnknown bool `json:"lost_work_unknown,omitempty"`
	Rough           bool `json:"rough,omitempty"`

	// Late is how many calls came with a time that had passed, and Lateness by
	// how much in all.
	Late     int64 `json:"late_calls,omitempty"`
	Lateness int64 `json:"lateness_ns,omitempty"`
}

// Ratio is the productive part of the wall time, NaN at its very start.
func (s *Snapshot) Ratio() float64 { return ratio(s.Categories[Productive], s.Categories.Sum()) }

// Snapshot brings the ledger up to a moment and gives its totals, those of
// earlier attempts included. After Close the moment is that of the end.
func (l *Live) Snapshot(t int64) *Snapshot {
	if l == nil {
		return &Snapshot{Categories: Totals{}, Usual: run.Unknown}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == run.NoEnd {
		l.at(max(t, l.s.now))
	}
	self := l.self()
	out := &Snapshot{
		Time: l.s.now, Rank: l.opts.Rank, Attempt: l.opts.Attempt, Categories: Totals{},
		Usual: self.Usual, Counted: self.Counted, LostWorkUnknown: l.unknown, Rough: l.rough,
		Late: l.late, Lateness: l.lateness,
	}
	fallback := l.fallback(self.Usual)
	for i := range l.earlier {
		a := &l.earlier[i]
		next := l.opts.Start
		if i+1 < len(l.earlier) {
			next = l.earlier[i+1].Start
		}
		out.Categories.addAll(a.totals(either(a.Usual, fallback), true))
		// A clock that was set back makes no time: the attempts count as long
		// as they lived.
		out.Categories.add(Downtime, max(0, next-a.Stop))
	}
	out.Categories.addAll(self.totals(either(self.Usual, fallback), self.Ended))
	out.Wall = out.Categories.Sum()
	l.settlePeak()
	out.Committed = l.peak
	out.AtRisk = max(0, out.Categories[Productive]-l.committed())
	return out
}

func either(a, b int64) int64 {
	if a >= 0 {
		return a
	}
	return b
}

// fallback is the usual time for attempts that have none of their own.
func (l *Live) fallback(own int64) int64 {
	var known []int64
	for i := range l.earlier {
		if u := l.earlier[i].Usual; u >= 0 {
			known = append(known, u)
		}
	}
	if own >= 0 {
		known = append(known, own)
	}
	m := robust.MedianInt(known, run.Unknown)
	return m
}

// committed is the productive time of the iterations that a checkpoint holds.
func (l *Live) committed() int64 {
	if l.saved < 0 {
		return 0
	}
	usual, _ := l.usual.median()
	fallback := l.fallback(usual)
	var sum int64
	for i := range l.earlier {
		a := &l.earlier[i]
		n, _ := a.History.upTo(l.saved)
		if a.FirstIn && a.FirstNumber <= l.saved {
			n -= beyondUsual(a.FirstOwn, either(a.Usual, fallback))
		}
		sum += n
	}
	n, _ := l.own.upTo(l.saved)
	if l.firstIn && l.number <= l.saved {
		n -= beyondUsual(l.first, either(usual, fallback))
	}
	return sum + n
}

// settlePeak keeps the most that was ever committed: a counter must not fall
// when a job goes on from an older checkpoint than its last.
func (l *Live) settlePeak() { l.peak = max(l.peak, l.committed()) }

// ring remembers the totals of moments gone by, for rolling windows.
type ring struct {
	every   int64
	entries []entry // by time
	most    int
}

// entry is the state of this attempt at a moment. What was known of it later
// is applied when it is looked at.
type entry struct {
	at    int64
	spent []int64
	down  int64
	sum   int64 // of finished iterations that count
	lost  int64
	first int64 // of the first iteration, in sum or lost or open
	order int64 // of the iteration that was open, 0 without one
	open  int64 // its own time so far

	computed, opened int64 // the parts of sum and lost, and of open, that were computing
}

func (r *ring) init(o LiveOptions) {
	r.every = int64(o.Resolution)
	r.most = int(o.History/o.Resolution) + 2
}

// note adds an entry if it is time for one.
func (r *ring) note(l *Live) {
	if len(r.entries) == 0 {
		if n := len(l.earlier); n > 0 && l.earlier[n-1].Stop < l.opts.Start {
			r.entries = append(r.entries, entry{at: l.earlier[n-1].Stop})
		}
		r.entries = append(r.entries, entry{at: l.opts.Start, down: l.downBefore()})
	}
	if last := &r.entries[len(r.entries)-1]; l.s.now-last.at < r.every {
		return
	}
	if len(r.entries) >= r.most {
		r.entries = r.entries[:copy(r.entries, r.entries[1:])]
	}
	r.entries = append(r.entries, l.entry())
}

// undo moves an iteration from what counts to what is lost, at all moments
// after it.
func (r *ring) undo(p past) {
	for i := len(r.entries) - 1; i >= 0 && r.entries[i].at >= p.End; i-- {
		r.entries[i].sum -= p.Own
		r.entries[i].lost += p.Own
	}
}

func (l *Live) downBefore() int64 {
	if n := len(l.earlier); n > 0 {
		return max(0, l.opts.Start-l.earlier[n-1].Stop)
	}
	return 0
}

// entry is the state now.
func (l *Live) entry() entry {
	e := entry{
		at: l.s.now, spent: append([]int64(nil), l.spent...), down: l.downBefore(),
		sum: l.own.Sum + l.own.Loose, lost: l.lost, first: max(l.first, 0), computed: l.computed,
	}
	for i := range l.steps {
		if st := &l.steps[i]; st.open {
			e.order, e.open, e.opened = st.order, e.open+st.own, e.opened+st.computed
			if st.first {
				e.first = st.own
			}
		}
	}
	return e
}

// Window returns the totals of the last stretch of time of about a length, and
// when it began: at a sign of life, at most [LiveOptions.Resolution] off, and
// not before the last sign of life of the attempt before.
func (l *Live) Window(t int64, length time.Duration) (from int64, totals Totals) {
	totals = Totals{}
	if l == nil {
		return t, totals
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == run.NoEnd {
		l.at(max(t, l.s.now))
	}
	l.ring.note(l)
	i := 0
	for i+1 < len(l.ring.entries) && l.ring.entries[i+1].at <= l.s.now-int64(length) {
		i++
	}
	old, now := &l.ring.entries[i], l.entry()
	for c, ns := range l.divide(&now, now.order) {
		totals.add(c, ns)
	}
	for c, ns := range l.divide(old, now.order) {
		totals.add(c, -ns)
	}
	for c, ns := range totals {
		if ns == 0 {
			delete(totals, c)
		}
	}
	return old.at, totals
}

// divide returns the totals of an entry by what is known now. open is the order
// of the iteration that is open now.
func (l *Live) divide(e *entry, open int64) Totals {
	t := Totals{}
	for w, ns := range e.spent {
		t.add(l.table[w], ns)
	}
	t.add(Downtime, e.down)
	own, _ := l.usual.median()
	usual := either(own, l.fallback(own))
	sum, lost, warm := e.sum+e.open, e.lost, int64(0)
	if usual >= 0 {
		total := l.first
		for i := range l.steps {
			if l.steps[i].open && l.steps[i].first {
				total = l.steps[i].own
			}
		}
		if warm = min(e.first, beyondUsual(total, usual)); l.first >= 0 && !l.firstIn {
			lost -= warm
		} else {
			sum -= warm
		}
		if e.order == open && open > 1 && e.open > usual {
			t.add(Stall, e.open-usual)
			sum -= e.open - usual
		}
	}
	t.add(Productive, sum)
	t.add(LostWork, lost)
	t.add(Warmup, warm)
	return t
}
