package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// collectiveTransfer is the name of the transfer of collectives among the parts of a step.
const collectiveTransfer = "transfer of the collectives"

// The resolution of the charts. It limits the size of the file for jobs of any size.
const (
	maxBins    = 150 // of time
	maxPoints  = 900 // of steps
	heatRows   = 128
	heatCols   = 240
	maxLanes   = 16
	maxRankRow = 128 // rows in the table of an HTML file

	// maxAttempts is the number of attempts in the charts and the table: the last
	// ones. The earlier ones are merged in one row.
	maxAttempts = 100
)

// Numbers is a list of numbers whose JSON form has four significant digits. NaN and
// infinities become null.
type Numbers []float64

// MarshalJSON implements [json.Marshaler].
func (x Numbers) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 8*len(x)+2), '[')
	for i, v := range x {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, v, 'g', 4, 64)
	}
	return append(out, ']'), nil
}

var _ json.Marshaler = Numbers(nil)

// Series holds the data of the charts, reduced to a bounded size.
type Series struct {
	// Time holds the edges of the bins of Ledger in nanoseconds since the start of the
	// job: one more than the number of bins.
	Time []int64 `json:"time_ns"`
	// Ledger is the share of each category in each bin.
	Ledger map[account.Category]Numbers `json:"ledger,omitempty"`
	// Attempts holds the intervals of each attempt, with the category that has most of
	// their time.
	Attempts []Stretch `json:"attempts,omitempty"`

	Steps *StepSeries `json:"steps,omitempty"`
	Heat  *Heat       `json:"heat,omitempty"`
	Lanes *Lanes      `json:"lanes,omitempty"`
}

// Stretch is an interval of an attempt, in nanoseconds since the start of the job.
type Stretch struct {
	Attempt  int              `json:"attempt"`
	From     int64            `json:"from_ns"`
	To       int64            `json:"to_ns"`
	Category account.Category `json:"category"`
}

// StepSeries holds the steps in execution order. Each point is one or more steps.
// Times are in milliseconds.
type StepSeries struct {
	Per      int                `json:"steps_per_point"`
	Step     []int64            `json:"step"` // number of the first step of each point
	Attempt  []int              `json:"attempt"`
	Median   Numbers            `json:"median_ms"`
	Max      Numbers            `json:"max_ms"`
	Phases   map[string]Numbers `json:"phases_ms"` // mean over ranks
	Wait     Numbers            `json:"wait_ms,omitempty"`
	Transfer Numbers            `json:"transfer_ms,omitempty"`
}

// Heat is a heat map of the excess compute time of ranks (rows) in steps (columns)
// of the attempt of the diagnosis. Each cell is a byte; 255 means Scale milliseconds
// or more. A row of several ranks shows the worst of them, and a column of several
// steps the mean of the worst quarter.
type Heat struct {
	Attempt int     `json:"attempt"`
	Ranks   []int   `json:"first_rank"` // the first rank of each row
	Steps   []int64 `json:"first_step"` // the first step of each column
	Scale   float64 `json:"scale_ms"`
	Cells   []byte  `json:"cells"` // row by row, base64
}

// Lanes shows how each rank spent one step, up to the start of the next step.
type Lanes struct {
	Attempt int     `json:"attempt"`
	Step    int64   `json:"step"`
	Why     string  `json:"why"`
	Ranks   []int   `json:"ranks"`
	Parts   []Part  `json:"parts"`
	Period  float64 `json:"period_ms"`
}

// Part is the time of the ranks of [Lanes] in one part of the step, in milliseconds.
type Part struct {
	Name string  `json:"name"`
	Time Numbers `json:"ms"`
}

func (j *Job) series(out *Series, tables []*straggler.Table, s *steps, attempt int) {
	out.Steps = s.series()
	for i, t := range tables {
		if t != nil && len(t.Ranks) > 1 && len(t.Steps) > 0 && t.Meets && j.Attempts[i].Number == attempt {
			out.Heat = heat(t, attempt)
			out.Lanes = lanes(t, attempt)
		}
	}
}

// time fills Time, Ledger and Attempts bin by bin.
func (s *Series) time(j *Job, led *account.Report) {
	if led.Wall <= 0 || led.Excluded > 0 {
		return
	}
	bins := int64(maxBins)
	bins = min(bins, led.Wall)
	s.Ledger = make(map[account.Category]Numbers)
	edge := func(i int64) int64 {
		return led.From + int64(float64(led.Wall)*float64(i)/float64(bins))
	}
	edges := make([]int64, bins+1)
	for i := range edges {
		edges[i] = edge(int64(i))
	}
	shown := 0 // only attempts with a higher number are shown
	if n := len(led.Attempts); n > maxAttempts {
		shown = led.Attempts[n-maxAttempts-1].Attempt
	}
	latest := make(map[int]int)
	for i, bin := range binned(j.Ledger, edges) {
		s.Time = append(s.Time, edges[i]-led.From)
		spent := account.Totals{}
		for _, of := range bin {
			for c, ns := range of {
				spent[c] += ns
			}
		}
		all := float64(max(spent.Sum(), 1))
		for c, ns := range spent {
			if s.Ledger[c] == nil {
				s.Ledger[c] = make(Numbers, bins)
			}
			s.Ledger[c][i] = float64(ns) / all
		}
		for _, n := range slices.Sorted(maps.Keys(bin)) {
			if n > shown {
				s.addBin(latest, n, bin[n], edges[i]-led.From, edges[i+1]-led.From)
			}
		}
	}
	s.Time = append(s.Time, led.Wall)
}

// binned returns the time of each attempt by category between neighbouring edges. edges is
// ascending. Time before the first attempt of a rank belongs to attempt 0.
func binned(l *account.Ledger, edges []int64) []map[int]account.Totals {
	out := make([]map[int]account.Totals, len(edges)-1)
	for i := range out {
		out[i] = make(map[int]account.Totals)
	}
	type place struct {
		bin, attempt int
		category     account.Category
	}
	var last place
	var sum int64
	keep := func() {
		if sum == 0 {
			return
		}
		if out[last.bin][last.attempt] == nil {
			out[last.bin][last.attempt] = account.Totals{}
		}
		out[last.bin][last.attempt][last.category] += sum
		sum = 0
	}
	i := 0
	_ = l.Stretches(func(st *account.Stretch) error { // never fails
		if st.Start < edges[i] { // the next rank
			i = 0
		}
		end := min(st.End, edges[len(out)])
		for x := max(st.Start, edges[0]); x < end; x = edges[i+1] {
			for edges[i+1] <= x {
				i++
			}
			if in := (place{i, st.Attempt, st.Category}); in != last { // most intervals are in the bin of the one before
				keep()
				last = in
			}
			sum += min(end, edges[i+1]) - x
		}
		return nil
	})
	keep()
	return out
}

// addBin adds a bin to the timeline of an attempt. latest maps each attempt to the
// index in Attempts of its last interval.
func (s *Series) addBin(latest map[int]int, attempt int, spent account.Totals, from, to int64) {
	var best account.Category
	for c, ns := range spent {
		if b := spent[best]; ns > b || ns == b && ns > 0 && c < best {
			best = c
		}
	}
	if best == "" || attempt == 0 {
		return
	}
	if i, ok := latest[attempt]; ok {
		if l := &s.Attempts[i]; l.Category == best && l.To == from {
			l.To = to
			return
		}
	}
	latest[attempt] = len(s.Attempts)
	s.Attempts = append(s.Attempts, Stretch{Attempt: attempt, From: from, To: to, Category: best})
}

func (s *steps) series() *StepSeries {
	n := len(s.period)
	if n == 0 {
		return nil
	}
	per := (n + maxPoints - 1) / maxPoints
	out := &StepSeries{Per: per, Phases: make(map[string]Numbers)}
	comm := slices.ContainsFunc(s.wait, func(v float64) bool { return v == v })
	buf := make([]float64, 0, per)
	for at := 0; at < n; {
		end := min(at+per, n)
		// A point does not span two attempts.
		for k := at + 1; k < end; k++ {
			if s.attempt[k] != s.attempt[at] {
				end = k
			}
		}
		buf = append(buf[:0], s.period[at:end]...)
		slices.Sort(buf)
		out.Step, out.Attempt = append(out.Step, s.number[at]), append(out.Attempt, s.attempt[at])
		out.Median = append(out.Median, stats.NearestRank(buf, 0.5)/1e6)
		out.Max = append(out.Max, buf[len(buf)-1]/1e6)
		for name, x := range s.phases {
			out.Phases[name] = append(out.Phases[name], knownMean(x[at:end])/1e6)
		}
		if comm {
			out.Wait = append(out.Wait, knownMean(s.wait[at:end])/1e6)
			out.Transfer = append(out.Transfer, knownMean(s.transfer[at:end])/1e6)
		}
		at = end
	}
	return out
}

func heat(t *straggler.Table, attempt int) *Heat {
	perRow, perCol := (len(t.Ranks)+heatRows-1)/heatRows, (len(t.Steps)+heatCols-1)/heatCols
	h := &Heat{Attempt: attempt}
	for c := 0; c < len(t.Steps); c += perCol {
		h.Steps = append(h.Steps, t.Steps[c])
	}
	var cells []float64
	buf := make([]float64, 0, perCol)
	for r := 0; r < len(t.Ranks); r += perRow {
		h.Ranks = append(h.Ranks, t.Ranks[r])
		for c := 0; c < len(t.Steps); c += perCol {
			worst := 0.0
			for rank := r; rank < min(r+perRow, len(t.Ranks)); rank++ {
				buf = buf[:0]
				for step := c; step < min(c+perCol, len(t.Steps)); step++ {
					if v := t.Excess(rank, step); v == v {
						buf = append(buf, v)
					}
				}
				slices.SortFunc(buf, func(a, b float64) int { return cmp.Compare(b, a) })
				if len(buf) > 0 {
					worst = max(worst, knownMean(buf[:(len(buf)+3)/4]))
				}
			}
			cells = append(cells, worst/1e6)
		}
	}
	sorted := slices.Sorted(slices.Values(cells))
	// A single pause must not hide all other differences, and noise must not look
	// significant: full colour is at least 5 % of a step.
	h.Scale = max(stats.NearestRank(sorted, 0.995), 0.05*stats.NearestRank(slices.Sorted(slices.Values(t.Period)), 0.5)/1e6)
	for _, v := range cells {
		h.Cells = append(h.Cells, byte(min(255*v/h.Scale, 255)))
	}
	return h
}

// lanes returns the lanes of a typical step: of the half of the steps whose length
// is nearest to the median, the one whose largest excess is the median. A step with
// a checkpoint, for example, is not typical.
func lanes(t *straggler.Table, attempt int) *Lanes {
	type cost struct {
		step   int
		excess float64
	}
	var all []cost
	for i := range t.Steps {
		c := cost{i, 0}
		for r := range t.Ranks {
			if v := t.Excess(r, i); v > c.excess {
				c.excess = v
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cost) int {
		return cmp.Or(cmp.Compare(t.Period[a.step], t.Period[b.step]), cmp.Compare(a.step, b.step))
	})
	all = all[len(all)/4 : len(all)-len(all)/4]
	slices.SortFunc(all, func(a, b cost) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.step, b.step))
	})
	at := all[len(all)/2].step
	out := &Lanes{Attempt: attempt, Step: t.Steps[at], Period: t.Period[at] / 1e6, Why: "a typical step: of usual length, and its largest excess is the median"}
	rows := make([]int, len(t.Ranks))
	for i := range rows {
		rows[i] = i
	}
	// If there are many ranks, show those that were busiest and those that waited most.
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(t.Own(b, at), t.Own(a, at)) })
	if len(rows) > maxLanes {
		rows = append(rows[:maxLanes/2], rows[len(rows)-maxLanes/2:]...)
	}
	for _, r := range rows {
		out.Ranks = append(out.Ranks, t.Ranks[r])
	}
	part := func(name string, of func(rank int) float64) {
		p := Part{Name: name}
		any := false
		for _, r := range rows {
			v := of(r) / 1e6
			any = any || v > 0
			p.Time = append(p.Time, v)
		}
		if any {
			out.Parts = append(out.Parts, p)
		}
	}
	for _, p := range straggler.Phases() {
		part(p.String(), func(r int) float64 { return t.Phase(p, r, at) })
	}
	part(partWait, func(r int) float64 { w, _ := t.Communication(r, at); return w })
	part(collectiveTransfer, func(r int) float64 { _, x := t.Communication(r, at); return x })
	return out
}
