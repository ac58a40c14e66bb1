// Package dispatch connects the recorder to the outputs: it keeps the traits and filter
// of each output, passes records on in order through a queue for each output, and shuts
// the outputs down in the right order within one deadline.
//
// Scopes of package ai and file calls are too frequent to be records: an output may
// record them itself, see [OfferScopes]. The packages that create them find their
// recorder with [SourceOf].
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Hub passes spans and records to the outputs. Attach must be called before any other
// method; after that the set of outputs does not change, and all methods are safe for
// concurrent use. The recorder calls Start, Event and Stop for its spans; for other spans
// of the SDK the Hub is a span processor.
type Hub struct {
	// Filter holds the filters of the outputs, in the order of attachment.
	Filter filter.Table

	log     *slog.Logger
	all     []*attached
	spans   []*attached // the outputs that take spans
	records []*attached // the outputs that take records

	takesSpans, takesRecords, takesScopes, remote filter.Set

	mu    sync.Mutex
	apart map[trace.SpanID]filter.Set // the outputs that get an open span that is not the recorder's, unless all do
	some  atomic.Int64                // len(apart), readable without the lock

	ending sync.Once
	err    error
}

var _ sdktrace.SpanProcessor = (*Hub)(nil)

// New returns a hub without outputs.
func New(log *slog.Logger) *Hub { return &Hub{log: log} }

// attached is an output with its traits and queue.
type attached struct {
	out    outputs.Output
	number int // index in the filter table
	traits outputs.Traits
	scopes Scopes  // nil if the output gets scopes as spans
	files  FileLog // nil if the output does not record file calls
	queue  *queue  // of records; nil if the output takes none
	log    *slog.Logger

	panics, failures atomic.Int64 // in calls outside the queue
}

// Offer is what a provider passes to each of its outputs.
type Offer struct {
	outputs.Telemetry
	// Export is the export customization.
	Export config.Export
	// Open returns the open span from which Telemetry.Current is derived, or nil.
	Open func() filter.Span
}

// Attach opens and attaches an output. own is the filter that the program gave for it,
// or nil. Without one the output gets everything if its traits ask for that, or else
// what the export customization selects.
func (h *Hub) Attach(ctx context.Context, out outputs.Output, own *config.Export, offer *Offer) error {
	a := &attached{out: out, number: h.Filter.Len(), log: h.log}
	if a.number == filter.MaxOutputs {
		return fmt.Errorf("telemetry: open %T: too many outputs (limit %d)", out, filter.MaxOutputs)
	}
	t := offer.Telemetry
	t.Current = func() trace.SpanContext {
		switch s := offer.Open(); {
		case s == nil:
			return trace.SpanContext{}
		case s.Outputs().Has(a.number):
			return s.SpanContext()
		default:
			return filter.Parent(s, a.number)
		}
	}
	if err := guard(func() (err error) { a.traits, err = out.Open(context.WithValue(ctx, attachedKey{}, a), &t); return err }); err != nil {
		return fmt.Errorf("telemetry: open %T: %w", out, err)
	}
	switch {
	case own != nil:
		h.Filter.Add(*own)
	case a.traits.All:
		h.Filter.Add(config.Export{Mode: config.ExportAll})
	default:
		h.Filter.Add(offer.Export)
	}
	h.all = append(h.all, a)
	if a.traits.Remote {
		h.remote |= filter.Only(a.number)
	}
	if a.scopes != nil {
		h.takesScopes |= filter.Only(a.number)
	}
	if a.traits.Snapshots {
		h.spans = append(h.spans, a)
		h.takesSpans |= filter.Only(a.number)
	}
	if a.traits.Ordered {
		a.queue = newQueue(out, a.traits.Inline, h.log, h.PushDataError)
		h.records = append(h.records, a)
		h.takesRecords |= filter.Only(a.number)
	}
	return nil
}

// Spans returns the outputs that take spans.
func (h *Hub) Spans() filter.Set { return h.takesSpans }

// Records returns the outputs that take records.
func (h *Hub) Records() filter.Set { return h.takesRecords }

// Scopes returns the outputs that record scopes themselves.
func (h *Hub) Scopes() filter.Set { return h.takesScopes }

// Network returns the outputs that send over a network.
func (h *Hub) Network() filter.Set { return h.remote }

// Outputs yields the outputs in the order of attachment.
func (h *Hub) Outputs(yield func(outputs.Output) bool) {
	for _, a := range h.all {
		if !yield(a.out) {
			return
		}
	}
}

// Push queues a record for the outputs in to that take records. It does not block: the
// caller may hold a lock, and calls Drain after releasing it. Records are exported in
// the order of the Push calls.
func (h *Hub) Push(r *outputs.Record, to filter.Set) {
	for _, a := range h.records {
		if to.Has(a.number) {
			a.queue.push(r, nil)
		}
	}
}

// PushDataError queues the report of a data error for all outputs that take records and
// should get it.
func (h *Hub) PushDataError(e DataError) {
	for _, a := range h.records {
		if (e.Local && a.traits.Remote) || (e.From != nil && e.From == a.out) {
			continue
		}
		a.queue.push(nil, &e)
	}
}

// Drain exports queued records, or wakes the goroutines that do. The caller must hold no
// lock.
func (h *Hub) Drain() {
	for _, a := range h.records {
		a.queue.drain()
	}
}

// receivers are the outputs that get a span of the SDK.
type receivers struct {
	of    filter.Span // nil if the span is not the recorder's
	to    filter.Set
	moved filter.Set // the outputs in to that get the span, a writable one, under another parent
}

// receivers returns the outputs that get a span of the recorder.
func (h *Hub) receivers(of filter.Span) receivers {
	return receivers{of, of.Outputs() & h.takesSpans, filter.Moved(of) & h.takesSpans}
}

// Start passes on the start of a span of the recorder, with the context of its start.
func (h *Hub) Start(ctx context.Context, of filter.Span, s sdktrace.ReadWriteSpan) {
	h.start(ctx, h.receivers(of), s)
}

// Event passes on an event of an open span of the recorder.
func (h *Hub) Event(of filter.Span, s sdktrace.ReadWriteSpan, e outputs.Event) {
	h.write(h.receivers(of), s, &[1]outputs.Record{{Kind: outputs.KindEvent, Event: e}})
}

// Stop passes on the end of a span of the recorder.
func (h *Hub) Stop(of filter.Span, s sdktrace.ReadWriteSpan) { h.stop(h.receivers(of), s) }

// OnStart implements sdktrace.SpanProcessor.
func (h *Hub) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	to := h.Filter.Span(-1, s.Name()) & h.takesSpans
	if to != h.takesSpans {
		h.mu.Lock()
		if h.apart == nil {
			h.apart = make(map[trace.SpanID]filter.Set)
		}
		h.apart[s.SpanContext().SpanID()] = to
		h.some.Store(int64(len(h.apart)))
		h.mu.Unlock()
	}
	h.start(ctx, receivers{to: to}, s)
}

// OnEnd implements sdktrace.SpanProcessor. An output that got the start of a span gets
// its end, even if the span was renamed.
func (h *Hub) OnEnd(s sdktrace.ReadOnlySpan) {
	to := h.takesSpans
	if h.some.Load() > 0 {
		id := s.SpanContext().SpanID()
		h.mu.Lock()
		if known, ok := h.apart[id]; ok {
			to = known
			delete(h.apart, id)
			h.some.Store(int64(len(h.apart)))
		}
		h.mu.Unlock()
	}
	h.stop(receivers{to: to}, s)
}

func (h *Hub) start(ctx context.Context, r receivers, s sdktrace.ReadWriteSpan) {
	batch := batches.Get().(*[1]outputs.Record)
	batch[0].Kind, batch[0].Context = outputs.KindStart, ctx
	h.write(r, s, batch)
	batch[0].Context = nil
	batches.Put(batch)
}

func (h *Hub) stop(r receivers, s sdktrace.ReadOnlySpan) {
	batch := batches.Get().(*[1]outputs.Record)
	batch[0].Kind = outputs.KindStop
	h.write(r, s, batch)
	batches.Put(batch)
}

// batches is the pool of records for starts and ends. Their fields are set one by one,
// because copying a whole record is slower.
var batches = sync.Pool{New: func() any { return new([1]outputs.Record) }}

// write writes a record to the outputs that get its span, with the parent that the span
// has there.
func (h *Hub) write(r receivers, s sdktrace.ReadOnlySpan, batch *[1]outputs.Record) {
	for _, a := range h.spans {
		if !r.to.Has(a.number) {
			continue
		}
		batch[0].Snapshot = s
		if r.moved.Has(a.number) {
			batch[0].Snapshot = movedSpan{s.(sdktrace.ReadWriteSpan), filter.Parent(r.of, a.number)}
		}
		a.write(batch[:])
	}
	batch[0].Snapshot = nil
}

// movedSpan is a span with another parent.
type movedSpan struct {
	sdktrace.ReadWriteSpan
	parent trace.SpanContext
}

// Parent implements sdktrace.ReadOnlySpan.
func (m movedSpan) Parent() trace.SpanContext { return m.parent }

// Held returns the number of open spans in memory.
func (h *Hub) Held() int { return int(h.some.Load()) }

// EndScopes ends the open scopes of all outputs.
func (h *Hub) EndScopes() {
	for _, a := range h.all {
		if a.scopes != nil {
			func() {
				defer a.recovered()
				a.scopes.EndScopes()
			}()
		}
	}
}

// write writes records to the output directly, not through the queue. It logs errors.
func (a *attached) write(records []outputs.Record) {
	defer a.recovered()
	if err := a.out.Write(records); err != nil {
		if n := a.failures.Add(1); sparse(n) {
			a.log.Error("telemetry output failed", "output", fmt.Sprintf("%T", a.out), "record", records[0].Kind.String(), "failures", n, "error", err, "see", helptopic.OutputFails)
		}
	}
}

// recovered recovers from a panic of an output, counts it and logs it.
func (a *attached) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if n := a.panics.Add(1); sparse(n) {
		a.log.Error("telemetry output panicked", "output", fmt.Sprintf("%T", a.out), "panic", p, "times", n, "see", helptopic.Panics)
	}
}

// Panics returns the number of panics of outputs outside their queues.
func (h *Hub) Panics() (n int64) {
	for _, a := range h.all {
		n += a.panics.Load()
	}
	return n
}

// ForceFlush implements sdktrace.SpanProcessor. It flushes all outputs concurrently.
func (h *Hub) ForceFlush(ctx context.Context) error { return flush(ctx, h.all, true) }

// Flush flushes the local outputs concurrently.
func (h *Hub) Flush(ctx context.Context) error { return flush(ctx, h.all, false) }

func flush(ctx context.Context, all []*attached, networked bool) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, a := range all {
		if networked || !a.traits.Remote {
			wg.Go(func() {
				errs[i] = runGuarded(ctx, fmt.Sprintf("output %T did not flush", a.out), func() error { return a.flush(ctx) })
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (a *attached) flush(ctx context.Context) error {
	if a.queue != nil {
		if err := a.queue.wait(ctx); err != nil {
			return err
		}
	}
	return a.out.ForceFlush(ctx)
}

// Shutdown implements sdktrace.SpanProcessor. It does nothing: the provider shuts the
// outputs down with [Hub.End].
func (h *Hub) Shutdown(context.Context) error { return nil }

// Stats yields the statistics of each output.
func (h *Hub) Stats(yield func(outputs.Stats) bool) {
	for _, a := range h.all {
		if !yield(a.stats()) {
			return
		}
	}
}

func (a *attached) stats() outputs.Stats {
	defer a.recovered()
	return a.out.Stats()
}

// Health returns the health of the outputs that take records.
func (h *Hub) Health() []Health {
	all := make([]Health, len(h.records))
	for i, a := range h.records {
		a.queue.mu.Lock()
		all[i] = a.queue.health
		a.queue.mu.Unlock()
	}
	return all
}

// ScopeKinds returns the scope kinds of those outputs in to that record scopes
// themselves.
func (h *Hub) ScopeKinds(category, name string, to filter.Set) (kinds []ScopeKind) {
	for _, a := range h.all {
		if a.scopes != nil && to.Has(a.number) {
			if k := a.scopeKind(category, name); k != nil {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

func (a *attached) scopeKind(category, name string) ScopeKind {
	defer a.recovered()
	return a.scopes.ScopeKind(category, name)
}

// FileLogs returns the file logs of all outputs that record file calls.
func (h *Hub) FileLogs() (logs []FileLog) {
	for _, a := range h.all {
		if a.files != nil {
			logs = append(logs, a.files)
		}
	}
	return logs
}

// runGuarded runs f with guard and waits for it until ctx ends: a hanging disk or
// network must not keep a job from ending.
func runGuarded(ctx context.Context, failure string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- guard(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		select {
		case err := <-done: // just in time
			return err
		default:
			return fmt.Errorf("telemetry: %s in time: %w", failure, ctx.Err())
		}
	}
}
