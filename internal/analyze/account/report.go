package account

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// final is after all moments: all that is known counts.
const final int64 = math.MaxInt64 - 1

// Query is a question to a ledger. All times are nanoseconds since the Unix
// epoch. The zero value asks for everything.
type Query struct {
	// From and To bound the window. It is cut at the start of the job, and
	// reaches to the moment To whether or not anything was recorded there.
	// A zero From means the start; a zero To the last sign of life or, when
	// AsOf is given, that moment.
	From, To int64

	// AsOf is the moment whose knowledge counts: what began later does not
	// exist, what ended later is open. Zero is after all of it. A live view of a
	// window has AsOf equal to To.
	AsOf int64

	// Exclude lists intervals to leave out of the window altogether.
	Exclude []Interval
}

// Report is the answer. Every set of categories adds up to its wall time.
type Report struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`

	// Wall is the length of the window, without what was excluded; Excluded
	// is how much that was.
	Wall     int64 `json:"wall_ns"`
	Excluded int64 `json:"excluded_ns,omitempty"`

	// Categories is in rank time: its sum is the number of ranks times Wall.
	Categories Totals `json:"categories_ns"`

	// Overlapped is time hidden behind other categories. It is in no sum.
	Overlapped Totals `json:"overlapped_ns,omitempty"`

	// ProductiveParts divides the productive time; see [Parts].
	ProductiveParts Parts `json:"productive_parts_ns"`

	// WaitedFor is how long ranks waited for others, in steps and outside of them, by the
	// rank that came last, the largest first; of at most 64 ranks.
	WaitedFor []WaitedFor `json:"waited_for,omitempty"`

	// Unmatched is the time of all ranks in meetings of which not all members are on record:
	// in the steps that count, and outside of steps in the whole job. It counts as
	// communication, although some of it may be waiting.
	Unmatched int64 `json:"unmatched_ns,omitempty"`

	// AllProductive and AnyProductive are how long all ranks, or any, were
	// productive.
	AllProductive int64 `json:"all_productive_ns"`
	AnyProductive int64 `json:"any_productive_ns"`

	Ranks       []RankReport    `json:"ranks"`
	Attempts    []AttemptReport `json:"attempts"`
	Disruptions []Disruption    `json:"disruptions,omitempty"`
	Iterations  Iterations      `json:"iterations"`
	Saves       int             `json:"saves"`                   // checkpoints saved in the window, by the rank that saved most
	Missing     []int           `json:"missing_ranks,omitempty"` // ranks that reported nothing, at most 64 of them
	Flags       []Flag          `json:"flags,omitempty"`
}

// RankReport is the ledger of one rank. Its categories add up to the wall
// time of the report.
type RankReport struct {
	Rank       int    `json:"rank"`
	Categories Totals `json:"categories_ns"`
	Overlapped Totals `json:"overlapped_ns,omitempty"`

	// ProductiveParts divides the productive time of the rank.
	ProductiveParts Parts `json:"productive_parts_ns"`
}

// AttemptReport is the time of one attempt, of all ranks, in the window. What
// comes between it and the next attempt belongs to it; what comes before the
// first attempt of a rank belongs to attempt 0, which is left out.
type AttemptReport struct {
	Attempt int   `json:"attempt"`
	Start   int64 `json:"start_ns"` // of the first rank
	Stop    int64 `json:"stop_ns"`  // the end, or last sign of life, of the last rank
	// Latest is until when a rank may have lived without records, left out where that
	// is not after Stop.
	Latest     int64  `json:"stop_latest_ns,omitempty"`
	Ended      bool   `json:"ended"` // properly, on every rank
	Ranks      int    `json:"ranks"`
	Categories Totals `json:"categories_ns"`
	Usual      int64  `json:"usual_iteration_ns,omitempty"` // median over the ranks
}

// Iterations counts the iterations that began in the window, those of one
// rank: the one with the most.
type Iterations struct {
	Kept       int   `json:"kept"`
	Lost       int   `json:"lost"`
	Unfinished int   `json:"unfinished"`      // of those that are not lost
	AtRisk     int   `json:"at_risk"`         // kept, and in no checkpoint that is known to be saved
	AtRiskTime int64 `json:"at_risk_ns"`      // the productive time of those, of all ranks
	Shortest   int64 `json:"shortest_ns"`     // own time of the quickest finished iteration of any rank
	Saved      int64 `json:"saved_through"`   // the last iteration that a saved checkpoint holds, -1 for none
	HasSaves   bool  `json:"saves_are_known"` // whether any saved checkpoint was recorded
}

// Ratio is the part of the rank time that is productive, or NaN for a window
// without length.
func (r *Report) Ratio() float64 { return r.Categories.ratio() }

// Report answers a question. An empty ledger, or one that knew of nothing at
// that moment, gives a report of no time.
func (l *Ledger) Report(q Query) *Report {
	asOf := q.AsOf
	if asOf == 0 {
		asOf = final
	}
	v := l.see(asOf)
	rep := &Report{Categories: Totals{}, Overlapped: Totals{}, ProductiveParts: Parts{}}
	if len(v.ranks) == 0 {
		return rep
	}
	from, to := max(q.From, v.start), q.To
	if q.From == 0 {
		from = v.start
	}
	if to == 0 {
		if to = v.end; q.AsOf != 0 {
			to = q.AsOf
		}
	}
	to = max(to, from)
	windows, excluded := (Interval{from, to}).without(q.Exclude)
	rep.From, rep.To, rep.Excluded, rep.Wall = from, to, excluded, to-from-excluded
	f := filler{view: v, rep: rep, windows: windows, byNumber: make(map[int]*AttemptReport), usual: make(map[int][]int64), waited: make(map[int]*WaitedFor)}
	rep.Iterations.Saved, rep.Iterations.HasSaves = v.saved()
	var broken disruptions
	seen := make(map[int]bool)
	for r := range v.visit() {
		f.rank(r)
		v.count(rep, r, windows)
		broken.rank(v, r)
		rep.Flags = r.flags(v, rep.Flags)
		seen[r.id] = true
	}
	f.finish()
	rep.Disruptions = broken.inWindows(windows)
	rep.Flags = l.allFlags(rep.Flags, seen)
	rep.Missing = l.missing(seen)
	return rep
}

// without returns what is left of a window without some intervals, in order.
func (w Interval) without(exclude []Interval) (rest []Interval, excluded int64) {
	cuts := slices.Clone(exclude)
	slices.SortFunc(cuts, func(a, b Interval) int { return int(min(max(a.From-b.From, -1), 1)) })
	at := w.From
	for _, c := range cuts {
		c.From, c.To = max(c.From, at), min(c.To, w.To)
		if c.From >= c.To {
			continue
		}
		if at < c.From {
			rest = append(rest, Interval{at, c.From})
		}
		excluded += c.To - c.From
		at = c.To
	}
	if at < w.To {
		rest = append(rest, Interval{at, w.To})
	}
	return rest, excluded
}

// filler adds up the time in the windows, rank by rank.
type filler struct {
	*view
	rep      *Report
	windows  []Interval
	byNumber map[int]*AttemptReport
	usual    map[int][]int64
	waited   map[int]*WaitedFor // by rank
	cover    coverage
}

func (f *filler) rank(r *rankView) {
	rr := RankReport{Rank: r.id, Categories: Totals{}, Overlapped: Totals{}}
	for k := range r.attempts {
		a := &r.attempts[k]
		ar := f.byNumber[a.Attempt]
		if ar == nil {
			ar = &AttemptReport{Attempt: a.Attempt, Start: a.from, Stop: a.to, Ended: true, Categories: Totals{}}
			f.byNumber[a.Attempt] = ar
		}
		ar.Start, ar.Stop, ar.Latest = min(ar.Start, a.from), max(ar.Stop, a.to), max(ar.Latest, a.latest)
		ar.Ended = ar.Ended && a.End <= f.asOf
		ar.Ranks++
		if a.own {
			f.usual[a.Attempt] = append(f.usual[a.Attempt], a.usual)
		}
	}
	parts := productive{filler: f, rank: r, of: Parts{}}
	for _, w := range f.windows {
		f.eachRankStretch(r, w.From, w.To, func(s stretch, attempt int) {
			took := s.to - s.from
			rr.Categories.add(s.category, took)
			if attempt >= 0 {
				f.byNumber[r.attempts[attempt].Attempt].Categories.add(s.category, took)
			}
			switch s.category {
			case Productive:
				f.cover.add(s.from, s.to)
				parts.add(&s, attempt)
			case Wait, Init:
				if s.waits {
					f.wait(&s)
				}
			}
		})
		r.hidden(w, rr.Overlapped)
	}
	f.cover.next()
	parts.finish()
	rr.ProductiveParts = parts.of
	for p, ns := range parts.of {
		f.rep.ProductiveParts[p] += ns
	}
	for k := range r.attempts {
		f.rep.Unmatched += r.attempts[k].unmatched
	}
	f.rep.Categories.addAll(rr.Categories)
	f.rep.Overlapped.addAll(rr.Overlapped)
	f.rep.Ranks = append(f.rep.Ranks, rr)
}

func (f *filler) finish() {
	f.rep.WaitedFor = waitedFor(f.waited)
	f.rep.AllProductive, f.rep.AnyProductive = nest.Length(f.cover.all), nest.Length(f.cover.any)
	for n, ar := range f.byNumber {
		ar.Usual = stats.MedianInt(f.usual[n], job.Unknown)
		if ar.Usual = max(ar.Usual, 0); ar.Latest <= ar.Stop {
			ar.Latest = 0
		}
		f.rep.Attempts = append(f.rep.Attempts, *ar)
	}
	slices.SortFunc(f.rep.Attempts, func(a, b AttemptReport) int { return a.Attempt - b.Attempt })
}

// hidden adds up the time of spans beside and behind others.
func (r *rankView) hidden(w Interval, into Totals) {
	for k := range r.attempts {
		a := &r.attempts[k]
		for o := range a.packed.hidden() {
			from, to := max(o.from, w.From, a.from), min(o.to, w.To, a.to)
			if from >= to {
				continue
			}
			c := Productive
			if n, ok := o.what.iteration(); !ok {
				c = a.names[o.what]
			} else if a.isLost(n) {
				c = LostWork
			}
			into.add(c, to-from)
		}
	}
}

// saved is the last iteration that a checkpoint holds which was saved and not
// undone, as far as is known.
func (v *view) saved() (through int64, known bool) {
	through = job.Unknown
	for i := range v.ranks {
		for k := range v.ranks[i].attempts {
			a := &v.ranks[i].attempts[k]
			for _, s := range a.saves {
				if s.time > v.asOf {
					continue
				}
				known = true
				if s.through < a.undone(s.time) {
					through = max(through, s.through)
				}
			}
		}
	}
	return through, known
}

// undone is the lowest iteration that a loop begun after a moment runs again.
func (a *attemptView) undone(t int64) int64 {
	low := a.later
	for i := range a.loops {
		if lp := &a.loops[i]; lp.start >= t && lp.from >= 0 {
			low = min(low, lp.from)
		}
	}
	return low
}

// count counts the iterations of one rank.
func (v *view) count(rep *Report, r *rankView, windows []Interval) {
	out := &rep.Iterations
	var n Iterations
	saves := 0
	for k := range r.attempts {
		a := &r.attempts[k]
		for _, s := range a.saves {
			if s.time <= v.asOf && inAnyWindow(s.time, windows) {
				saves++
			}
		}
		for x := range a.iterations {
			it := &a.iterations[x]
			if it.start >= v.asOf || !inAnyWindow(it.start, windows) {
				continue
			}
			_, open := a.partial[x]
			switch {
			case a.isLost(x):
				n.Lost += it.count()
				continue
			case open:
				n.Unfinished++
			default:
				n.Kept += it.count()
				if own := a.sketch(x).least; own > 0 && (out.Shortest == 0 || own < out.Shortest) {
					out.Shortest = own
				}
			}
			if it.number > out.Saved || it.number < 0 {
				_, work, _ := a.parts(x)
				n.AtRisk += it.count()
				out.AtRiskTime += work
			}
		}
	}
	rep.Saves = max(rep.Saves, saves)
	if n.Kept+n.Lost+n.Unfinished > out.Kept+out.Lost+out.Unfinished {
		out.Kept, out.Lost, out.Unfinished, out.AtRisk = n.Kept, n.Lost, n.Unfinished, n.AtRisk
	}
}

func inAnyWindow(t int64, windows []Interval) bool {
	for _, w := range windows {
		if t >= w.From && t < w.To {
			return true
		}
	}
	return false
}
