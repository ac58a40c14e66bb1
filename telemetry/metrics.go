package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are the instruments of the OpenTelemetry metrics that the recorder
// feeds. docs/signals.md lists them. A nil meters records nothing.
type meters struct {
	iteration  metric.Float64Histogram
	iterations metric.Int64Counter
	failed     metric.Int64Counter
	samples    metric.Int64Counter
	tokens     metric.Int64Counter
	flops      metric.Float64Counter
	throughput metric.Float64Gauge
	average    metric.Float64Gauge
	loss       metric.Float64Gauge
	save       metric.Float64Histogram
	saves      metric.Int64Counter

	blocking, background, stored, lost metric.MeasurementOption
	registration                       metric.Registration
}

// Buckets of the histograms, in seconds: from a millisecond to ten minutes.
var secondBuckets = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600,
}

// newMeters makes the instruments. What cannot be made is told; the SDK gives
// instruments that do nothing in its place.
func newMeters(provider metric.MeterProvider, p *Provider) (*meters, error) {
	m := provider.Meter(scopeName, metric.WithInstrumentationVersion(Version))
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	seconds := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
			metric.WithExplicitBucketBoundaries(secondBuckets...))
		keep(err)
		return h
	}
	count := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		keep(err)
		return c
	}
	gauge := func(name, unit, text string) metric.Float64Gauge {
		g, err := m.Float64Gauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		keep(err)
		return g
	}
	flops, err := m.Float64Counter("training.flops", metric.WithUnit("{FLOP}"),
		metric.WithDescription("Floating-point operations of completed iterations, all ranks"))
	keep(err)
	outcome := func(ok string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", ok)))
	}
	phase := func(name string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("phase", name)))
	}
	out := &meters{
		iteration:  seconds("training.iteration.duration", "Length of completed training iterations"),
		iterations: count("training.iterations", "{iteration}", "Completed training iterations of this process"),
		failed:     count("training.iterations.failed", "{iteration}", "Training iterations that failed"),
		samples:    count("training.samples", "{sample}", "Samples of completed iterations, all ranks"),
		tokens:     count("training.tokens", "{token}", "Tokens of completed iterations, all ranks"),
		flops:      flops,
		throughput: gauge("training.gpu.throughput", "{FLOP}/s", "Operations per second and GPU of the last iteration"),
		average:    gauge("training.gpu.throughput.average", "{FLOP}/s", "Operations per second and GPU over the training loop"),
		loss:       gauge("training.loss", "1", "Latest loss given"),
		save:       seconds("training.checkpoint.duration", "Time of checkpoint saves, by phase"),
		saves:      count("training.checkpoint.saves", "{save}", "Checkpoint saves, by outcome"),
		blocking:   phase("blocking"), background: phase("background"),
		stored: outcome("success"), lost: outcome("failure"),
	}
	out.observe(m, p, keep)
	return out, first
}

// observe registers what is read when metrics are collected: times, open
// spans, and telemetry's own health.
func (m *meters) observe(meter metric.Meter, p *Provider, keep func(error)) {
	time := func(name, text string) metric.Float64ObservableCounter {
		c, err := meter.Float64ObservableCounter(name, metric.WithUnit("s"), metric.WithDescription(text))
		keep(err)
		return c
	}
	count := func(name, unit, text string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		keep(err)
		return c
	}
	productive := time("training.productive.time", "Time of completed training iterations")
	total := time("training.time", "Time since the start of the first training loop")
	open, err := meter.Int64ObservableUpDownCounter("telemetry.spans.open", metric.WithUnit("{span}"),
		metric.WithDescription("Telemetry spans that are open"))
	keep(err)
	started := count("telemetry.spans.started", "{span}", "Telemetry spans started")
	records := count("telemetry.records", "{record}", "Native records handed to exporters")
	failures := count("telemetry.exporter.failures", "{failure}", "Failed exports of native exporters")
	problems := count("telemetry.errors", "{error}", "Calls that telemetry refused, and gaps in its data")
	repaired := count("telemetry.repaired", "{value}", "Attribute values and times that were mended")
	exported := count("telemetry.otlp.spans.exported", "{span}", "Spans that an OpenTelemetry backend took")
	dropped := count("telemetry.otlp.spans.dropped", "{span}", "Spans lost on the way to a backend, by cause")
	exportedLogs := count("telemetry.otlp.logs.exported", "{record}", "Log records that an OpenTelemetry backend took")
	droppedLogs := count("telemetry.otlp.logs.dropped", "{record}", "Log records lost on the way to a backend, by cause")
	failed := count("telemetry.otlp.metrics.failed", "{export}", "Exports of metrics that a backend did not take")

	files := newFileMeters(p, count, time)

	m.registration, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := p.rec
		r.mu.Lock()
		done, begun := r.state.productive, r.state.begun
		now := r.now()
		r.mu.Unlock()
		o.ObserveFloat64(productive, seconds(done))
		if begun != 0 {
			o.ObserveFloat64(total, seconds(max(0, now-begun)))
		}
		s := p.Stats()
		o.ObserveInt64(open, s.SpansOpen)
		o.ObserveInt64(started, s.SpansStarted)
		o.ObserveInt64(records, s.Records)
		o.ObserveInt64(failures, s.ExporterFailures)
		o.ObserveInt64(problems, s.Errors+s.DataErrors)
		o.ObserveInt64(repaired, s.RepairedValues+s.RepairedTimes)
		o.ObserveInt64(exported, s.ExportedSpans)
		for cause, n := range s.Drops {
			o.ObserveInt64(dropped, n, metric.WithAttributes(attribute.String("cause", cause)))
		}
		if len(p.senders) > 0 {
			o.ObserveInt64(exportedLogs, s.ExportedLogRecords)
		}
		for cause, n := range s.LogDrops {
			o.ObserveInt64(droppedLogs, n, metric.WithAttributes(attribute.String("cause", cause)))
		}
		if p.metrics != nil {
			o.ObserveInt64(failed, s.FailedMetricExports)
		}
		files.observe(o)
		return nil
	}, append(files.instruments(), productive, total, open, started, records, failures, problems, repaired, exported, dropped,
		exportedLogs, droppedLogs, failed)...)
	keep(err)
}

// reading is what one call has to say in metrics, kept until the lock is
// released.
type reading struct {
	iteration  *iterationReading
	failed     bool
	blocking   int64 // nanoseconds of a save that training waited for
	background int64 // nanoseconds of a save in the background
	stored     bool  // a save succeeded
	lost       bool  // a save failed
}

type iterationReading struct {
	duration        int64 // nanoseconds
	samples, tokens int64
	flops           float64
	throughput      float64 // 10^12 operations per second and GPU
	average         float64
	loss            float64
	hasLoss         bool
}

// record feeds the instruments.
func (m *meters) record(r *reading) {
	if m == nil {
		return
	}
	ctx := context.Background()
	if it := r.iteration; it != nil {
		m.iteration.Record(ctx, seconds(it.duration))
		m.iterations.Add(ctx, 1)
		m.samples.Add(ctx, it.samples)
		if it.tokens > 0 {
			m.tokens.Add(ctx, it.tokens)
		}
		if it.flops > 0 {
			m.flops.Add(ctx, it.flops)
			m.throughput.Record(ctx, it.throughput*tera)
			m.average.Record(ctx, it.average*tera)
		}
		if it.hasLoss {
			m.loss.Record(ctx, it.loss)
		}
	}
	if r.failed {
		m.failed.Add(ctx, 1)
	}
	if r.blocking > 0 {
		m.save.Record(ctx, time.Duration(r.blocking).Seconds(), m.blocking)
	}
	if r.background > 0 {
		m.save.Record(ctx, time.Duration(r.background).Seconds(), m.background)
	}
	if r.stored {
		m.saves.Add(ctx, 1, m.stored)
	}
	if r.lost {
		m.saves.Add(ctx, 1, m.lost)
	}
}

// close takes the callback back, so that a meter provider that outlives the
// telemetry does not keep it alive.
func (m *meters) close() error {
	if m == nil || m.registration == nil {
		return nil
	}
	if err := m.registration.Unregister(); err != nil {
		return fmt.Errorf("telemetry: metrics: %w", err)
	}
	return nil
}
