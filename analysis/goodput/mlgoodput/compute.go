package mlgoodput

import (
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/robust"
)

// Options change a question.
type Options struct {
	Ideal   float64 // ideal step time in seconds; 0 computes it
	Elastic bool    // the package's elastic calculator
	Warm    bool    // the calculator has read everything before: no retention
}

// Cumulative answers for the whole job at a moment, in seconds. Records that
// had not reached the log then do not count.
func Cumulative(records []Record, at float64, o Options) (*Answer, error) {
	var seen []Record
	for _, r := range records {
		if r.Logged <= at && (o.Warm || r.Logged >= at-retentionDays*secondsPerDay) {
			seen = append(seen, r)
		}
	}
	byArrival(seen)
	start, end := math.NaN(), math.NaN()
	for _, r := range seen {
		switch r.Kind {
		case JobStart:
			if math.IsNaN(start) {
				start = r.Time
			}
		case JobEnd:
			end = r.Time
		}
	}
	if math.IsNaN(end) {
		end = at
	}
	if math.IsNaN(start) || end == start {
		return nil, ErrNoTime
	}
	a, err := compute(seen, end-start, o)
	if err == nil {
		a.deviations(seen, o)
	}
	return a, err
}

// Window answers for the records that reached the log after from and up to to.
func Window(records []Record, from, to float64, o Options) (*Answer, error) {
	var seen []Record
	for _, r := range records {
		if r.Logged > from && r.Logged <= to {
			seen = append(seen, r)
		}
	}
	if len(seen) == 0 {
		return nil, ErrNoEntries
	}
	byArrival(seen)
	total := seen[len(seen)-1].Time - seen[0].Time
	if total == 0 {
		return nil, ErrNoTime
	}
	return compute(seen, total, o)
}

func byArrival(r []Record) {
	slices.SortStableFunc(r, func(a, b Record) int {
		switch {
		case a.Logged < b.Logged:
			return -1
		case a.Logged > b.Logged:
			return 1
		}
		return 0
	})
}

// span is an event with a start and an end.
type span struct {
	start, end float64
	kind       string
}

// algebra is the state of the package's computation.
type algebra struct {
	Answer
	steps   []stepAt // the segment, in order of arrival
	index   map[int64]int
	startup float64
	custom  []span
	jobAt   float64 // latest job start
	load    float64 // latest load
	loads   float64
	sync    float64
	next    bool // the next load counts as synchronous
}

type stepAt struct {
	step int64
	time float64
}

func compute(records []Record, total float64, o Options) (*Answer, error) {
	a := &algebra{index: make(map[int64]int), next: true}
	a.Total, a.Badput, a.Custom = total, make(map[string]float64), make(map[string]float64)
	a.custom = pairs(records, CustomStart, CustomEnd)
	reinits := pairs(records, ReinitStart, ReinitEnd)
	for _, b := range []string{Init, Prep, Startup, SyncLoad, AsyncLoad, Save, Restore, Wasted, Recovery} {
		a.Badput[b] = 0
	}
	a.Badput[Init] = lengths(pairs(records, InitStart, InitEnd), reinits, o.Elastic)
	a.Badput[Prep] = lengths(pairs(records, PrepStart, PrepEnd), reinits, o.Elastic)
	if o.Elastic {
		a.elastic(records, reinits)
	}
	end := math.NaN()
	loadAt := math.NaN()
	for i := range records {
		switch r := &records[i]; r.Kind {
		case JobStart:
			a.jobAt = r.Time
		case JobEnd:
			end = r.Time
		case LoadStart:
			loadAt = r.Time
		case LoadEnd:
			if !math.IsNaN(loadAt) {
				a.loaded(r.Time - loadAt)
				loadAt = math.NaN()
			}
		case StepStart:
			a.step(r.Step, r.Time)
		}
	}
	a.finish(end)
	save, restore := averaged(records, CheckpointSave), averaged(records, CheckpointRestore)
	a.Productive -= save
	a.Badput[Save], a.Badput[Restore] = save, restore
	a.Badput[SyncLoad], a.Badput[AsyncLoad] = a.sync, a.loads-a.sync
	a.Badput[Startup] = a.startup
	return a.check()
}

func (a *algebra) loaded(d float64) {
	a.load = d
	a.loads += d
	if a.next {
		a.sync += d
		a.next = false
	}
}

func (a *algebra) step(n int64, t float64) {
	if _, again := a.index[n]; again {
		last := a.steps[len(a.steps)-1].time
		a.segment(n)
		a.Disruptions++
		if d := a.jobAt - last; d > 0 {
			a.Badput[Recovery] += d
		}
		a.sync += a.load
		a.next = true
		a.steps, a.index = a.steps[:0], make(map[int64]int)
	}
	a.index[n] = len(a.steps)
	a.steps = append(a.steps, stepAt{n, t})
}

// segment closes the steps so far, of which those up to r survive.
func (a *algebra) segment(r int64) {
	if r == 0 {
		return
	}
	var deltas []stepAt
	for i := 1; i < len(a.steps); i++ {
		p, c := a.steps[i-1], a.steps[i]
		switch {
		case c.step > r:
			a.Badput[Wasted] += c.time - p.time
		case c.step == p.step+1:
			d := c.time - p.time
			for _, e := range a.custom {
				if e.start >= p.time && e.end <= c.time {
					d -= e.end - e.start
					a.Custom[e.kind] += e.end - e.start
				}
			}
			d = max(0, d)
			a.Productive += d
			deltas = append(deltas, stepAt{p.step, d})
		}
	}
	if len(deltas) < 2 {
		return
	}
	first := slices.MinFunc(deltas, func(x, y stepAt) int { return int(x.step - y.step) })
	sum := 0.0
	for _, d := range deltas {
		sum += d.time
	}
	if over := first.time - (sum-first.time)/float64(len(deltas)-1); over > 0 {
		a.startup += over
		a.Productive -= over
	}
}

// finish closes the open segment.
func (a *algebra) finish(end float64) {
	if len(a.steps) == 0 {
		return
	}
	top := slices.MaxFunc(a.steps, func(x, y stepAt) int { return int(x.step - y.step) })
	a.segment(top.step)
	for i := 1; i < len(a.steps); i++ {
		if p := a.steps[i-1].step; a.steps[i].step == p+1 {
			a.LastStep = max(a.LastStep, p)
		}
	}
	if !math.IsNaN(end) {
		a.Productive += end - top.time
		a.LastStep = top.step
	}
}

func (a *algebra) check() (*Answer, error) {
	if a.Productive < 0 || a.Productive > a.Total {
		return nil, ErrProductive
	}
	rest := a.Total - a.Productive
	for name, s := range a.Badput {
		if s < 0 || s > a.Total {
			a.Badput[name] = 0
		} else if name != AsyncLoad {
			rest -= s
		}
	}
	for name, s := range a.Custom {
		if s < 0 || s > a.Total {
			a.Custom[name] = 0
		} else {
			rest -= s
		}
	}
	a.Badput[Other] = max(0, rest)
	a.Goodput = percent * a.Productive / a.Total
	return &a.Answer, nil
}

// pairs joins each end with the last start of its type.
func pairs(records []Record, start, end Kind) (out []span) {
	open := make(map[string]float64)
	for _, r := range records {
		kind := strings.ToUpper(r.Type)
		switch r.Kind {
		case start:
			open[kind] = r.Time
		case end:
			if t, ok := open[kind]; ok {
				out = append(out, span{t, r.Time, kind})
				delete(open, kind)
			}
		}
	}
	return out
}

// lengths adds up spans, without what lies inside a re-initialization.
func lengths(list, reinits []span, elastic bool) (sum float64) {
	for _, s := range list {
		sum += s.end - s.start
		if !elastic {
			continue
		}
		for _, r := range reinits {
			sum -= max(0, min(s.end, r.end)-max(s.start, r.start))
		}
	}
	return sum
}

// elastic adds the buckets of the elastic calculator.
func (a *algebra) elastic(records []Record, reinits []span) {
	a.Badput[SliceDown], a.Badput[ScaleUp], a.Badput[Reinit] = 0, 0, 0
	for _, w := range pairs(records, WaitStart, WaitEnd) {
		if strings.Contains(w.kind, "SCALE_UP") {
			a.Badput[ScaleUp] += w.end - w.start
		} else {
			a.Badput[SliceDown] += w.end - w.start
		}
	}
	for _, r := range reinits {
		a.Badput[Reinit] += r.end - r.start
	}
}

// averaged adds up the durations of checkpoints: the mean of those of one
// step in one kind of place, as if they came from several hosts.
func averaged(records []Record, kind Kind) (sum float64) {
	type place struct {
		step   int64
		remote bool
	}
	type mean struct {
		sum float64
		n   int
	}
	at := make(map[place]mean)
	for _, r := range records {
		if r.Kind == kind {
			p := place{r.Step, strings.HasPrefix(r.Directory, "gs://")}
			m := at[p]
			at[p] = mean{m.sum + r.Duration, m.n + 1}
		}
	}
	for _, m := range at {
		sum += m.sum / float64(m.n)
	}
	return sum
}

// deviations compares each step with the ideal one.
func (a *Answer) deviations(records []Record, o Options) {
	starts := make(map[int64]float64)
	deltas := make(map[int64]float64)
	last := int64(math.MinInt64)
	for _, r := range records {
		if r.Kind != StepStart {
			continue
		}
		if t, ok := starts[r.Step-1]; ok && last == r.Step-1 {
			deltas[r.Step-1] = r.Time - t
		}
		starts[r.Step], last = r.Time, r.Step
	}
	var values []float64
	for step, d := range deltas {
		if d < shortestStep {
			delete(deltas, step)
			continue
		}
		values = append(values, d)
	}
	if len(values) == 0 {
		return
	}
	if a.Ideal = o.Ideal; a.Ideal == 0 {
		m := robust.Median(slices.Clone(values))
		var off []float64
		for _, v := range values {
			off = append(off, math.Abs(v-m))
		}
		limit := m + outlierFactor*robust.Median(off)
		sum, n := 0.0, 0
		for _, v := range values {
			if v <= limit {
				sum, n = sum+v, n+1
			}
		}
		a.Ideal = sum / float64(n)
	}
	a.Deviations = make(map[int64]float64)
	for step, d := range deltas {
		a.Deviations[step] = math.Abs(d - a.Ideal)
	}
}
