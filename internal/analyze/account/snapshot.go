package account

import (
	"time"

	"github.com/trainspan/trainspan/internal/job"
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
func (s *Snapshot) Ratio() float64 { return s.Categories.ratio() }

// Snapshot brings the ledger up to a moment and gives its totals, those of
// earlier attempts included. After Close the moment is that of the end.
func (l *Live) Snapshot(t int64) *Snapshot {
	if l == nil {
		return &Snapshot{Categories: Totals{}, Usual: job.Unknown}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == job.NoEnd {
		l.advance(max(t, l.s.now))
	}
	self := l.self()
	out := &Snapshot{
		Time: l.s.now, Rank: l.opts.Rank, Attempt: l.opts.Attempt, Categories: Totals{},
		Usual: self.Usual, Counted: self.Counted, LostWorkUnknown: l.job.Unknown, Rough: l.job.Rough,
		Late: l.late, Lateness: l.lateness,
	}
	fallback := l.job.usual(self.Usual)
	for i := range l.job.Earlier {
		a := &l.job.Earlier[i]
		next := l.opts.Start
		if i+1 < len(l.job.Earlier) {
			next = l.job.Earlier[i+1].Start
		}
		out.Categories.addAll(a.totals(either(a.Usual, fallback), true))
		unobserved, down := a.splitGapUntil(next)
		out.Categories.add(Unobserved, unobserved)
		out.Categories.add(Downtime, down)
	}
	out.Categories.addAll(self.totals(either(self.Usual, fallback), self.Ended))
	out.Wall = out.Categories.Sum()
	out.AtRisk = max(0, out.Categories[Productive]-l.committed())
	out.Committed = l.job.Peak
	return out
}

func either(a, b int64) int64 {
	if a >= 0 {
		return a
	}
	return b
}

// committed returns the productive time of the iterations that a checkpoint holds, and keeps
// the most that it ever was: a counter must not fall when a job goes on from an older
// checkpoint than its last.
func (l *Live) committed() (sum int64) {
	if l.job.Through >= 0 {
		usual, _ := l.usual.median()
		fallback := l.job.usual(usual)
		for i := range l.job.Earlier {
			a := &l.job.Earlier[i]
			sum += a.upTo(l.job.Through, either(a.Usual, fallback))
		}
		sum += l.now.upTo(l.job.Through, either(usual, fallback))
	}
	l.job.Peak = max(l.job.Peak, sum)
	return sum
}

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
	gone  int64 // unobserved
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
		if n := len(l.job.Earlier); n > 0 && l.job.Earlier[n-1].Stop < l.opts.Start {
			r.entries = append(r.entries, entry{at: l.job.Earlier[n-1].Stop})
		}
		e := entry{at: l.opts.Start}
		e.gone, e.down = l.job.splitGap(l.opts.Start)
		r.entries = append(r.entries, e)
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

// entry is the state now.
func (l *Live) entry() entry {
	e := entry{
		at: l.s.now, spent: append([]int64(nil), l.spent...),
		sum: l.now.History.Sum + l.now.History.Loose, lost: l.now.Lost, first: max(l.now.FirstOwn, 0), computed: l.computed,
	}
	e.gone, e.down = l.job.splitGap(l.opts.Start)
	for i := range l.open.steps {
		if st := &l.open.steps[i]; st.open {
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
	if l.ended == job.NoEnd {
		l.advance(max(t, l.s.now))
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
	t.add(Unobserved, e.gone)
	own, _ := l.usual.median()
	usual := either(own, l.job.usual(own))
	sum, lost, warm := e.sum+e.open, e.lost, int64(0)
	if usual >= 0 {
		total := l.now.FirstOwn
		if st := l.open.first(); st != nil {
			total = st.own
		}
		if warm = min(e.first, beyondUsual(total, usual)); l.now.FirstOwn >= 0 && !l.now.FirstIn {
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
