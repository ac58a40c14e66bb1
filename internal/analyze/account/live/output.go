// Package live keeps the goodput ledger of a rank while it trains: how much of
// the time so far trained the model, and what took the rest.
//
//	books := live.New(live.Options{Dir: runDir})
//	tel, err := telemetry.NewTrainingTelemetryBuilder()….WithExporter(books).ConfigureProvider(ctx)
//	…
//	fmt.Println(books.Snapshot().Ratio())
//
// The rules are those of internal/analyze/account, which makes the same ledger from the
// files of a job.
package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/record/spancontext"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Output is an output of a provider that keeps the ledger. It sees every span
// and scope, whatever the export customization says. It is to be attached once.
// All methods are safe for concurrent use.
type Output struct {
	outputs.None
	opts Options
	at   atomic.Pointer[liveLedger]

	attached atomic.Bool

	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	metrics metric.Registration
	err     error // of the last state
}

// New makes an output.
func New(o Options) *Output {
	if o.Interval <= 0 {
		o.Interval = 10 * time.Second
	}
	if o.Windows == nil {
		o.Windows = []time.Duration{5 * time.Minute, time.Hour}
	}
	return &Output{opts: o, stop: make(chan struct{}), done: make(chan struct{})}
}

// Snapshot is the ledger of this moment; nil for an output that is not attached.
func (o *Output) Snapshot() *account.Snapshot {
	b := o.at.Load()
	if b == nil {
		return nil
	}
	return b.live.Snapshot(b.telemetry.Now())
}

// Attach implements outputs.Output. A state of earlier attempts that cannot be
// read is logged: the ledger begins anew.
func (o *Output) Attach(_ context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	if o.attached.Swap(true) {
		return outputs.Wants{}, errors.New("ledger: the output was attached before: make one for each provider with New")
	}
	lo := account.LiveOptions{Rank: t.Identity.Rank.Get(), Start: t.Now(), Dir: o.opts.Dir, Every: o.opts.Interval}
	lo.History = 2 * time.Hour
	for _, w := range o.opts.Windows {
		lo.History = max(lo.History, w)
	}
	if lo.Dir != "" && t.Identity.WorldSize > 1 && !t.Identity.RankKnown {
		t.Logger.Warn("the goodput ledger is not kept for the next attempt: nothing gives the rank of this process; set RANK or WithRanks", "dir", lo.Dir, "see", helptopic.RankUnknown)
		lo.Dir = ""
	}
	if t.Identity.Attempt.IsSet() {
		lo.Attempt = t.Identity.Attempt.Get() + 1
	}
	live, err := account.NewLive(lo)
	if err != nil {
		t.Logger.Warn("the goodput ledger knows nothing of earlier attempts, and is not kept for the next one", "error", err, "see", helptopic.LedgerState)
	}
	b := &liveLedger{live: live, telemetry: t, open: make(map[uint64]account.Handle),
		inner: make(map[account.Handle]*ambient), ambient: make(map[account.Handle]*ambient)}
	if o.opts.Meter == nil {
		o.opts.Meter = t.Metrics
	}
	if o.opts.Meter != nil {
		if o.metrics, err = observe(o.opts, b); err != nil {
			t.Logger.Warn("the goodput ledger has no metrics", "error", err, "see", helptopic.Metrics)
		}
	}
	o.at.Store(b)
	go o.keep(b)
	return outputs.Wants{Spans: true, Scopes: b, Selects: true, All: true}, nil
}

// keep writes the state from time to time.
func (o *Output) keep(b *liveLedger) {
	defer close(o.done)
	tick := time.NewTicker(o.opts.Interval)
	defer tick.Stop()
	for {
		select {
		case <-o.stop:
			return
		case <-tick.C:
			err := b.live.Alive(b.telemetry.Now())
			if err != nil && o.err == nil {
				b.telemetry.Logger.Warn("the goodput ledger could not be written", "dir", o.opts.Dir, "error", err, "see", helptopic.LedgerState)
			}
			o.err = err
		}
	}
}

// OnStart implements outputs.Output.
func (o *Output) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	b := o.at.Load()
	if b == nil {
		return
	}
	start := account.LiveSpan{Name: s.Name(), Time: s.StartTime().UnixNano(), Step: -1, First: -1}
	start.Background = start.Name == spans.CheckpointSaveFinalization
	// Others need no attributes, and asking for them copies them.
	if index := spans.Index(start.Name); index < 0 {
		event := describe(&start, s.Attributes())
		start.Cat, start.Name = vocab.TraceName(s.InstrumentationScope().Name, start.Name, start.Cat, event)
	} else if class := vocab.Standard(index).Class; class == vocab.ClassStep || class == vocab.ClassFrame {
		describe(&start, s.Attributes())
	}
	parent := s.Parent().SpanID()
	b.mu.Lock()
	defer b.mu.Unlock()
	start.Parent = b.open[keyOf(parent)]
	if in, _ := ctx.Value(b).(*scope); in != nil && in.outer == parent {
		start.Parent = in.handle // the scope lies between the two
	}
	start.Parent = b.innermostAmbient(start.Parent, start.Time)
	h := b.live.Start(&start)
	if b.open[keyOf(s.SpanContext().SpanID())] = h; b.scoped.Load() && spancontext.IsAmbient(ctx) {
		b.enter(h, start.Parent, start.Time)
	}
}

// describe takes from the attributes what the ledger asks for, and returns the
// name in the trace file where they say one.
func describe(s *account.LiveSpan, attrs []attribute.KeyValue) (event string) {
	for i := range attrs {
		kv := &attrs[i]
		switch kv.Key {
		case onelogger.CurrentIteration:
			s.Step = number(kv.Value)
		case attributes.Step:
			if s.Name == spans.TrainingIteration && s.Step < 0 {
				s.Step = number(kv.Value)
			}
		case onelogger.TrainIterationsStart:
			s.First = number(kv.Value)
		case spans.AttrCategory:
			s.Cat = kv.Value.AsString()
		case spans.AttrName:
			event = kv.Value.AsString()
		case "background":
			s.Background = kv.Value.AsBool() || kv.Value.AsInt64() != 0
		}
	}
	return event
}

// number is the number of a step as readers of the trace take it, -1 for none.
func number(v attribute.Value) int64 {
	a := dftracer.Int("", -1)
	switch v.Type() {
	case attribute.INT64:
		a = dftracer.Int("", v.AsInt64())
	case attribute.FLOAT64:
		a = dftracer.Float("", v.AsFloat64())
	case attribute.STRING:
		a = dftracer.String("", v.AsString())
	}
	if n, ok := tracefile.Whole(a); ok {
		return max(n, -1)
	}
	return -1
}

// OnEnd implements outputs.Output.
func (o *Output) OnEnd(s sdktrace.ReadOnlySpan) {
	b := o.at.Load()
	if b == nil {
		return
	}
	id := keyOf(s.SpanContext().SpanID())
	b.mu.Lock()
	h, ok := b.open[id]
	delete(b.open, id)
	b.mu.Unlock()
	if ok {
		b.end(h, s.EndTime().UnixNano(), false)
	}
}

// OnEvent implements outputs.Output: a saved checkpoint commits iterations.
func (o *Output) OnEvent(_ sdktrace.ReadOnlySpan, e sdktrace.Event) {
	b := o.at.Load()
	if b == nil || e.Name != spans.EventSaveCheckpointSuccess {
		return
	}
	through := int64(-1)
	for _, kv := range e.Attributes {
		switch kv.Key {
		case onelogger.ProductiveTrainIterations:
			b.live.Saved(e.Time.UnixNano(), kv.Value.AsInt64()-1)
			return
		case onelogger.CurrentIteration:
			through = kv.Value.AsInt64() - 1
		}
	}
	b.live.Saved(e.Time.UnixNano(), through)
}

// Shutdown implements outputs.Output: it writes the state as that of an attempt
// that has ended, and does not wait for a disk longer than ctx.
func (o *Output) Shutdown(ctx context.Context) (err error) {
	o.stopped.Do(func() {
		b := o.at.Load()
		if b == nil {
			return
		}
		if o.metrics != nil { // what sends them was shut down before
			_ = o.metrics.Unregister()
		}
		close(o.stop)
		end := b.telemetry.Now()
		closed := make(chan error, 1)
		go func() {
			<-o.done
			closed <- b.live.Close(end)
		}()
		select {
		case err = <-closed:
		case <-ctx.Done():
			err = fmt.Errorf("ledger: the state was not written in time to %s: %w", o.opts.Dir, ctx.Err())
		}
	})
	return err
}

// Options say what becomes of the ledger. The zero Options keep it in memory.
type Options struct {
	// Dir is the directory of the run, the same for all its attempts. The state
	// is kept there, so that an attempt takes back the work that it does again,
	// and counts the time between. Empty means that an attempt knows nothing of
	// those before it.
	Dir string

	// Interval is how often the state is written; zero means 10 s. What a killed
	// attempt did after it was written last is not known to the next one.
	Interval time.Duration

	// Meter gets the metrics; nil means that of the provider, if it has one.
	Meter metric.MeterProvider

	// Windows are the lengths of time for which training.goodput.window.ratio
	// is reported in whole seconds; nil means five minutes and
	// one hour.
	Windows []time.Duration
}

// observe makes the metrics. They are asked when metrics are collected, and cost
// nothing in between.
func observe(o Options, b *liveLedger) (metric.Registration, error) {
	m := o.Meter.Meter("github.com/trainspan/trainspan/exporters/ledger", metric.WithInstrumentationVersion(identity.Version))
	in := metrics.Maker{Meter: m}
	ratio, window := in.Float64Observable(metrics.GoodputRatio), in.Float64Observable(metrics.GoodputWindowRatio)
	spent, committed := in.Float64Observable(metrics.Time), in.Float64Observable(metrics.TimeCommitted)
	if in.Err != nil {
		return nil, in.Err
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := b.live.Snapshot(b.telemetry.Now())
		if r := s.Ratio(); !math.IsNaN(r) {
			to.ObserveFloat64(ratio, r)
		}
		for category, ns := range s.Categories {
			to.ObserveFloat64(spent, float64(ns)/1e9, metric.WithAttributes(attribute.String("category", string(category))))
		}
		to.ObserveFloat64(committed, float64(s.Committed)/1e9)
		for _, length := range o.Windows {
			_, totals := b.live.Window(s.Time, length)
			if sum := totals.Sum(); sum > 0 {
				to.ObserveFloat64(window, float64(totals[account.Productive])/float64(sum),
					metric.WithAttributes(attribute.Int64("window_s", int64(length.Seconds()))))
			}
		}
		return nil
	}, ratio, window, spent, committed)
}

// scopeKind counts scopes of a category and name.
type scopeKind struct {
	b         *liveLedger
	cat, name string
}

// ScopeKind implements direct.Scopes.
func (b *liveLedger) ScopeKind(category, name string) direct.ScopeKind {
	b.scoped.Store(true)
	return &scopeKind{b, category, name}
}

// EndScopes implements direct.Scopes. The end of the ledger ends what is open.
func (b *liveLedger) EndScopes() {}

// Start implements direct.ScopeKind.
func (k *scopeKind) Start(ctx context.Context, _ *direct.LiveArgs, o direct.ScopeStart) direct.Scope {
	s := &scope{b: k.b}
	s.handle = k.start(ctx, s, k.Now(), o.Ambient)
	s.ctx = context.WithValue(ctx, k.b, s)
	return s
}

// start begins a scope below what its context or, without one, the callbacks
// have open.
func (k *scopeKind) start(ctx context.Context, s *scope, at int64, ambient bool) account.Handle {
	b := k.b
	start := account.LiveSpan{Name: k.name, Cat: k.cat, Time: at, Step: -1, First: -1}
	s.outer = trace.SpanContextFromContext(ctx).SpanID()
	if !s.outer.IsValid() && b.telemetry.Current != nil {
		s.outer = b.telemetry.Current().SpanID()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	start.Parent = b.open[keyOf(s.outer)]
	if in, _ := ctx.Value(b).(*scope); in != nil && in.outer == s.outer {
		start.Parent = in.handle
	}
	start.Parent = b.innermostAmbient(start.Parent, at)
	h := b.live.Start(&start)
	if ambient {
		b.enter(h, start.Parent, at)
	}
	return h
}

// Record implements direct.ScopeKind.
func (k *scopeKind) Record(ctx context.Context, _ *direct.LiveArgs, _, start int64) {
	var s scope
	k.b.live.End(k.start(ctx, &s, start, false), k.Now())
}

// Now implements direct.ScopeKind.
func (k *scopeKind) Now() int64 { return k.b.telemetry.Now() }

// Note implements direct.ScopeKind.
func (*scopeKind) Note(context.Context, string) {}

func (s *scope) Context() context.Context { return s.ctx }
func (s *scope) Set([]attribute.KeyValue) {}
func (s *scope) Fail(error)               {}
func (s *scope) End()                     { s.b.end(s.handle, s.b.telemetry.Now(), false) }
func (s *scope) Abandon()                 { s.b.end(s.handle, s.b.telemetry.Now(), true) }
