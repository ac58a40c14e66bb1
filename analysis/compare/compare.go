package compare

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/trainspan/trainspan/internal/robust"
)

// Kind is the answer of a comparison.
type Kind string

// The answers.
const (
	Slower        Kind = "slower"
	Faster        Kind = "faster"
	NoDifference  Kind = "no_difference"  // the whole interval lies within ±2 %
	Inconclusive  Kind = "inconclusive"   // none of these can be said
	NotComparable Kind = "not_comparable" // Reasons say why
)

// Options of a comparison. Nil and the zero value are valid.
type Options struct {
	// Margin is the change that does not matter; 0 means 0.01. Noise between
	// runs of the same thing is usually some tenths of a percent.
	Margin float64
	// FailOver is the change from which on a slower run is a failure, such as
	// 0.03; at 0 every slower run is one. It changes the exit code alone.
	FailOver float64
	// Seed of the draws; the same seed gives the same answer.
	Seed uint64
}

// PhaseChange is the change of one phase as a share of the step of the base run.
type PhaseChange struct {
	Phase  string   `json:"phase"`
	Base   float64  `json:"base_ms"` // median
	New    float64  `json:"new_ms"`
	Change Interval `json:"change"`
	// Sure says that the change is none of chance, at 1 % over all phases
	// together (Holm).
	Sure bool `json:"sure"`

	p float64
}

// Result is what a comparison says. Changes are relative: 0.03 is 3 % slower.
type Result struct {
	Version int      `json:"version"` // of this format: 1
	Kind    Kind     `json:"kind"`
	Reasons []string `json:"reasons,omitempty"`
	Base    string   `json:"base"`
	New     string   `json:"new"`
	Runs    int      `json:"base_runs"`
	Median  Interval `json:"median_step"`
	Mean    Interval `json:"mean_step"` // with pauses and checkpoints, which medians do not see
	BaseMS  float64  `json:"base_step_ms"`
	NewMS   float64  `json:"new_step_ms"`
	Steps   [2]int   `json:"steps"` // used of base and new; of a set, of all base runs together
	// Correlation is the lag-1 autocorrelation of the steps of base and new.
	Correlation [2]float64    `json:"autocorrelation"`
	Phases      []PhaseChange `json:"phases,omitempty"` // the largest share of the change first
	Goodput     *[2]float64   `json:"goodput,omitempty"`
	Sentence    string        `json:"sentence"`
	Notes       []string      `json:"notes,omitempty"`

	failOver float64
}

// ExitCode is 0 for no difference and for a faster run, 3 for a run that is
// slower by FailOver or more, 4 when nothing can be said.
func (r *Result) ExitCode() int {
	switch r.Kind {
	case Slower:
		if max(r.Median.Change, r.Mean.Change) >= r.failOver {
			return 3
		}
	case Inconclusive, NotComparable:
		return 4
	}
	return 0
}

// same is the interval within which runs count as equal: twice the margin.
const same = 2

func (o *Options) orDefault() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Margin <= 0 {
		out.Margin = 0.01
	}
	return out
}

// Runs compares two runs. Nil options are valid.
func Runs(base, next *Run, opt *Options) *Result {
	o := opt.orDefault()
	r := &Result{Version: 1, Base: base.Name, New: next.Name, Runs: 1, failOver: o.FailOver}
	r.Reasons = differences(base, next)
	if len(r.Reasons) > 0 {
		r.Kind = NotComparable
		r.describe()
		return r
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x7261696e))
	r.measure(base.Periods, next.Periods, rng)
	r.Phases = comparePhases(base, next, rng)
	r.setGoodput(base, next)
	r.Notes = append(r.Notes, "one run each does not show how much runs of the same thing differ; a set of base runs does")
	r.Kind = r.judge(o.Margin)
	r.describe()
	return r
}

// measure fills the intervals of median and mean.
func (r *Result) measure(a, b []float64, rng *rand.Rand) {
	la, lb := logs(a), logs(b)
	r.Steps = [2]int{len(a), len(b)}
	r.Correlation = [2]float64{autocorrelation(la), autocorrelation(lb)}
	ra, rb := newResampler(la, rng), newResampler(lb, rng)
	ma, mb := newResampler(a, rng), newResampler(b, rng)
	// Means are moved by pauses and saves, which are rarer than steps are
	// correlated: whole stretches of 20 steps are drawn together.
	ma.block, mb.block = meanBlock(ma.block, len(a)), meanBlock(mb.block, len(b))
	dm, da := make([]float64, resamples), make([]float64, resamples)
	for i := range resamples {
		x, _ := ra.draw()
		y, _ := rb.draw()
		dm[i] = y - x
		_, u := ma.draw()
		_, v := mb.draw()
		da[i] = math.Log(v / u)
	}
	r.BaseMS, r.NewMS = robust.Median(slices.Clone(a))/1e6, robust.Median(slices.Clone(b))/1e6
	r.Median = intervalOf(math.Log(r.NewMS/r.BaseMS), dm).exp()
	r.Mean = intervalOf(math.Log(mean(b)/mean(a)), da).exp()
}

func meanBlock(block, m int) int { return max(min(max(block, 20), m/5), 1) }

func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}

// judge needs median or mean beyond the margin, and neither beyond it on the
// other side.
func (r *Result) judge(margin float64) Kind {
	// The mean rests on a few pauses; its interval is too short by about half
	// as much again, so it must clear the margin by its own half width once
	// more.
	wide := r.Mean
	half := (wide.High - wide.Low) / 4
	wide.Low, wide.High = wide.Low-half, wide.High+half
	med, avg := r.Median.beyond(margin), wide.beyond(margin)
	switch {
	case med+avg > 0:
		return Slower
	case med+avg < 0:
		return Faster
	case med != 0: // one slower, the other faster
		return Inconclusive
	case r.Median.inside(same * margin):
		return NoDifference
	}
	return Inconclusive
}

// Against compares a run with a set of base runs: their spread says how much
// runs of the same thing differ. Five base runs are the fewest that find a
// change of 3 %; with two nearly nothing is found. Nil options are valid.
func Against(base []*Run, next *Run, opt *Options) *Result {
	o := opt.orDefault()
	if len(base) == 1 {
		return Runs(base[0], next, opt)
	}
	r := &Result{Version: 1, New: next.Name, Runs: len(base), failOver: o.FailOver}
	if len(base) == 0 {
		r.Reasons = []string{"there is no base run"}
	}
	var names []string
	for _, b := range base {
		names = append(names, b.Name)
		for _, d := range differences(b, next) {
			if !slices.Contains(r.Reasons, d) {
				r.Reasons = append(r.Reasons, d)
			}
		}
	}
	r.Base = strings.Join(names, ", ")
	if len(r.Reasons) > 0 {
		r.Kind = NotComparable
		r.describe()
		return r
	}
	r.spread(base, next)
	r.Kind = r.judgeSet(o.Margin)
	if len(base) < 5 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d base runs say little about their spread; 5 find a change of 3 %%, 10 one of 2 %%", len(base)))
	}
	// Phases and goodput beside the base run in the middle.
	mid := slices.Clone(base)
	slices.SortFunc(mid, func(x, y *Run) int { return cmp.Compare(x.logMedian(), y.logMedian()) })
	m := mid[(len(mid)-1)/2]
	r.Phases = comparePhases(m, next, rand.New(rand.NewPCG(o.Seed, 0x7261696e)))
	r.setGoodput(m, next)
	r.describe()
	return r
}

func (r *Run) logMedian() float64 {
	return math.Log(robust.Median(slices.Clone(r.Periods)))
}
func (r *Run) logMean() float64 { return math.Log(mean(r.Periods)) }

// spread fills the prediction intervals of one more run of the same thing.
func (r *Result) spread(base []*Run, next *Run) {
	k := float64(len(base))
	t := distuv.StudentsT{Sigma: 1, Nu: k - 1}.Quantile(0.995)
	predict := func(of func(*Run) float64) (Interval, float64) {
		var x []float64
		for _, b := range base {
			x = append(x, of(b))
		}
		m := mean(x)
		var ss float64
		for _, v := range x {
			ss += (v - m) * (v - m)
		}
		d := of(next) - m
		w := t * math.Sqrt(ss/(k-1)*(1+1/k))
		return Interval{d, d - w, d + w}.exp(), math.Exp(m)
	}
	var typical float64
	r.Median, typical = predict((*Run).logMedian)
	r.Mean, _ = predict((*Run).logMean)
	r.BaseMS, r.NewMS = typical/1e6, math.Exp(next.logMedian())/1e6
	for _, b := range base {
		r.Steps[0] += len(b.Periods)
		r.Correlation[0] += autocorrelation(logs(b.Periods)) / k
	}
	r.Steps[1], r.Correlation[1] = len(next.Periods), autocorrelation(logs(next.Periods))
}

// judgeSet asks for a change that is no chance and that matters. The interval
// holds the noise between runs, so that it need not lie beyond the margin.
func (r *Result) judgeSet(margin float64) Kind {
	side := func(iv Interval) int {
		if math.Abs(iv.Change) <= margin {
			return 0
		}
		return iv.beyond(0)
	}
	med, avg := side(r.Median), side(r.Mean)
	switch {
	case med+avg > 0:
		return Slower
	case med+avg < 0:
		return Faster
	case med == 0 && r.Median.inside(same*margin):
		return NoDifference
	}
	return Inconclusive
}

func (r *Result) setGoodput(a, b *Run) {
	if a.Goodput > 0 && b.Goodput > 0 {
		r.Goodput = &[2]float64{a.Goodput, b.Goodput}
	}
}
