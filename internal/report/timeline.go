package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// communication is the name of the time in collectives among the phases.
const communication = "communication"

// steps holds all steps of a job in execution order. Times are in nanoseconds; NaN
// means unknown.
type steps struct {
	number   []int64
	attempt  []int
	period   []float64
	phases   map[string][]float64 // mean over the ranks
	wait     []float64
	transfer []float64

	count int // number of steps; more than the number of entries if these are windows
}

// timeline concatenates the steps of all attempts.
func (j *Job) timeline(tables []*straggler.Table) *steps {
	s := &steps{phases: make(map[string][]float64)}
	all := 0
	has := make(map[straggler.Phase]bool)
	for _, t := range tables {
		if t == nil {
			continue
		}
		all += len(t.Steps)
		for _, p := range straggler.Phases() {
			has[p] = has[p] || t.Has(p)
		}
	}
	s.number, s.attempt = make([]int64, 0, all), make([]int, 0, all)
	s.period, s.wait, s.transfer = make([]float64, 0, all), make([]float64, 0, all), make([]float64, 0, all)
	for i, t := range tables {
		a := &j.Attempts[i]
		if t == nil {
			continue
		}
		s.count += len(t.Steps) * int(t.Per)
		s.number = append(s.number, t.Steps...)
		s.period = append(s.period, t.Period...)
		values := make([]float64, len(t.Ranks))
		ofRanks := func(value func(rank int) float64) []float64 {
			for r := range values {
				values[r] = value(r)
			}
			return values
		}
		for k := range t.Steps {
			s.attempt = append(s.attempt, a.Number)
			s.wait = append(s.wait, knownMean(ofRanks(func(r int) float64 { w, _ := t.Communication(r, k); return w })))
			s.transfer = append(s.transfer, knownMean(ofRanks(func(r int) float64 { _, c := t.Communication(r, k); return c })))
		}
		for _, p := range straggler.Phases() {
			name := p.String()
			x := s.phases[name]
			if !has[p] {
				continue
			}
			if x == nil {
				x = make([]float64, 0, all)
			}
			for len(x) < len(s.number)-len(t.Steps) {
				x = append(x, math.NaN())
			}
			for k := range t.Steps {
				x = append(x, knownMean(ofRanks(func(r int) float64 { return t.Phase(p, r, k) })))
			}
			s.phases[name] = x
		}
	}
	for name, x := range s.phases {
		for len(x) < len(s.number) {
			x = append(x, math.NaN())
		}
		s.phases[name] = x
		if !slices.ContainsFunc(x, func(v float64) bool { return v > 0 }) {
			delete(s.phases, name)
		}
	}
	return s
}

// knownMean returns the mean of the values that are not NaN, or NaN if there are none.
func knownMean(x []float64) float64 {
	if slices.ContainsFunc(x, math.IsNaN) {
		x = slices.DeleteFunc(slices.Clone(x), math.IsNaN)
	}
	if len(x) == 0 {
		return math.NaN()
	}
	return stats.Mean(x)
}

func (s *steps) steps() Steps {
	out := Steps{Compared: s.count, MaxAt: -1}
	if out.Compared == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(s.period))
	at := slices.Index(s.period, sorted[len(sorted)-1])
	out.Median, out.P99 = stats.NearestRank(sorted, 0.5)/1e6, stats.NearestRank(sorted, 0.99)/1e6
	out.Max, out.MaxAt = s.period[at]/1e6, s.number[at]
	// In a quarter of fewer than ten steps, single steps would dominate.
	if n := len(s.period) / 4; n >= 10 {
		first, last := slices.Sorted(slices.Values(s.period[:n])), slices.Sorted(slices.Values(s.period[len(s.period)-n:]))
		if before := stats.NearestRank(first, 0.5); before > 0 { // shorter ones than the clock's resolution are 0
			change := stats.NearestRank(last, 0.5)/before - 1
			out.Trend = &change
		}
	}
	for name, x := range s.phases {
		if out.Phases == nil {
			out.Phases = make(map[string]float64)
		}
		out.Phases[name] = knownMean(x) / 1e6
	}
	if w, t := knownMean(s.wait)/1e6, knownMean(s.transfer)/1e6; w == w && t == t {
		out.Wait, out.Transfer = &w, &t
	}
	s.usual(&out)
	out.few = make(map[string]*finding.Evidence)
	for name, x := range s.phases {
		if e := s.inFew(x); e != nil {
			out.few[name] = e
		}
	}
	return out
}

// inFew returns the steps that have most of the time of a phase, or nil if these are not few.
func (s *steps) inFew(x []float64) *finding.Evidence {
	if len(s.number) != s.count { // of windows
		return nil
	}
	order, all := make([]int, 0, len(x)), 0.0
	for i, v := range x {
		if v > 0 {
			order, all = append(order, i), all+v
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	n, sum := 0, 0.0
	for n < len(order) && sum < mostPart*all {
		sum += x[order[n]]
		n++
	}
	if n == 0 || float64(n) > fewPart*float64(len(x)) {
		return nil
	}
	e := &finding.Evidence{Affected: n, Interval: len(x), Judged: len(x), Excess: sum / float64(n) / 1e6, Level: all / float64(len(x)) / 1e6}
	slices.Sort(order[:n])
	for _, i := range order[:min(n, mostSteps)] {
		e.Steps = append(e.Steps, s.number[i])
	}
	return e
}

const (
	longTimes = 5   // the median: steps above are long
	fewPart   = 0.1 // of the steps: more long ones are not left out of a mean
	mostPart  = 0.8 // of the time of a phase: what is in few steps
	mostSteps = 8   // that are listed
)

// usual sets the mean parts of the steps without the long ones, if there are any: a few of these, such as those
// around an evaluation, would make up most of a mean.
func (s *steps) usual(out *Steps) {
	most := longTimes * out.Median * 1e6
	n := 0
	for _, period := range s.period {
		if period > most {
			n++
		}
	}
	if n == 0 || float64(n) > fewPart*float64(len(s.period)) {
		return
	}
	out.long = n
	kept := func(x []float64) float64 {
		var list []float64
		for i, v := range x {
			if s.period[i] <= most && !math.IsNaN(v) {
				list = append(list, v)
			}
		}
		if len(list) == 0 {
			return math.NaN()
		}
		return stats.Mean(list) / 1e6
	}
	out.typical = make(map[string]float64)
	for name, x := range s.phases {
		out.typical[name] = kept(x)
	}
	if out.Wait != nil {
		out.typical[partWait], out.typical[communication] = kept(s.wait), kept(s.transfer)
	}
}

// waitTable is the table of who waited for whom: the names that waited longest in rows, those that
// were waited for longest in columns, and one for the others.
type waitTable struct {
	Sentence string
	By       string
	Names    []string
	Rows     []waitRow
}

type waitRow struct {
	Name  string
	Cells []waitCell
	Total int64 // ns
}

// waitCell is a cell of the table. Weight is its share of the largest cell, from 0 to 1, or ""
// without a wait.
type waitCell struct {
	Weight string
	Time   int64 // ns
}

// mostWaits is the largest number of rows and of columns of the table.
const mostWaits = 12

// waits returns the table of a verdict, or nil without waits.
func waits(v *straggler.Verdict) *waitTable {
	if v == nil || v.Waits == nil || v.Waits.Total == 0 || len(v.Waits.Names) < 2 {
		return nil
	}
	w := v.Waits
	waited, caused := make([]int64, len(w.Names)), make([]int64, len(w.Names))
	for _, c := range w.Cells {
		waited[c.Waiter] += c.Time
		caused[c.For] += c.Time
	}
	rows, rowNames := longestFirst(w.Names, waited)
	columns, names := longestFirst(w.Names, caused)
	times := make([][]int64, len(rowNames))
	for i := range times {
		times[i] = make([]int64, len(names))
	}
	largest := int64(0)
	for _, c := range w.Cells {
		row, column := rows[c.Waiter], columns[c.For]
		times[row][column] += c.Time
		if rowNames[row] == w.Names[c.Waiter] && names[column] == w.Names[c.For] { // not of several names
			largest = max(largest, times[row][column])
		}
	}
	t := &waitTable{By: w.By, Names: slices.Clone(names)}
	if v.Kind == finding.SlowRanks {
		for i, name := range names {
			t.Names[i] += culprits(name, v.Ranks)
		}
	}
	for i, name := range rowNames {
		row := waitRow{Name: name}
		for _, us := range times[i] {
			cell := waitCell{Time: us * 1000}
			if us > 0 {
				cell.Weight = strconv.FormatFloat(min(float64(us)/float64(largest), 1), 'f', 2, 64)
			}
			row.Cells = append(row.Cells, cell)
			row.Total += cell.Time
		}
		t.Rows = append(t.Rows, row)
	}
	list := func(parts []straggler.WaitPart) string {
		var out []string
		for _, p := range parts[:min(len(parts), 4)] {
			if share := float64(p.Time) / float64(w.Total); share >= worth {
				out = append(out, fmt.Sprintf("%s %s", finding.Word(p.Name), display.Percent(share)))
			}
		}
		return strings.Join(out, ", ")
	}
	t.Sentence = fmt.Sprintf("%s of the compared steps of all ranks is waiting for others. By group: %s. The last one took longer in: %s.", display.Percent(w.Share), list(w.Group), list(w.Phases))
	if w.Bubble > 0 {
		t.Sentence += fmt.Sprintf(" %s of it is the bubble of the pipeline: waiting for messages.", display.Percent(float64(w.Bubble)/float64(w.Total)))
	}
	return t
}

// longestFirst returns the place of each name in a list that begins with those of the longest times,
// and that list. If there are more than mostWaits names, its last entry stands for the others, also
// for those with less than a hundredth of the time. Fewer names keep their order.
func longestFirst(names []string, times []int64) (place []int, list []string) {
	place = make([]int, len(names))
	order := make([]int, len(names))
	all := int64(0)
	for i := range order {
		order[i] = i
		all += times[i]
	}
	if len(names) > mostWaits {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[b], times[a]) })
	}
	for n, i := range order {
		if len(names) > mostWaits && (n >= mostWaits-1 || 100*times[i] < all) {
			place[i] = len(list) // the last one
			continue
		}
		place[i], list = n, append(list, names[i])
	}
	if n := len(names) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("%d others", n))
	}
	return place, list
}

// culprits returns the ranks that are within a range such as 16-31, in parentheses, or "".
func culprits(name string, ranks []int) string {
	from, to, _ := strings.Cut(name, "-")
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	var in []string
	for _, r := range ranks {
		if err1 == nil && err2 == nil && first <= r && r <= last && len(in) < 4 {
			in = append(in, strconv.Itoa(r))
		}
	}
	if in == nil {
		return ""
	}
	return " (" + strings.Join(in, ", ") + ")"
}
