// Package dispatch stands between the recorder and the outputs: it keeps what
// each output asked for, hands records on in order through a queue for each
// output, and ends the outputs in the right order within one deadline.
//
// Scopes of package ai and calls on files are too many to be records: an output may
// record them itself, see [OfferScopes]. Those who make them find what records them with
// [SourceOf].
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

// Hub hands spans and records to the outputs. Attach is called before anything
// else; after that the set of outputs does not change, and all methods are safe
// for concurrent use. As a span processor it is what the SDK is given.
type Hub struct {
	// Filter has the filters of the outputs, by their order.
	Filter filter.Table

	log     *slog.Logger
	all     []*attached
	spans   []*attached // those that take spans
	records []*attached // those that take records

	takesSpans, takesRecords, takesScopes, remote filter.Set

	mu    sync.Mutex
	apart map[trace.SpanID]started // the open spans that not every output for spans gets as they are
	some  atomic.Int64             // how many these are, to be read without the lock

	ending sync.Once
	err    error
}

var _ sdktrace.SpanProcessor = (*Hub)(nil)

// New makes a hub without outputs.
func New(log *slog.Logger) *Hub { return &Hub{log: log} }

// attached is an output with what it asked for.
type attached struct {
	out    outputs.Output
	number int // in the filter
	traits outputs.Traits
	scopes Scopes  // nil: the output gets scopes as spans
	files  FileLog // nil: it records no calls on files
	queue  *queue  // of records, nil if it takes none
	log    *slog.Logger

	panics, failures atomic.Int64 // outside of the queue
}

// Offer is what a provider offers to each of its outputs.
type Offer struct {
	outputs.Telemetry
	// Export is the export customization.
	Export config.Export
	// Open returns the span that the Current of Telemetry is about, or nil.
	Open func() filter.Span
}

// Attach attaches an output with the filter that the program gave for it, or nil.
// Without one the output gets everything if it asks for that, or else what the
// customization selects.
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

// Outputs returns the outputs in the order in which they were attached.
func (h *Hub) Outputs(yield func(outputs.Output) bool) {
	for _, a := range h.all {
		if !yield(a.out) {
			return
		}
	}
}

// Push queues a record for those outputs of a set that take records. It does not wait:
// the caller may hold a lock, and calls Drain when it has released it. Records go out in
// the order in which they were pushed.
func (h *Hub) Push(r outputs.Record, to filter.Set) {
	for _, a := range h.records {
		if to.Has(a.number) {
			a.queue.push(item{record: [1]outputs.Record{r}})
		}
	}
}

// PushDataError is Push for a gap in the data.
func (h *Hub) PushDataError(e DataError) {
	for _, a := range h.records {
		if (e.Local && a.traits.Remote) || (e.From != nil && e.From == a.out) {
			continue
		}
		a.queue.push(item{gap: &e})
	}
}

// Drain brings queued records to the outputs. No lock may be held.
func (h *Hub) Drain() {
	for _, a := range h.records {
		a.queue.drain()
	}
}

// started is what the outputs got of the start of a span.
type started struct {
	span  filter.Span // nil: not one of the recorder
	to    filter.Set  // the outputs that got it
	moved filter.Set  // those of them that got it below another span than its parent
}

// OnStart implements sdktrace.SpanProcessor.
func (h *Hub) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	st := started{span: filter.Started(ctx)}
	if st.span == nil { // it was started after the end of the recording
		st.to = h.Filter.Span(-1, s.Name()) & h.takesSpans
	} else {
		st.to = st.span.Outputs() & h.takesSpans
		st.moved = filter.Moved(st.span) & h.takesSpans
	}
	if st.to != h.takesSpans || st.moved != 0 {
		h.mu.Lock()
		if h.apart == nil {
			h.apart = make(map[trace.SpanID]started)
		}
		h.apart[s.SpanContext().SpanID()] = st
		h.some.Store(int64(len(h.apart)))
		h.mu.Unlock()
	}
	batch := batches.Get().(*[1]outputs.Record)
	batch[0].Kind, batch[0].Context = outputs.KindStart, ctx
	h.write(&st, s, batch)
	batch[0].Context = nil
	batches.Put(batch)
}

// OnEnd implements sdktrace.SpanProcessor. Who saw a start sees the end, also of a span
// that was renamed.
func (h *Hub) OnEnd(s sdktrace.ReadOnlySpan) {
	st := h.known(s, true)
	batch := batches.Get().(*[1]outputs.Record)
	batch[0].Kind = outputs.KindStop
	h.write(&st, s, batch)
	batches.Put(batch)
}

// OnEvent hands the event of an open span on.
func (h *Hub) OnEvent(s sdktrace.ReadOnlySpan, e outputs.Event) {
	st := h.known(s, false)
	h.write(&st, s, &[1]outputs.Record{{Kind: outputs.KindEvent, Event: e}})
}

// known returns what the outputs got of the start of a span. At its end the span is
// forgotten.
func (h *Hub) known(s sdktrace.ReadOnlySpan, ends bool) started {
	st := started{to: h.takesSpans}
	if h.some.Load() > 0 {
		id := s.SpanContext().SpanID()
		h.mu.Lock()
		if known, ok := h.apart[id]; ok {
			if st = known; ends {
				delete(h.apart, id)
				h.some.Store(int64(len(h.apart)))
			}
		}
		h.mu.Unlock()
	}
	return st
}

// batches are the memory of records of starts and ends while outputs have them. Their
// fields are set one by one: to copy a whole record costs more than to make one.
var batches = sync.Pool{New: func() any { return new([1]outputs.Record) }}

// write writes a record to the outputs that got the start of its span, with the span as
// it is there.
func (h *Hub) write(st *started, s sdktrace.ReadOnlySpan, batch *[1]outputs.Record) {
	for _, a := range h.spans {
		if !st.to.Has(a.number) {
			continue
		}
		batch[0].Snapshot = s
		if st.moved.Has(a.number) {
			batch[0].Snapshot = moved(s, filter.Parent(st.span, a.number))
		}
		a.write(batch[:])
	}
	batch[0].Snapshot = nil
}

// moved returns a span below another parent. One that can be written to still can.
func moved(s sdktrace.ReadOnlySpan, parent trace.SpanContext) sdktrace.ReadOnlySpan {
	if open, ok := s.(sdktrace.ReadWriteSpan); ok {
		return movedStart{open, parent}
	}
	return movedEnd{s, parent}
}

// movedStart and movedEnd are a span below another parent.
type (
	movedStart struct {
		sdktrace.ReadWriteSpan
		parent trace.SpanContext
	}
	movedEnd struct {
		sdktrace.ReadOnlySpan
		parent trace.SpanContext
	}
)

// Parent implements sdktrace.ReadOnlySpan.
func (m movedStart) Parent() trace.SpanContext { return m.parent }

// Parent implements sdktrace.ReadOnlySpan.
func (m movedEnd) Parent() trace.SpanContext { return m.parent }

// Held counts what is remembered of open spans.
func (h *Hub) Held() int { return int(h.some.Load()) }

// EndScopes ends the scopes that outputs have open.
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

// write writes records outside of the queue.
func (a *attached) write(records []outputs.Record) {
	defer a.recovered()
	if err := a.out.Write(records); err != nil {
		if n := a.failures.Add(1); sparse(n) {
			a.log.Error("telemetry output failed", "output", fmt.Sprintf("%T", a.out), "record", records[0].Kind.String(), "failures", n, "error", err, "see", helptopic.OutputFails)
		}
	}
}

// recovered keeps a panic of an output from the program and counts it.
func (a *attached) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if n := a.panics.Add(1); sparse(n) {
		a.log.Error("telemetry output panicked", "output", fmt.Sprintf("%T", a.out), "panic", p, "times", n, "see", helptopic.Panics)
	}
}

// Panics counts those of the outputs' methods outside of the queues.
func (h *Hub) Panics() (n int64) {
	for _, a := range h.all {
		n += a.panics.Load()
	}
	return n
}

// ForceFlush implements sdktrace.SpanProcessor: it flushes every output, side by side.
func (h *Hub) ForceFlush(ctx context.Context) error { return flush(ctx, h.all, true) }

// Flush brings what local outputs hold back to their files.
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

// Shutdown implements sdktrace.SpanProcessor. The provider ends the outputs
// itself, see [Hub.End].
func (h *Hub) Shutdown(context.Context) error { return nil }

// Stats are the counts of the outputs.
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

// Health returns the health of the outputs for records.
func (h *Hub) Health() []Health {
	all := make([]Health, len(h.records))
	for i, a := range h.records {
		a.queue.mu.Lock()
		all[i] = a.queue.health
		a.queue.mu.Unlock()
	}
	return all
}

// ScopeKinds asks those outputs of a set that record scopes themselves.
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

// FileLogs returns what records calls on files.
func (h *Hub) FileLogs() (logs []FileLog) {
	for _, a := range h.all {
		if a.files != nil {
			logs = append(logs, a.files)
		}
	}
	return logs
}

// runGuarded runs f, guarded, and waits for it until the end of the context: a disk
// or a network that hangs must not keep a job from ending.
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
