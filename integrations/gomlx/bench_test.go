package gomlxspan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gomlx/gomlx/ml/model"

	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
)

// BenchmarkOverhead runs the same loop with and without telemetry in turns, and
// reports the median difference of a step, and what part of a step of 1 ms that
// is. The target is 0.5 %.
func BenchmarkOverhead(b *testing.B) {
	tel, _ := newTelemetry(b)
	plain, watched := newLoop(b, model.NewStore(), linear), newLoop(b, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, watched, nil)
	defer run.End(nil)
	const steps = 500
	forever := &batches{sizes: []int{4}, forever: true}
	with := func() time.Duration {
		start := time.Now()
		_, err := watched.RunSteps(run.Train(forever), steps)
		check(b, err)
		return time.Since(start)
	}
	without := func() time.Duration {
		start := time.Now()
		_, err := plain.RunSteps(forever, steps)
		check(b, err)
		return time.Since(start)
	}
	with()
	without() // both have their graphs
	var more, bare []float64
	for b.Loop() {
		w, o := with(), without()
		more, bare = append(more, float64(w-o)/steps), append(bare, float64(o)/steps)
	}
	slices.Sort(more)
	slices.Sort(bare)
	median := more[len(more)/2]
	b.ReportMetric(median, "more-ns/step")
	b.ReportMetric(bare[len(bare)/2], "bare-ns/step")
	b.ReportMetric(median/1e6*100, "%-of-1ms")
}
