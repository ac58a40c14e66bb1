package gomlxspan_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
)

// twoLayers returns a model whose step takes about a millisecond.
func twoLayers(scope *model.Scope, x *graph.Node) *graph.Node {
	x = activation.Apply(activation.TypeTanh, layers.DenseWithBias(scope.In("first"), x, 64))
	return layers.DenseWithBias(scope.In("second"), x, 1)
}

// BenchmarkOverhead runs the same loop with and without telemetry, in pairs of
// 50 steps in changing order. It reports the median difference of a step, its
// share of a step of 1 ms, and the additional allocations. The target is 0.5 %.
func BenchmarkOverhead(b *testing.B) {
	tel, _ := newTelemetry(b)
	plain, watched := newLoop(b, model.NewStore(), twoLayers), newLoop(b, model.NewStore(), twoLayers)
	run := gomlxspan.Attach(tel, watched, nil)
	defer run.End(nil)
	const steps = 50
	forever := &batches{sizes: []int{128}, forever: true}
	type cost struct{ ns, allocs, bytes float64 }
	measure := func(loop *train.Loop, data train.Dataset) (c cost) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := loop.RunSteps(data, steps)
		took := time.Since(start)
		check(b, err)
		runtime.ReadMemStats(&after)
		return cost{float64(took) / steps, float64(after.Mallocs-before.Mallocs) / steps, float64(after.TotalAlloc-before.TotalAlloc) / steps}
	}
	data := run.Train(forever)
	measure(watched, data) // both have their graphs now
	measure(plain, forever)
	var more, bare, allocs, bytes []float64
	first := true
	for b.Loop() {
		var with, without cost
		if first {
			with, without = measure(watched, data), measure(plain, forever)
		} else {
			without, with = measure(plain, forever), measure(watched, data)
		}
		first = !first
		more, bare = append(more, with.ns-without.ns), append(bare, without.ns)
		allocs, bytes = append(allocs, with.allocs-without.allocs), append(bytes, with.bytes-without.bytes)
	}
	median := func(of []float64) float64 {
		slices.Sort(of)
		return of[len(of)/2]
	}
	b.ReportMetric(median(bare), "bare-ns/step")
	b.ReportMetric(median(more), "more-ns/step")
	b.ReportMetric(median(more)/1e6*100, "%-of-1ms")
	b.ReportMetric(median(allocs), "more-allocs/step")
	b.ReportMetric(median(bytes), "more-B/step")
	b.ReportMetric(0, "ns/op")
}
