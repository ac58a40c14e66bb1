package gomlxspan_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
)

// TestAllocations checks what a step allocates in addition to GoMLX, whose own
// allocations vary.
func TestAllocations(t *testing.T) {
	tel, _ := newTelemetry(t)
	plain, watched := newLoop(t, model.NewStore(), linear), newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, watched, nil)
	defer run.End(nil)
	const steps = 100
	forever := &batches{sizes: []int{4}, forever: true}
	measure := func(loop *train.Loop, data train.Dataset) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := loop.RunSteps(data, steps)
		check(t, err)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / steps
	}
	var more []float64
	for range 12 {
		more = append(more, measure(watched, run.Train(forever))-measure(plain, forever))
	}
	slices.Sort(more)
	if median := more[len(more)/2]; median > 18 {
		t.Errorf("%.1f allocations more in a step, want at most 18", median)
	}
}
