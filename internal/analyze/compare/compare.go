// Package compare determines whether one run, or a set of runs, is slower than
// another, and divides the difference into its parts.
//
//	r := compare.Sides([]*compare.Run{&before}, []*compare.Run{&after}, nil)
//	fmt.Println(r.Sentence) // and r.Markdown() for a pull request
//	os.Exit(r.ExitCode())
//
// Steps are not independent of each other, so that tests which assume
// independence find differences between two equal runs in every tenth pair or
// more. Here the error of a median or a mean follows from the lowest
// frequencies of the steps, and a run counts as slower if the whole 98 %
// interval of the change is above 0 and its nearer half is beyond 1 %. One run
// on each side does not show how much equal runs differ; Sides compares several
// on each side, which do.
//
// Result.Parts divide the difference: into start time, lost work and the number
// of steps, and within steps by phase, rank and group, from replays in which
// the values of one run replace those of the other.
//
// The exit codes are 0 for no difference and for a faster run, 3 for a slower
// one, 4 if the runs cannot be compared or their data is not sufficient.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/student"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Options configures a comparison. Nil and the zero value are valid.
type Options struct {
	// Margin is the relative change that is not relevant; 0 means 0.01. Equal runs
	// usually differ by some tenths of a percent.
	Margin float64
	// FailOver is the relative change from which on a slower run is a failure, such
	// as 0.03; at 0 every slower run is one. It affects only the exit code.
	FailOver float64
	// Floor is an additional condition for a failure: the milliseconds by which a
	// step must be slower.
	Floor float64
	// Paired is set if the runs of both sides were made alternately: run i of one
	// side is compared with run i of the other, so that conditions common to both,
	// such as the load of the machine, have no effect.
	Paired bool
}

// same is the interval within which runs count as equal, as a multiple of the
// margin.
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

// Sides compares the runs of two sides. With several runs on either side their
// spread shows how much equal runs differ; at least six in all are needed to
// find a change of 3 %. Nil options are valid.
func Sides(base, next []*Run, opt *Options) *Result {
	o := opt.orDefault()
	r := &Result{Version: 1, Base: names(base), New: names(next), Runs: len(base), NewRuns: len(next), failOver: o.FailOver, floor: o.Floor, Reasons: reasons(base, next)}
	if len(r.Reasons) > 0 {
		r.Kind = NotComparable
		r.describe()
		return r
	}
	r.Evidence = evidence(base, next)
	if slices.ContainsFunc(slices.Concat(base, next), func(r *Run) bool { return len(r.Periods) < minWaves }) {
		return r.byProfile(base[0], next[0])
	}
	a, b := middle(base), middle(next)
	count := true
	if len(base)+len(next) == 2 {
		count = r.measure(a, b)
		r.Notes = append(r.Notes, "one run of each does not show how much equal runs differ; compare several of each")
	} else if o.Paired && len(base) == len(next) {
		r.Paired = true
		r.spreadOfPairs(base, next)
		if len(base) < 5 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d pairs are too few to measure their spread; 5 pairs detect a change of 3 %%", len(base)))
		}
	} else {
		r.spread(base, next)
		if n := len(base) + len(next); n < 6 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d runs are too few to measure their spread; 6 in total detect a change of 3 %%, 11 a change of 2 %%", n))
		}
	}
	for _, run := range slices.Concat(base, next) {
		if run.Doubts != "" {
			r.Notes = append(r.Notes, run.Name+": "+run.Doubts)
		}
	}
	r.Kind = r.judge(o.Margin)
	if !count {
		r.Kind = Inconclusive
	}
	r.Phases = comparePhases(a, b)
	r.divide(a, b)
	r.Profile = compareProfiles(a.Profile, b.Profile)
	if a.Goodput > 0 && b.Goodput > 0 {
		r.Goodput = &[2]float64{a.Goodput, b.Goodput}
	}
	if a.Spent.Wall > 0 && b.Spent.Wall > 0 {
		r.RunTime = &[2]float64{a.Spent.Wall / 1e9, b.Spent.Wall / 1e9}
	}
	r.Account = compareAccounts(a.Account, b.Account)
	r.tellFindings(a, b)
	r.describe()
	return r
}

// byProfile compares the profiles of runs with too few steps for the other
// tests.
func (r *Result) byProfile(a, b *Run) *Result {
	r.Kind, r.Profile, r.Steps = Inconclusive, compareProfiles(a.Profile, b.Profile), [2]int{len(a.Periods), len(b.Periods)}
	if r.Profile == nil {
		r.Kind, r.Reasons = NotComparable, []string{"only one of them is a profile with device times"}
	}
	r.describe()
	return r
}

func names(runs []*Run) string {
	var list []string
	for _, r := range runs {
		list = append(list, r.Name)
	}
	return strings.Join(list, ", ")
}

// evidence returns the possible causes of a difference.
func evidence(base, next []*Run) string {
	first := base[0].Hosts
	if len(base) > 1 && len(next) > 1 && mayShareHost(base, next) {
		return twoRuns
	}
	for _, r := range slices.Concat(base, next) {
		switch {
		case len(r.Hosts) == 0:
			return unknownHosts
		case !slices.Equal(r.Hosts, first):
			return otherHosts
		}
	}
	return sameHosts
}

// mayShareHost reports whether a host was in runs of both sides, or may have been: else their spread does not show how
// much the hosts differ.
func mayShareHost(base, next []*Run) bool {
	var of [2][]string
	for i, side := range [...][]*Run{base, next} {
		for _, r := range side {
			if len(r.Hosts) == 0 {
				return true
			}
			of[i] = append(of[i], r.Hosts...)
		}
	}
	return slices.ContainsFunc(of[0], func(host string) bool { return slices.Contains(of[1], host) })
}

// measure computes the intervals of median and mean of one run on each side. It
// returns false if the steps are too few or their correlation is too high for an
// interval.
func (r *Result) measure(base, next *Run) bool {
	a, b := base.Periods, next.Periods
	la, lb := logs(a), logs(b)
	r.Steps = [2]int{base.steps(), next.steps()}
	r.Correlation = [2]float64{autocorrelation(la), autocorrelation(lb)}
	ra, rb := correlations(la, lb)
	ma, mb := medianOf(la, ra), medianOf(lb, rb)
	r.BaseMS, r.NewMS = math.Exp(ma.value)/1e6, math.Exp(mb.value)/1e6
	iv, _ := change(ma, mb)
	r.Median = iv.exp()
	ma, mb = logMeanOf(a, ra), logMeanOf(b, rb)
	r.meanMS = [2]float64{math.Exp(ma.value) / 1e6, math.Exp(mb.value) / 1e6}
	iv, _ = change(ma, mb)
	r.Mean = iv.exp()
	if n := min(base.values(), next.values()); n < leastFree {
		r.Notes = append(r.Notes, fmt.Sprintf("single steps are not on record, but the mean of %s between updates of the metrics, and %d are needed: compare longer runs, or several of each",
			display.Plural(n, "group"), leastFree))
		return false
	}
	if least := min(free(len(a), ra), free(len(b), rb)); least < leastFree {
		r.Notes = append(r.Notes, fmt.Sprintf("%d %s with a lag-1 correlation of %.2f count as %.0f independent ones, and %d are needed: compare longer runs, or several of each",
			min(len(a), len(b)), base.unit(), max(r.Correlation[0], r.Correlation[1]), least, leastFree))
		return false
	}
	return true
}

func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}

// judge returns the verdict. The median or the mean must be beyond the margin,
// and neither beyond it in the other direction. If the median does not change,
// the mean depends on few pauses, and its whole interval must be beyond the
// margin.
func (r *Result) judge(margin float64) Kind {
	med, avg := r.Median.beyondMargin(margin), r.Mean.beyondMargin(margin)
	if float64(avg)*r.Median.Change < margin && r.Mean.Low < margin && r.Mean.High > -margin {
		avg = 0
	}
	switch {
	case med+avg > 0:
		return Slower
	case med+avg < 0:
		return Faster
	case med != 0: // one slower, the other faster
		return Inconclusive
	case r.Median.withinMargin(same * margin):
		return NoDifference
	}
	return Inconclusive
}

func (r *Run) logMedian() float64 {
	return math.Log(stats.Median(slices.Clone(r.Periods)))
}
func (r *Run) logMean() float64 { return math.Log(stats.Mean(r.Periods)) }

// middle returns the run with the median of the medians.
func middle(runs []*Run) *Run {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(x, y *Run) int { return cmp.Compare(x.logMedian(), y.logMedian()) })
	return runs[(len(runs)-1)/2]
}

// spread computes the intervals from the differences between the runs of each
// side.
func (r *Result) spread(base, next []*Run) {
	nu := float64(len(base) + len(next) - 2)
	t := student.Quantile((1+level)/2, nu)
	compared := func(of func(*Run) float64) (iv Interval, a, b float64) {
		ss := 0.0
		side := func(runs []*Run) float64 {
			var x []float64
			for _, run := range runs {
				x = append(x, of(run))
			}
			m := stats.Mean(x)
			for _, v := range x {
				ss += (v - m) * (v - m)
			}
			return m
		}
		a, b = side(base), side(next)
		w := t * math.Sqrt(ss/nu*(1/float64(len(base))+1/float64(len(next))))
		return Interval{b - a, b - a - w, b - a + w}.exp(), math.Exp(a) / 1e6, math.Exp(b) / 1e6
	}
	r.Median, r.BaseMS, r.NewMS = compared((*Run).logMedian)
	r.Mean, r.meanMS[0], r.meanMS[1] = compared((*Run).logMean)
	r.countSteps(base, next)
}

// spreadOfPairs computes the intervals from the differences between the changes
// of pairs.
func (r *Result) spreadOfPairs(base, next []*Run) {
	n := float64(len(base))
	compared := func(of func(*Run) float64) (iv Interval, a, b float64) {
		var x, y, d []float64
		for i := range base {
			x, y = append(x, of(base[i])), append(y, of(next[i]))
			d = append(d, y[i]-x[i])
		}
		m, ss := stats.Mean(d), 0.0
		for _, v := range d {
			ss += (v - m) * (v - m)
		}
		w := student.Quantile((1+level)/2, n-1) * math.Sqrt(ss/(n-1)/n)
		return Interval{m, m - w, m + w}.exp(), math.Exp(stats.Mean(x)) / 1e6, math.Exp(stats.Mean(y)) / 1e6
	}
	r.Median, r.BaseMS, r.NewMS = compared((*Run).logMedian)
	r.Mean, r.meanMS[0], r.meanMS[1] = compared((*Run).logMean)
	r.countSteps(base, next)
}

func (r *Result) countSteps(base, next []*Run) {
	for k, side := range [...][]*Run{base, next} {
		for _, b := range side {
			r.Steps[k] += b.steps()
			r.Correlation[k] += autocorrelation(logs(b.Periods)) / float64(len(side))
		}
	}
}
