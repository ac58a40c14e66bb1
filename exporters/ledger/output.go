// Package ledger keeps the goodput ledger of a rank while it trains: how much of
// the time so far trained the model, and what took the rest.
//
//	books := ledger.New(ledger.Options{Dir: runDir})
//	tel, err := telemetry.NewTrainingTelemetryBuilder()….WithExporter(books).ConfigureProvider(ctx)
//	…
//	fmt.Println(books.Snapshot().Ratio())
//
// The rules are those of analysis/goodput, which makes the same ledger from the
// files of a job.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/spancontext"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Output is an output of a provider that keeps the ledger. It sees every span
// and scope, whatever the export customization says. It is to be attached once.
// All methods are safe for concurrent use.
type Output struct {
	outputs.None
	opts Options
	at   atomic.Pointer[books]

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
func (o *Output) Snapshot() *goodput.Snapshot {
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
		return outputs.Wants{}, errors.New("ledger: the output was attached before: make one for each provider with ledger.New")
	}
	lo := goodput.LiveOptions{Rank: t.Identity.Rank.Get(), Start: t.Now(), Dir: o.opts.Dir, Every: o.opts.Interval}
	lo.History = 2 * time.Hour
	for _, w := range o.opts.Windows {
		lo.History = max(lo.History, w)
	}
	if lo.Dir != "" && t.Identity.WorldSize > 1 && !t.Identity.RankKnown {
		t.Logger.Warn("the goodput ledger is not kept for the next attempt: nothing gives the rank of this process; set RANK or WithRanks", "dir", lo.Dir, "see", see.RankUnknown)
		lo.Dir = ""
	}
	if t.Identity.Attempt.IsSet() {
		lo.Attempt = t.Identity.Attempt.Get() + 1
	}
	live, err := goodput.NewLive(lo)
	if err != nil {
		t.Logger.Warn("the goodput ledger knows nothing of earlier attempts, and is not kept for the next one", "error", err, "see", see.LedgerState)
	}
	b := &books{live: live, telemetry: t, open: make(map[uint64]goodput.Handle),
		inner: make(map[goodput.Handle]*ambient), ambient: make(map[goodput.Handle]*ambient)}
	if o.opts.Meter == nil {
		o.opts.Meter = t.Metrics
	}
	if o.opts.Meter != nil {
		if o.metrics, err = observe(o.opts, b); err != nil {
			t.Logger.Warn("the goodput ledger has no metrics", "error", err, "see", see.Metrics)
		}
	}
	o.at.Store(b)
	go o.keep(b)
	return outputs.Wants{Spans: true, Scopes: b, Selects: true, All: true}, nil
}

// keep writes the state from time to time.
func (o *Output) keep(b *books) {
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
				b.telemetry.Logger.Warn("the goodput ledger could not be written", "dir", o.opts.Dir, "error", err, "see", see.LedgerState)
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
	start := goodput.LiveSpan{Name: s.Name(), Time: s.StartTime().UnixNano(), Step: -1, First: -1}
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
	start.Parent = b.inside(start.Parent, start.Time)
	h := b.live.Start(&start)
	if b.open[keyOf(s.SpanContext().SpanID())] = h; b.scoped.Load() && spancontext.IsAmbient(ctx) {
		b.enter(h, start.Parent, start.Time)
	}
}

// describe takes from the attributes what the ledger asks for, and returns the
// name in the trace file where they say one.
func describe(s *goodput.LiveSpan, attrs []attribute.KeyValue) (event string) {
	for i := range attrs {
		kv := &attrs[i]
		switch kv.Key {
		case grammar.CurrentIteration:
			s.Step = number(kv.Value)
		case attributes.Step:
			if s.Name == spans.TrainingIteration && s.Step < 0 {
				s.Step = number(kv.Value)
			}
		case grammar.TrainIterationsStart:
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
	if n, ok := dft.Whole(a); ok {
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
		case grammar.ProductiveTrainIterations:
			b.live.Saved(e.Time.UnixNano(), kv.Value.AsInt64()-1)
			return
		case grammar.CurrentIteration:
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
