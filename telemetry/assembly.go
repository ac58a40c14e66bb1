package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/internal/record/active"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/record/meters"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// ConfigureProvider returns the provider. On an error everything is stopped
// again, and the builder can be corrected and reused. The context bounds the
// start of the exporters.
func (b *TrainingTelemetryBuilder) ConfigureProvider(ctx context.Context) (_ *Provider, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: a configuration function panicked: %v", p)
		}
	}()
	if b.spent {
		return nil, errors.New("telemetry: ConfigureProvider was already called: create a new builder for another provider")
	}
	if err := b.Err(); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	base, err := b.config()
	if err != nil {
		return nil, fmt.Errorf("telemetry: invalid configuration: %w", err)
	}
	p, err := assemble(orBackground(ctx), b, base)
	if err != nil {
		return nil, err
	}
	b.spent = true
	return p, nil
}

// config returns the whole, validated configuration.
func (b *TrainingTelemetryBuilder) config() (base config.Base, err error) {
	if b.base == nil && len(b.overrides) == 0 {
		return base, errors.New("no configuration was provided: call WithBaseConfig or WithConfigOverride")
	}
	if b.base != nil {
		base = config.Clone(b.base)
		if len(b.overrides) > 0 {
			settled := base.WithDefaults(config.Ranks{})
			base.Logger.Level, base.ErrorStrategy = settled.Logger.Level, settled.ErrorStrategy
		}
	}
	for _, change := range b.overrides {
		change(&base)
	}
	if b.training != nil {
		t := config.Clone(b.training)
		base.Training = &t
	}
	var exportErr error
	if b.export != nil {
		exportErr = validateExport(b.export)
	}
	return base, errors.Join(base.Validate(), exportErr)
}

func (b *TrainingTelemetryBuilder) log(base *config.Base) *slog.Logger {
	if b.logger != nil {
		return safelog.New(b.logger)
	}
	return safelog.New(slog.New(safelog.AtLeast(slog.Default().Handler(), settings.Level(&base.Logger))))
}

// assembly is a provider under construction.
type assembly struct {
	*TrainingTelemetryBuilder
	p      *Provider
	id     Identity
	tags   []string // of performance
	clock  clock
	ids    sdktrace.IDGenerator
	run    *segment.Run // nil without a span exporter
	export config.Export
}

// assemble makes a provider from a validated configuration.
func assemble(ctx context.Context, b *TrainingTelemetryBuilder, base config.Base) (*Provider, error) {
	var ranks config.Ranks
	if b.ranks != nil {
		ranks = *b.ranks
	}
	ranks, err := settings.Ranks(ranks, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	base = base.WithDefaults(ranks)
	a := &assembly{TrainingTelemetryBuilder: b, id: settings.Identity(b.identity, &base, ranks), clock: clockOf(b.clock)}
	if t := base.Training; t != nil {
		a.tags, _ = settings.Tags(t) // before the outputs are open: it may call the program
	}
	if b.export != nil {
		a.export = *b.export
	}
	log := b.log(&base)
	hub := dispatch.New(log)
	p := &Provider{hub: hub, progress: new(outputs.Progress), timeout: b.timeout}
	a.p = p
	if p.timeout <= 0 {
		p.timeout = delivery.DefaultShutdownTimeout
	}
	p.rec = a.recorder(log, base)
	p.losses = &losses{rec: p.rec, hub: hub}
	if !base.EnableForCurrentRank.Or(true) {
		for _, o := range b.outputs {
			p.unused = append(p.unused, o.output(nil, 0, false))
		}
		if m, ok := b.metrics.(Output); ok {
			p.unused = append(p.unused, m)
		}
		return p, nil
	}
	if len(b.outputs) == 0 {
		log.Warn("telemetry has no outputs: nothing will be recorded; add one with WithExporter, WithSpanProcessor or WithSpanExporter", "see", helptopic.NothingRecorded)
	}
	if err := a.attach(ctx); err != nil {
		return nil, err
	}
	if b.metrics != nil {
		a.meter()
	}
	return p, nil
}

// recorder makes the recorder, which records nothing before the outputs are
// attached.
func (a *assembly) recorder(log *slog.Logger, base config.Base) *Recorder {
	r := &Recorder{
		base: base, id: a.id,
		strategy: base.ErrorStrategy,
		time:     times{now: a.clock.nano, of: a.clock.of, wall: a.clock.wall, window: max(base.ExplicitTimeWindow, 0)},
	}
	r.progress, r.out.hub, r.out.log = a.p.progress, a.p.hub, log
	r.time.made = r.time.now()
	r.training.Store(base.Training)
	r.otel.time = a.clock.time
	r.otel.tracers = noop.NewTracerProvider()
	r.otel.tracer = r.otel.tracers.Tracer(scopeName)
	r.otel.above = a.parent(log)
	if !base.EnableForCurrentRank.Or(true) {
		r.ended = errDisabled
		r.off.Store(true)
	}
	return r
}

// parent returns the span that the run belongs to, invalid if there is none.
func (a *assembly) parent(log *slog.Logger) trace.SpanContext {
	if a.above != nil {
		return *a.above
	}
	sc, err := settings.Parent(os.LookupEnv)
	if err != nil {
		log.Warn(err.Error(), "see", helptopic.Variable)
	}
	return sc
}

// rank returns the position of an attachment in the order of attaching.
func (a *attachment) rank() int {
	switch {
	case a.exporter != nil:
		return 2
	case a.processor != nil:
		return 1
	}
	return 0
}

// output makes the output of an attachment.
func (a *attachment) output(run *segment.Run, every time.Duration, first bool) Output {
	switch {
	case a.exporter != nil:
		return segment.NewExporter(a.exporter, run, new(idGenerator).spanID, every, first)
	case a.processor != nil:
		return dispatch.FromProcessor(a.processor)
	}
	return a.out
}

// attach attaches the outputs and makes the OpenTelemetry part. On an error
// everything attached is closed again.
func (a *assembly) attach(ctx context.Context) error {
	p, r := a.p, a.p.rec
	if a.ids = a.TrainingTelemetryBuilder.ids; a.ids == nil {
		var shared bool
		if a.ids, shared = idsOf(a.id); !shared && !r.otel.above.IsValid() && a.spanExporters > 0 && a.id.LocalRank.IsSet() && a.id.Rank.Get() == 0 {
			r.out.log.Warn("the launcher sets no job id, so each rank has its own trace; "+
				"set TRAINSPAN_JOB to a value that all ranks share and no other run uses", "see", helptopic.TracePerRank)
		}
	}
	a.run = a.traceRun()
	p.scopes = &scopePlan{rec: r, hub: p.hub, at: p.progress, now: r.time.now}
	if err := a.attachOutputs(ctx); err != nil {
		return err
	}
	a.sdk(ctx)
	active.Enter()
	r.otel.tracer = p.sdk.Tracer(scopeName, trace.WithInstrumentationVersion(identity.Version))
	r.otel.tracers = &tracerProvider{rec: r, inner: p.sdk, apart: p.apart, scopes: p.scopes}
	r.otel.run, r.otel.hub = a.run, p.hub
	if a.sampler == nil {
		r.otel.ids = a.run.IDs(a.ids)
	}
	var selected filter.Table
	if selected.Add(a.export); a.spanExporters > 0 && selected.Span(-1, spans.TrainingIteration) != 0 {
		r.otel.steps = p.progress
	}
	r.hooks = hooks{
		closing: p.closing, ending: p.endScopes,
		stopped: func() { // the network must not block the caller
			go func() { _ = p.finish(context.Background()) }() // an error is logged, and is the result of Shutdown
		},
	}
	return nil
}

// ordered returns the outputs in the order of attaching.
func (a *assembly) ordered() []attachment {
	all := slices.Clone(a.outputs)
	if m, ok := a.metrics.(Output); ok {
		all = append(all, attachment{out: m})
	}
	slices.SortStableFunc(all, func(a, b attachment) int { return a.rank() - b.rank() })
	return all
}

// attachOutputs attaches the outputs. Those that may fail come first, so that
// the program's own outputs, which come after them, need not be shut down
// again.
func (a *assembly) attachOutputs(ctx context.Context) error {
	p, r := a.p, a.p.rec
	offer := dispatch.Offer{
		Telemetry: outputs.Telemetry{
			Identity: a.id, Clock: a.clock.now, Logger: r.out.log, Progress: p.progress, Now: r.time.now,
			Lost: p.losses.countLoss, Metrics: a.metrics,
		},
		Export: a.export,
		Open: func() filter.Span {
			if s := r.Current(); s != nil {
				return (*contextSpan)(s)
			}
			return nil
		},
	}
	every := offer.Telemetry
	every.Current = func() trace.SpanContext { return r.Current().SpanContext() }
	r.otel.offer = &every
	all := a.ordered()
	made := make([]Output, len(all))
	for i := range all {
		made[i] = all[i].output(a.run, a.segment, offer.Segment == nil)
		if e, ok := made[i].(*segment.Exporter); ok && offer.Segment == nil {
			offer.Segment = e.Segment
		}
	}
	for i, out := range made {
		if err := p.hub.Attach(ctx, out, all[i].filter, &offer); err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
			_ = p.hub.End(ctx, func() map[string]int64 { return nil }) // they have nothing to lose yet
			cancel()
			return err
		}
	}
	return nil
}

// traceRun spreads the spans over traces if there is a span exporter.
func (a *assembly) traceRun() *segment.Run {
	if a.spanExporters == 0 {
		return nil
	}
	o := segment.Options{Traces: a.traces, WorldSize: a.id.WorldSize.Or(0), IDs: a.ids, Random: &idGenerator{}, Progress: a.p.progress}
	o.Counted = slices.IndexFunc(a.ordered(), func(out attachment) bool { return out.exporter != nil })
	if g, ok := a.ids.(*idGenerator); ok {
		o.Job, o.PartID = g.job, g.partID
	}
	return segment.NewRun(o)
}

// sdk makes the OpenTelemetry part of the provider: the SDK for the spans of the
// recorder and the one for spans that the recorder does not have. Only that has span
// processors, for which the SDK makes a copy of each ended span: the recorder itself
// passes its spans on.
func (a *assembly) sdk(ctx context.Context) {
	res, err := settings.Resource(ctx, a.id, a.tags, a.resource)
	if err != nil {
		a.p.rec.out.log.Warn("telemetry could not detect all resource attributes", "error", err, "see", helptopic.Undescribed)
	}
	sampler := a.sampler
	if sampler == nil {
		sampler = sdktrace.AlwaysSample()
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(a.run.IDs(a.ids)), sdktrace.WithRawSpanLimits(spanLimits()),
	}
	a.p.sdk = sdktrace.NewTracerProvider(options...)
	if a.run != nil { // before the outputs, which use it
		options = append(options, sdktrace.WithSpanProcessor(a.run))
	}
	a.p.apart = sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(a.p.hub))...)
}

// spanLimits returns the SDK's limits of a span, from the environment, with one for attributes
// that keeps those of the recorder.
func spanLimits() sdktrace.SpanLimits {
	l := sdktrace.NewSpanLimits()
	if l.AttributeCountLimit == sdktrace.DefaultAttributeCountLimit {
		l.AttributeCountLimit = maxAttributes + 8 // telemetry adds a few, such as the step
	}
	return l
}

// meter makes the metrics.
func (a *assembly) meter() {
	p := a.p
	m := a.metrics.Meter(scopeName, metric.WithInstrumentationVersion(identity.Version))
	instruments, err := meters.New(m, a.id.Rank.Get())
	p.rec.out.meters = instruments
	health, observed := observe(m, p.rec, p.hub)
	p.closers = append(p.closers, health.close)
	if err = errors.Join(err, observed); err != nil {
		p.rec.out.log.Warn("telemetry could not create all of its metrics", "error", err, "see", helptopic.Metrics)
	}
}
