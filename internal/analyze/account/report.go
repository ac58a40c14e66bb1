package account

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// final is later than every time in a ledger: everything that is known counts.
const final int64 = math.MaxInt64 - 1

// Query selects what a report covers. All times are nanoseconds since the Unix
// epoch. The zero value selects everything.
type Query struct {
	// From and To bound the window. It does not begin before the start of the
	// job, and it ends at To even if nothing was recorded there. A zero From
	// means the start of the job. A zero To means AsOf or, if that is also zero,
	// the last record or heartbeat.
	From, To int64

	// AsOf limits the report to what was known at that time: spans that began
	// later do not exist, and spans that ended later are still open. Zero means
	// no limit. A live view of a window has AsOf equal to To.
	AsOf int64

	// Exclude lists intervals to remove from the window.
	Exclude []Interval
}

// Report is the answer to a query. Every set of categories adds up to its wall time.
type Report struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`

	// Wall is the length of the window without the excluded time. Excluded is the
	// excluded time in the window.
	Wall     int64 `json:"wall_ns"`
	Excluded int64 `json:"excluded_ns,omitempty"`

	// Categories is rank time: its sum is the number of ranks times Wall.
	Categories Totals `json:"categories_ns"`

	// Overlapped is time hidden behind other categories. It is not part of any sum.
	Overlapped Totals `json:"overlapped_ns,omitempty"`

	// ProductiveParts divides the productive time; see [Parts].
	ProductiveParts Parts `json:"productive_parts_ns"`

	// WaitedFor is how long ranks waited for others, inside and outside of steps, by the
	// rank that came last, the largest first. It has at most 64 ranks.
	WaitedFor []WaitedFor `json:"waited_for,omitempty"`

	// Bubble is the part of WaitInStep in which ranks waited for messages of others: the bubble
	// of a pipeline.
	Bubble int64 `json:"-"`

	// Unmatched is the time of all ranks in collectives that cannot be matched, usually
	// because a member has no record of them: in the steps that count, and outside of steps
	// in the whole job. It counts as communication, although some of it may be waiting.
	Unmatched int64 `json:"unmatched_ns,omitempty"`

	// AllProductive is how long all ranks were productive at the same time, and
	// AnyProductive how long at least one rank was.
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

	// BeforeSteps is the part of custom categories and of [Other] before the first iteration of an attempt:
	// the program's own start.
	BeforeSteps Totals `json:"before_steps_ns,omitempty"`
}

// AttemptReport is the time of one attempt of all ranks in the window. The time
// between an attempt and the next one belongs to the earlier one. The time before
// the first attempt of a rank belongs to no attempt.
type AttemptReport struct {
	Attempt int   `json:"attempt"`
	Start   int64 `json:"start_ns"` // of the first rank
	Stop    int64 `json:"stop_ns"`  // the end, or the last record or heartbeat, of the last rank
	// Latest is the time until which a rank may have lived without records. It is left out
	// if it is not after Stop.
	Latest     int64  `json:"stop_latest_ns,omitempty"`
	Ended      bool   `json:"ended"` // every rank ended properly
	Ranks      int    `json:"ranks"`
	Categories Totals `json:"categories_ns"`
	Usual      int64  `json:"usual_iteration_ns,omitempty"` // median over the ranks
}

// Iterations counts the iterations that began in the window. The counts are those
// of the rank with the most iterations.
type Iterations struct {
	Kept       int   `json:"kept"`
	Lost       int   `json:"lost"`
	Unfinished int   `json:"unfinished"`      // unfinished and not lost
	AtRisk     int   `json:"at_risk"`         // not lost, and not in a checkpoint that is known to be saved
	AtRiskTime int64 `json:"at_risk_ns"`      // the productive time of the iterations at risk, of all ranks
	Shortest   int64 `json:"shortest_ns"`     // the shortest own time of a finished iteration of any rank
	Saved      int64 `json:"saved_through"`   // the last iteration in a saved checkpoint, -1 if there is none
	HasSaves   bool  `json:"saves_are_known"` // a saved checkpoint was recorded
}

// Ratio returns the productive fraction of the rank time, or NaN for a window of
// length 0.
func (r *Report) Ratio() float64 { return r.Categories.ratio() }

// Report returns the report for a query. If the ledger is empty, or nothing was
// known at q.AsOf, the report has no ranks and no time.
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

// without returns the remaining intervals of a window, in order, and the length of
// the excluded time.
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

// filler adds up the time in the windows for a report, rank by rank.
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
	rr := RankReport{Rank: r.id, Categories: Totals{}, Overlapped: Totals{}, BeforeSteps: Totals{}}
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
	of := make([]Totals, len(r.attempts)+1) // by attempt; the first has the time outside of attempts
	for k := range of {
		of[k] = Totals{}
	}
	for _, w := range f.windows {
		f.eachRankStretch(r, w.From, w.To, func(s stretch, attempt int) {
			of[attempt+1].add(s.category, s.to-s.from)
			if s.category.IsCustom() || s.category == Other {
				rr.BeforeSteps.add(s.category, max(min(s.to, r.firstStep(attempt))-s.from, 0))
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
	for k, t := range of {
		rr.Categories.addAll(t)
		if k > 0 {
			f.byNumber[r.attempts[k-1].Attempt].Categories.addAll(t)
		}
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

// firstStep returns the start of the first iteration of an attempt, by index, or 0 if it has none.
func (r *rankView) firstStep(attempt int) int64 {
	if attempt < 0 || len(r.attempts[attempt].iterations) == 0 {
		return 0
	}
	return r.attempts[attempt].iterations[0].start
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

// hidden adds the overlapped time in a window to into.
func (r *rankView) hidden(w Interval, into Totals) {
	last, took := Productive, int64(0) // most are of the same category
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
			if c != last {
				into.add(last, took)
				last, took = c, 0
			}
			took += to - from
		}
	}
	into.add(last, took)
}

// saved returns the last iteration in a saved checkpoint that was not undone, or
// job.Unknown. known reports whether any saved checkpoint was recorded.
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

// undone returns the lowest first iteration of the loops that began at or after t.
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
