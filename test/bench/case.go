// Package bench compares trainspan with other ways to record a trace from a Go
// program. It is a separate module, so that the compared libraries are no
// dependencies of the library.
//
//	cd test/bench && go run ./cmd/table
//
// prints the table of docs/maintain/releasing.md in some minutes, and with
// -cases every way to record a span. All ratios are from one run: the cases
// alternate, so that load affects all of them.
package bench

import (
	"errors"
	"runtime"
	"slices"
	"time"
)

// Case is one way to record a span.
type Case struct {
	Name string
	// Setup returns the operation, to be done n times, and what ends it.
	Setup func(dir string) (run func(n int), done func() error, err error)
}

// Result is the cost of a case.
type Result struct {
	Name   string
	Nanos  float64   // per operation, in the fastest round: the least disturbed one
	Median float64   // per operation, in the median round
	CPU    []float64 // nanoseconds of CPU time per operation of the goroutine, by round
	Allocs float64   // per operation
	Bytes  float64   // allocated per operation
}

// Ratio returns the CPU time of r as a multiple of that of base: the median of
// the rounds. It depends little on the load of the machine, and does not
// include the work of other goroutines for r, such as compression.
func (r *Result) Ratio(base *Result) float64 {
	ratios := make([]float64, min(len(r.CPU), len(base.CPU)))
	for i := range ratios {
		ratios[i] = r.CPU[i] / base.CPU[i]
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// Measure runs all cases alternately for some rounds.
func Measure(dir string, cases []Case, rounds int, each time.Duration) (results []Result, err error) {
	type running struct {
		run   func(int)
		done  func() error
		n     int
		times []float64
		res   Result
	}
	all := make([]*running, 0, len(cases))
	defer func() {
		for _, r := range all {
			err = errors.Join(err, r.done())
		}
	}()
	for _, c := range cases {
		run, done, err := c.Setup(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, &running{run: run, done: done, res: Result{Name: c.Name}})
	}
	for _, r := range all {
		r.n = Calibrate(r.run, each)
	}
	runtime.LockOSThread() // its CPU time is measured
	defer runtime.UnlockOSThread()
	for range rounds {
		for _, r := range all {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			used, start := threadTime(), time.Now()
			r.run(r.n)
			took, cpu := time.Since(start), threadTime()-used
			runtime.ReadMemStats(&after)
			r.res.CPU = append(r.res.CPU, float64(cpu)/float64(r.n))
			r.times = append(r.times, float64(took)/float64(r.n))
			r.res.Allocs = float64(after.Mallocs-before.Mallocs) / float64(r.n)
			r.res.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(r.n)
		}
	}
	results = make([]Result, len(all))
	for i, r := range all {
		slices.Sort(r.times)
		r.res.Nanos, r.res.Median = r.times[0], r.times[len(r.times)/2]
		results[i] = r.res
	}
	return results, nil
}

// Calibrate returns how often the operation fits into the time.
func Calibrate(run func(int), each time.Duration) int {
	for n := 1000; ; n *= 4 {
		start := time.Now()
		run(n)
		if took := time.Since(start); took > each/4 {
			return max(1, int(float64(n)*float64(each)/float64(took)))
		}
	}
}
