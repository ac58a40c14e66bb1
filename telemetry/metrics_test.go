package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// numbers collects every data point as "name" or "name{value of its
// attribute}".
func numbers(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if m.Unit == "" || m.Description == "" {
				t.Errorf("metric %s needs a unit and a description, has %q and %q", m.Name, m.Unit, m.Description)
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[m.Name+label(p.Attributes.ToSlice())] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					out[m.Name+label(p.Attributes.ToSlice())] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					out[m.Name+label(p.Attributes.ToSlice())] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					out[m.Name+label(p.Attributes.ToSlice())] = p.Sum
					out[m.Name+label(p.Attributes.ToSlice())+" count"] = float64(p.Count)
				}
			default:
				t.Errorf("metric %s is a %T, want a sum, gauge or histogram", m.Name, d)
			}
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	j := newJob(t, async, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithMeterProvider(meters) })
	startTraining(t, j)
	j.iteration(t, time.Second, callbacks.IterationEnd{Loss: callbacks.Some(2.5)})
	j.iteration(t, 3*time.Second, callbacks.IterationEnd{Loss: callbacks.Some(1.5)})
	j.iteration(t, time.Second, callbacks.IterationEnd{Err: errors.New("overflow")})
	started(t)(j.cb.OnSaveCheckpointStart(j.ctx, callbacks.SaveStart{GlobalStep: 2}))
	started(t)(j.cb.OnCheckpointFinalizationStart(j.ctx, callbacks.Finalization{GlobalStep: 2}))
	j.clock.pass(time.Second)
	check(t, j.cb.OnSaveCheckpointEnd(j.ctx))
	j.clock.pass(4 * time.Second)
	check(t, j.cb.OnSaveCheckpointSuccess(j.ctx, callbacks.SaveSuccess{GlobalStep: 2}))
	check(t, j.cb.OnCheckpointFinalizationEnd(j.ctx, callbacks.Finalization{GlobalStep: 2}))
	check(t, j.cb.OnSaveCheckpointFailure(j.ctx, callbacks.SaveFailure{GlobalStep: 3}))

	got := numbers(t, reader)
	for name, want := range map[string]float64{
		"training.iteration.duration": 4, "training.iteration.duration count": 2,
		"training.iterations": 2, "training.iterations.failed": 1,
		"training.samples": 16, "training.tokens": 16 * 2048, "training.flops": 16 * 1.25e12,
		"training.job.samples": 128, "training.job.tokens": 128 * 2048, "training.job.flops": 128 * 1.25e12,
		"training.gpu.throughput":                64 * 1.25e12 / 3 / 8,
		"training.gpu.throughput.average":        128 * 1.25e12 / 4 / 8,
		"training.loss":                          1.5,
		"training.checkpoint.duration{blocking}": 1, "training.checkpoint.duration{background}": 5,
		"training.checkpoint.saves{success}": 1, "training.checkpoint.saves{failure}": 1,
		"training.productive.time": 4, "training.loop.time": 10,
		"otel.sdk.span.live": 2, "trainspan.exporter.failures": 0, "training.loops.open": 1,
	} {
		if v, ok := got[name]; !ok || v < want*(1-1e-9) || v > want*(1+1e-9) {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	check(t, j.tel.Shutdown(j.ctx))
	if got := numbers(t, reader); got["otel.sdk.span.started"] != 0 {
		t.Error("metrics are still observed after the shutdown")
	}
}
