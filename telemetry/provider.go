package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/delivery"
	"github.com/trainspan/trainspan/spans"
)

// scopeName is the instrumentation scope of the spans that the engine starts.
const scopeName = "github.com/trainspan/trainspan/telemetry"

// Provider is configured telemetry: it owns the recorder, the OpenTelemetry
// tracer provider and the exporters. A nil Provider does nothing, and so does
// one that is disabled for this rank. All methods are safe for concurrent use.
type Provider struct {
	rec        *Recorder
	sdk        *sdktrace.TracerProvider // nil when disabled
	processors []sdktrace.SpanProcessor
	filters    []*filterProcessor
	senders    []Sender                // native exporters that send over a network
	metrics    Sender                  // what sends the metrics, nil if that is not ours to end
	unused     []sdktrace.SpanExporter // of a rank that is off

	stopRotation func()     // of long spans
	scopes       *scopePlan // nil when disabled
	timeout      time.Duration
	life         lifetime
	down         lifetime
}

func newProgress() *spans.Progress { return new(spans.Progress) }

// useNothing makes the provider one that is off.
func (p *Provider) useNothing() {
	p.rec.tracers = noop.NewTracerProvider()
	p.rec.tracer = p.rec.tracers.Tracer(scopeName)
}

// useSDK makes the OpenTelemetry part of the provider.
func (p *Provider) useSDK(ctx context.Context, b *TrainingTelemetryBuilder, id Identity) {
	r := p.rec
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(r.resource(ctx, b.resource)),
	}
	if b.sampler != nil {
		options = append(options, sdktrace.WithSampler(b.sampler))
	} else {
		options = append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()))
	}
	ids := b.ids
	if ids == nil {
		var shared bool
		if ids, shared = id.ids(); !shared && len(b.spanExporters) > 0 && id.LocalRank.IsSet() && id.Rank.Get() == 0 {
			r.log.Warn("the launcher tells no id of this job, so that every rank has a trace of its own; " +
				"set TRAINSPAN_JOB to a text that all ranks share and no other run has")
		}
	}
	if len(b.spanExporters) > 0 {
		r.traces = newRunTraces(b.traces, id.WorldSize, ids)
	}
	if r.traces != nil {
		options = append(options, sdktrace.WithIDGenerator(partIDs{ids}))
	} else {
		options = append(options, sdktrace.WithIDGenerator(ids))
	}
	for _, sp := range b.processors {
		if w, ok := sp.(EventProcessor); ok {
			r.watchers = append(r.watchers, w)
		}
		if f, ok := sp.(interface{ BindProgress(*spans.Progress) }); ok {
			f.BindProgress(r.progress)
		}
		bindScopes(sp, r)
		options = append(options, sdktrace.WithSpanProcessor(sp))
	}
	for i, e := range b.spanExporters {
		f := newFilterProcessor(e, r, b.segment, ids)
		if i == 0 {
			f.counts, r.backend = true, f
		}
		p.filters = append(p.filters, f)
		options = append(options, sdktrace.WithSpanProcessor(hidingProcessor{f}))
	}
	p.sdk = sdktrace.NewTracerProvider(options...)
	p.planScopes(b)
	r.tracer = p.sdk.Tracer(scopeName, trace.WithInstrumentationVersion(Version))
	r.tracers = &tracerProvider{rec: r, sdk: p.sdk}
	r.exportsOTel = len(b.spanExporters) > 0
	p.stopRotation = startRotation(p.filters, r.clock)
	p.senders = sendersOf(r.sinks)
	r.sends = len(p.filters)+len(p.senders) > 0
	r.onStop = func() { // the network must not hold the caller up
		go func() { _ = p.finish(context.Background()) }() // told in the log, and given by Shutdown
	}
}

// Recorder gives the recorder, nil for a nil provider.
func (p *Provider) Recorder() *Recorder {
	if p == nil {
		return nil
	}
	return p.rec
}

// Enabled tells whether telemetry is recorded: the provider is configured, on
// for this rank, not shut down and not disabled.
func (p *Provider) Enabled() bool {
	if p == nil {
		return false
	}
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	return p.rec.ended == nil
}

// TracerProvider gives the OpenTelemetry tracer provider of this telemetry.
// Spans that are made with it reach every exporter, and nest under the spans
// of callbacks and scopes: under the span of their context, and without one
// under the span that a callback opened last. Use it with otel.SetTracerProvider
// or give it to instrumentation libraries.
func (p *Provider) TracerProvider() trace.TracerProvider {
	if p == nil {
		return noop.NewTracerProvider()
	}
	return p.rec.tracers
}

// Tracer is TracerProvider().Tracer(name, options...).
func (p *Provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return p.TracerProvider().Tracer(name, options...)
}

// Progress is where the training stands. Setting it sets what events report.
func (p *Provider) Progress() *spans.Progress {
	if p == nil {
		return nil
	}
	return p.rec.progress
}

// BaseConfig gives a copy of the base configuration in force.
func (p *Provider) BaseConfig() config.Base {
	if p == nil {
		return config.Base{}
	}
	return p.rec.base.Clone()
}

// TrainingConfig gives a copy of the training configuration, and whether there
// is one yet.
func (p *Provider) TrainingConfig() (config.Training, bool) {
	if p == nil {
		return config.Training{}, false
	}
	t := p.rec.training.Load()
	if t == nil {
		return config.Training{}, false
	}
	return t.Clone(), true
}

// SetTrainingConfig sets the training configuration of a job that learns it
// after its start. It can be set once.
func (p *Provider) SetTrainingConfig(t config.Training) error {
	if p == nil {
		return ErrNotConfigured
	}
	return silent(p.rec.SetTraining(t))
}

// ForceDisable switches telemetry off for the rest of the process's life. What
// was recorded is written and every exporter is closed.
func (p *Provider) ForceDisable() {
	if p != nil {
		p.rec.disable()
	}
}

// ForceFlush sends what the OpenTelemetry exporters and processors and every
// [Sender] hold back.
func (p *Provider) ForceFlush(ctx context.Context) error {
	if p == nil || p.sdk == nil {
		return nil
	}
	err := p.sdk.ForceFlush(ctx)
	for _, s := range p.senders {
		err = errors.Join(err, s.ForceFlush(ctx))
	}
	if p.metrics != nil {
		err = errors.Join(err, p.metrics.ForceFlush(ctx))
	}
	return err
}

// Stats gives counts since the provider was configured.
func (p *Provider) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	r := p.rec
	r.mu.Lock()
	s := r.stats
	for _, k := range r.sinks {
		s.ExporterFailures += int64(k.failures)
	}
	r.mu.Unlock()
	s.RepairedValues = r.counters.repairedValues.Load()
	for _, f := range p.filters {
		d := f.Processor.Stats()
		s.RepairedValues += d.Repaired
		s.EndedSpans += d.Ended
		s.ExportedSpans += d.Exported
		s.SpilledSpans += d.Spilled
		s.PendingSpans += d.Pending
		s.DroppedSpans += d.DroppedTotal()
		for cause, n := range d.Dropped {
			if n > 0 {
				count(&s.Drops, delivery.Cause(cause).String(), n)
			}
		}
	}
	for _, sender := range p.senders {
		d := sender.Delivery()
		s.LogRecords += d.Total
		s.ExportedLogRecords += d.Sent
		s.PendingLogRecords += d.Pending
		s.DroppedLogRecords += d.Dropped
		for cause, n := range d.Drops {
			count(&s.LogDrops, cause, n)
		}
	}
	if p.metrics != nil {
		d := p.metrics.Delivery()
		s.MetricExports, s.FailedMetricExports, s.LostMetricExports = d.Sent, d.Failed, d.Dropped
	}
	return s
}

// count adds drops of one cause.
func count(drops *map[string]int64, cause string, n int64) {
	if *drops == nil {
		*drops = make(map[string]int64)
	}
	(*drops)[cause] += n
}

// ExporterHealth is what the recorder knows of one native exporter.
type ExporterHealth struct {
	Exporter          Exporter
	Failures          int   // failed exports; five make the recorder give it up
	Delivered         bool  // something was exported
	GivenUp           bool  // it is not called any more
	DataErrorReported bool  // its one telemetry data error was sent
	LastError         error // of the latest failure
}

// Exporters gives the health of the native exporters in the order in which
// they were added.
func (p *Provider) Exporters() []ExporterHealth {
	if p == nil {
		return nil
	}
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	all := make([]ExporterHealth, len(p.rec.sinks))
	for i, s := range p.rec.sinks {
		all[i] = ExporterHealth{s.exporter, s.failures, s.delivered, s.disabled, s.reported, s.lastErr}
	}
	return all
}

// silent hides that telemetry is off: to the training loop that is no error.
func silent(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDisabled) || errors.Is(err, ErrNotConfigured) {
		return nil
	}
	return err
}

var defaultProvider atomic.Pointer[Provider]

// Default gives the provider of the process, nil before SetDefault.
func Default() *Provider { return defaultProvider.Load() }

// SetDefault makes p the provider of the process, which package callbacks
// uses, and returns a function that restores the one before.
func SetDefault(p *Provider) (undo func()) {
	before := defaultProvider.Swap(p)
	return func() { defaultProvider.CompareAndSwap(p, before) }
}
