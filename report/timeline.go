package report

import (
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/robust"
)

// communication is how the time in collectives is called beside the phases.
const communication = "communication"

// steps are all steps of a job in the order in which they were run. Times are
// nanoseconds; NaN is not known.
type steps struct {
	number   []int64
	attempt  []int
	period   []float64
	phases   map[string][]float64 // mean over the ranks
	wait     []float64
	transfer []float64

	count int // of steps; more than entries where windows stand for them
}

// timeline puts the steps of all attempts one after the other. An attempt whose
// steps hold no known spans counts from one iteration to the next.
func timeline(j *Job, tables []*replay.Table) *steps {
	s := &steps{phases: make(map[string][]float64)}
	all := 0
	has := make(map[replay.Phase]bool)
	for _, t := range tables {
		if t == nil {
			continue
		}
		all += len(t.Steps)
		for _, p := range replay.Phases() {
			has[p] = has[p] || t.Has(p)
		}
	}
	s.number, s.attempt = make([]int64, 0, all), make([]int, 0, all)
	s.period, s.wait, s.transfer = make([]float64, 0, all), make([]float64, 0, all), make([]float64, 0, all)
	for i, t := range tables {
		a := &j.Attempts[i]
		if t == nil {
			var periods []float64
			its := j.Ledger.Iterations(a.Number)
			for k := 1; k < len(its); k++ {
				periods = append(periods, float64(its[k].End-its[k-1].End))
			}
			from := robust.SlowStart(periods, robust.Median(slices.Clone(periods)))
			for k, period := range periods[from:] {
				s.number = append(s.number, its[from+k+1].First)
				s.attempt = append(s.attempt, a.Number)
				s.period = append(s.period, period)
				s.count++
				s.wait, s.transfer = append(s.wait, math.NaN()), append(s.transfer, math.NaN())
			}
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
			wait, transfer := knownMean(ofRanks(func(r int) float64 { w, _ := t.Communication(r, k); return w })), math.NaN()
			if len(t.Ranks) > 0 {
				_, transfer = t.Communication(0, k)
			}
			s.wait, s.transfer = append(s.wait, wait), append(s.transfer, transfer)
		}
		for _, p := range replay.Phases() {
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

// knownMean returns the mean of the values that are not NaN, NaN if there are none.
func knownMean(x []float64) float64 {
	if slices.ContainsFunc(x, math.IsNaN) {
		x = slices.DeleteFunc(slices.Clone(x), math.IsNaN)
	}
	if len(x) == 0 {
		return math.NaN()
	}
	return robust.Mean(x)
}

func (s *steps) steps() Steps {
	out := Steps{Compared: s.count, MaxAt: -1}
	if out.Compared == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(s.period))
	at := slices.Index(s.period, sorted[len(sorted)-1])
	out.Median, out.P99 = robust.NearestRank(sorted, 0.5)/1e6, robust.NearestRank(sorted, 0.99)/1e6
	out.Max, out.MaxAt = s.period[at]/1e6, s.number[at]
	// A quarter of fewer than 40 steps is moved by single ones.
	if n := len(s.period) / 4; n >= 10 {
		first, last := slices.Sorted(slices.Values(s.period[:n])), slices.Sorted(slices.Values(s.period[len(s.period)-n:]))
		out.Trend = robust.NearestRank(last, 0.5)/robust.NearestRank(first, 0.5) - 1
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
	return out
}
