package file_test

import (
	"os"
	"testing"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// iteration returns the records of one training iteration with metrics.
func iteration() (begin, end, metrics *outputs.Record) {
	s := spanData(spans.TrainingIteration, 1)
	s.ParentID = s.SpanID
	begin, end = start(s), stop(s, 12_345_678)
	loop := spanData(spans.TrainingLoop, 2)
	metrics = event(loop, spans.EventTrainingMetricsUpdate, onelogger.TrainingMetricsUpdate{
		TrainIterationsStart: 1000, CurrentIteration: 123456, NumIterations: 122456, NumTrainSamples: attributes.Some[int64](122456 * 2048), Interval: 50,
		AvgIterationTimeSec: 1.2345678901, MinIterationTimeSec: 1.0123456789, MaxIterationTimeSec: 2.3456789012, TotalIterationTimeSec: 151180.123456,
		TrainTokens: attributes.Some[int64](1 << 40), CompletedFLOPsOverall: attributes.Some(attrvalue.Product(7e18, 122456)),
		TotalFLOPs: attrvalue.Product(7e18, 122456), ThroughputPerGPU: attributes.Some(410.82268656716417),
		FirstLoggedFinishSec: 1760000062.375, LastLoggedFinishSec: 1760151242.123456,
	}.Append(nil)...)
	return begin, end, metrics
}

func TestExportDoesNotAllocate(t *testing.T) {
	begin, end, metrics := iteration()
	for _, c := range []struct {
		name    string
		options file.Options
		records []*outputs.Record
		most    float64
	}{
		{"default", file.Options{FlushInterval: time.Hour}, []*outputs.Record{begin, end, metrics}, 0},
		{"each record at once", file.Options{FlushInterval: -1}, []*outputs.Record{begin, end, metrics}, 0},
		// Ids are UUIDs, once per line.
		{"compat", file.Options{Compat: true, FlushInterval: time.Hour}, []*outputs.Record{begin, end, metrics}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := started(t, temporary(t), &c.options)
			run := func() {
				for _, r := range c.records {
					if err := e.Write([]outputs.Record{*r}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 2000 { // then both buffers have their final size
				run()
			}
			if n := testing.AllocsPerRun(2000, run); n > c.most {
				t.Errorf("%v allocations for %d records, want at most %v", n, len(c.records), c.most)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	begin, end, metrics := iteration()
	for _, c := range []struct {
		name    string
		options *file.Options
		record  *outputs.Record
	}{
		{"start", nil, begin},
		{"stop", nil, end},
		{"metrics", nil, metrics},
		{"compat-start", &file.Options{Compat: true}, begin},
		{"compat-metrics", &file.Options{Compat: true}, metrics},
		{"unbuffered-stop", &file.Options{FlushInterval: -1}, end},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := started(b, os.DevNull, c.options)
			records := []outputs.Record{*c.record}
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Write(records); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
