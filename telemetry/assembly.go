package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/active"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/internal/dispatch"
	"github.com/trainspan/trainspan/telemetry/internal/segment"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"github.com/trainspan/trainspan/telemetry/recorder"
)

// provider makes a provider of a configuration that was checked.
func (b *TrainingTelemetryBuilder) provider(ctx context.Context, base config.Base) (*Provider, error) {
	var ranks config.Ranks
	if b.ranks != nil {
		ranks = *b.ranks
	}
	ranks, err := ranks.Complete(os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	base = base.WithDefaults(ranks)
	id := b.identity.WithDefaults(&base, ranks)
	p := &Provider{base: base, progress: new(outputs.Progress), timeout: b.timeout, log: b.log(&base), clock: b.clock}
	if p.clock == nil {
		p.clock = newSystemClock()
	} else {
		p.clock = calmClock{p.clock, newSystemClock()}
	}
	if p.timeout <= 0 {
		p.timeout = DefaultShutdownTimeout
	}
	above := b.parent(p.log)
	p.hub = dispatch.New(p.log)
	p.rec, p.control = recorder.New(recorder.Options{
		Base: base, Identity: id, Strategy: base.ErrorStrategy, Now: p.nanoseconds(), Log: p.log,
		Progress: p.progress, Hub: p.hub, Above: above, Off: !base.Enabled(),
	})
	if !base.Enabled() {
		for _, a := range b.outputs {
			p.unused = append(p.unused, a.output(nil, nil, 0, false))
		}
		if m, ok := b.metrics.(Output); ok {
			p.unused = append(p.unused, m)
		}
		return p, nil
	}
	if len(b.outputs) == 0 {
		p.log.Warn("telemetry has no outputs: nothing will be recorded; add one with WithExporter, WithSpanProcessor or WithSpanExporter", "see", see.NothingRecorded)
	}
	if err := p.attach(ctx, b, id, above.IsValid()); err != nil {
		return nil, err
	}
	if b.metrics != nil {
		p.meter(b.metrics, id)
	}
	return p, nil
}

// parent is the span that the run belongs to, invalid for none.
func (b *TrainingTelemetryBuilder) parent(log *slog.Logger) trace.SpanContext {
	if b.above != nil {
		return *b.above
	}
	sc, err := ParentFrom(os.LookupEnv)
	if err != nil {
		log.Warn(err.Error(), "see", see.Variable)
	}
	return sc
}

// rank is the order in which outputs are attached.
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
func (a *attachment) output(run *segment.Run, ids sdktrace.IDGenerator, every time.Duration, first bool) Output {
	switch {
	case a.exporter != nil:
		return segment.NewExporter(a.exporter, run, ids, every, first)
	case a.processor != nil:
		return dispatch.FromProcessor(a.processor)
	}
	return a.out
}

// attach attaches the outputs and makes the OpenTelemetry part. On an error
// what was attached is closed again. joined says that the ranks meet in the trace
// of somebody else.
func (p *Provider) attach(ctx context.Context, b *TrainingTelemetryBuilder, id Identity, joined bool) error {
	var customization config.Export
	if b.export != nil {
		customization = *b.export
	}
	selected := outputs.NewSelection(customization)
	ids := b.ids
	if ids == nil {
		var shared bool
		if ids, shared = idsOf(id); !shared && !joined && b.spanExporters > 0 && id.LocalRank.IsSet() && id.Rank.Get() == 0 {
			p.log.Warn("the launcher tells no id of this job, so that every rank has a trace of its own; "+
				"set TRAINSPAN_JOB to a text that all ranks share and no other run has", "see", see.TracePerRank)
		}
	}
	run := b.run(p, id, ids, selected)
	offer := outputs.Telemetry{
		Identity: id, Clock: p.clock, Logger: p.log, Progress: p.progress,
		Now: p.nanoseconds(), Current: func() trace.SpanContext { return p.rec.Current().SpanContext() },
		Lost: p.lost, Metrics: b.metrics,
	}
	all := make([]attachment, len(b.outputs), len(b.outputs)+1)
	copy(all, b.outputs)
	if m, ok := b.metrics.(Output); ok {
		all = append(all, attachment{out: m})
	}
	made := make([]Output, len(all))
	// What may fail comes first: what is attached after it belongs to the
	// program, and is not to be shut down for nothing.
	slices.SortStableFunc(all, func(a, b attachment) int { return a.rank() - b.rank() })
	for i := range all {
		made[i] = all[i].output(run, ids, b.segment, offer.Segment == nil)
		if e, ok := made[i].(*segment.Exporter); ok && offer.Segment == nil {
			offer.Segment = e.Segment
		}
	}
	filters := make([]*config.Export, len(all))
	for i, out := range made {
		if err := p.hub.Attach(ctx, out, all[i].filter, selected, offer); err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
			defer cancel()
			_ = p.hub.End(ctx, func() outputs.Losses { return nil }) // they have nothing to lose yet
			return err
		}
		filters[i] = all[i].filter
	}
	p.useSDK(ctx, b, id, run.IDs(ids))
	active.Enter()
	p.planScopes(customization, filters, run)
	wiring := recorder.Wiring{
		Tracers: p.sdk, Version: Version, Steps: b.spanExporters > 0 && selected.Has(-1, spans.TrainingIteration),
		Closing: p.closing, Ending: p.endScopes,
		Stopped: func() { // the network must not hold the caller up
			go func() { _ = p.finish(context.Background()) }() // logged, and the result of Shutdown
		},
	}
	if run != nil {
		wiring.Placer = run
	}
	p.control.Wire(wiring)
	return nil
}

// run spreads the spans over traces where a span exporter is to get them.
func (b *TrainingTelemetryBuilder) run(p *Provider, id Identity, ids sdktrace.IDGenerator, selected *outputs.Selection) *segment.Run {
	if b.spanExporters == 0 {
		return nil
	}
	o := segment.Options{Traces: b.traces, WorldSize: id.WorldSize, IDs: ids, Progress: p.progress, Exported: selected}
	for i := range b.outputs { // the budget is that of the first exporter
		if a := &b.outputs[i]; a.exporter != nil {
			if a.filter != nil {
				o.Exported = outputs.NewSelection(*a.filter)
			}
			break
		}
	}
	if g, ok := ids.(*idGenerator); ok {
		o.Job, o.PartID = g.job, g.partID
	}
	return segment.NewRun(o)
}

// useSDK makes the OpenTelemetry part of the provider.
func (p *Provider) useSDK(ctx context.Context, b *TrainingTelemetryBuilder, id Identity, ids sdktrace.IDGenerator) {
	var tags []string
	if t := p.control.Training(); t != nil {
		tags, _ = t.Tags()
	}
	res, err := NewResource(ctx, id, tags, b.resource)
	if err != nil {
		p.log.Warn("telemetry could not describe the process in full", "error", err, "see", see.Undescribed)
	}
	sampler := b.sampler
	if sampler == nil {
		sampler = sdktrace.AlwaysSample()
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(ids)}
	if p.hub.TakesSpans() {
		options = append(options, sdktrace.WithSpanProcessor(p.hub))
	}
	p.sdk = sdktrace.NewTracerProvider(options...)
}

// meter makes the metrics.
func (p *Provider) meter(provider metric.MeterProvider, id Identity) {
	m := provider.Meter(recorder.ScopeName, metric.WithInstrumentationVersion(Version))
	instruments, err := recorder.NewInstruments(m, id.Rank.Get())
	p.control.SetInstruments(instruments)
	var observed error
	p.health, observed = p.observe(m)
	if err = errors.Join(err, observed); err != nil {
		p.log.Warn("telemetry could not make all of its metrics", "error", err, "see", see.Metrics)
	}
}
