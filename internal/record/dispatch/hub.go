// Package dispatch stands between the recorder and the outputs: it keeps what
// each output asked for, hands records on in order through a queue for each
// output, and ends the outputs in the right order within one deadline.
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
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/record/spancontext"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// maxRecordOutputs is how many outputs can take records: a mask says which of
// them want those of a span.
const maxRecordOutputs = 64

// Hub hands spans and records to the outputs. Attach is called before anything
// else; after that the set of outputs does not change, and all methods are safe
// for concurrent use. As a span processor it is what the SDK is given.
type Hub struct {
	log     *slog.Logger
	all     []*attached
	spans   []*attached // those that take spans
	records []*attached // those that take records

	sent sentOnly

	ending sync.Once
	err    error
}

var _ sdktrace.SpanProcessor = (*Hub)(nil)

// New makes a hub without outputs.
func New(log *slog.Logger) *Hub { return &Hub{log: log} }

// attached is an output with what it asked for.
type attached struct {
	out   outputs.Output
	wants outputs.Wants
	only  *outputs.Selection
	queue *queue // of records, nil if it takes none
	log   *slog.Logger

	panics atomic.Int64 // of its methods other than Export
	taken  sync.Map     // ids of open spans, where the name of a span decides
}

// Attach attaches an output with the filter that the program gave for it, nil
// for none; customization is that of the provider.
func (h *Hub) Attach(ctx context.Context, out outputs.Output, filter *config.Export, customization *outputs.Selection, t outputs.Telemetry) error {
	if filter != nil {
		f := *filter
		t.Filter = &f
	}
	a := &attached{out: out, log: h.log}
	if err := guard(func() (err error) { a.wants, err = out.Attach(ctx, &t); return err }); err != nil {
		return fmt.Errorf("telemetry: attach %T: %w", out, err)
	}
	switch {
	case filter != nil:
		a.only = outputs.NewSelection(*filter)
	case a.wants.All:
		a.only = outputs.NewSelection(config.Export{Mode: config.ExportAll})
	default:
		a.only = customization
	}
	t.Selection = a.only
	h.all = append(h.all, a)
	if a.wants.Spans {
		h.spans = append(h.spans, a)
	}
	if a.wants.Records {
		if len(h.records) == maxRecordOutputs {
			return fmt.Errorf("telemetry: attach %T: there are %d outputs for records already", out, maxRecordOutputs)
		}
		a.queue = newQueue(out, a.wants.Inline, h.log, h.PushDataError)
		h.records = append(h.records, a)
	}
	return nil
}

// Mask returns the outputs that want the records of a span that is started with
// ctx, one bit for each. index is spans.Index(name) where that is known, or -1.
func (h *Hub) Mask(ctx context.Context, index int, name string) (mask uint64) {
	sent := h.sent.is(ctx)
	for i, a := range h.records {
		if (a.wants.Network || !sent) && spancontext.Takes(ctx, a.only, index, name) {
			mask |= 1 << i
		}
	}
	return mask
}

// SendOnly says that spans may come whose context spancontext.SentOnly has marked.
func (h *Hub) SendOnly() { h.sent.some.Store(true) }

// sentOnly are the open spans for outputs on a network alone.
type sentOnly struct {
	some atomic.Bool // there are such
	ids  sync.Map
}

// is reports whether the span that is started with ctx is one.
func (o *sentOnly) is(ctx context.Context) bool {
	return ctx != nil && o.some.Load() && spancontext.IsSentOnly(ctx)
}

// has reports whether an open span is one; at its end it is forgotten.
func (o *sentOnly) has(s sdktrace.ReadOnlySpan, ends bool) (sent bool) {
	switch {
	case !o.some.Load():
	case ends:
		_, sent = o.ids.LoadAndDelete(s.SpanContext().SpanID())
	default:
		_, sent = o.ids.Load(s.SpanContext().SpanID())
	}
	return sent
}

// Attached is what an output asked for, and what it gets.
type Attached struct {
	outputs.Wants
	Selection *outputs.Selection
}

// Outputs returns the outputs in the order in which they were attached.
func (h *Hub) Outputs(yield func(outputs.Output, Attached) bool) {
	for _, a := range h.all {
		if !yield(a.out, Attached{a.wants, a.only}) {
			return
		}
	}
}

// Networked reports whether something is sent over a network.
func (h *Hub) Networked() bool {
	for _, a := range h.all {
		if a.wants.Network {
			return true
		}
	}
	return false
}

// Push queues a record for the outputs of the mask. It does not wait: the
// caller may hold a lock, and calls Drain when it has released it. Records go
// out in the order in which they were pushed.
func (h *Hub) Push(r outputs.Record, mask uint64) {
	for i, a := range h.records {
		if mask&(1<<i) != 0 {
			a.queue.push(item{record: r})
		}
	}
}

// PushDataError is Push for a gap in the data.
func (h *Hub) PushDataError(e DataError) {
	for _, a := range h.records {
		if (e.Local && a.wants.Network) || (e.From != nil && e.From == a.out) {
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

// OnStart implements sdktrace.SpanProcessor.
func (h *Hub) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	sent := h.sent.is(ctx)
	if sent {
		h.sent.ids.Store(s.SpanContext().SpanID(), nil)
	}
	for _, a := range h.spans {
		if (a.wants.Network || !sent) && a.takes(ctx, s) {
			a.onStart(ctx, s)
		}
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (h *Hub) OnEnd(s sdktrace.ReadOnlySpan) {
	sent := h.sent.has(s, true)
	for _, a := range h.spans {
		if (a.wants.Network || !sent) && a.took(s, true) {
			a.onEnd(s)
		}
	}
}

// OnEvent hands the event of an open span on.
func (h *Hub) OnEvent(s sdktrace.ReadOnlySpan, e sdktrace.Event) {
	sent := h.sent.has(s, false)
	for _, a := range h.spans {
		if (a.wants.Network || !sent) && a.took(s, false) {
			a.onEvent(s, e)
		}
	}
}

// EndScopes ends the scopes that outputs have open.
func (h *Hub) EndScopes() {
	for _, a := range h.all {
		if a.wants.Scopes != nil {
			func() {
				defer a.recovered()
				a.wants.Scopes.EndScopes()
			}()
		}
	}
}

// TakesSpans reports whether some output wants spans.
func (h *Hub) TakesSpans() bool { return len(h.spans) > 0 }

// everything reports that the output gets every span, or chooses itself.
func (a *attached) everything() bool { return a.wants.Selects || a.only.All() }

// takes reports whether the output gets a span that starts. The name of that
// moment decides: who saw a start sees the end, also of a span that was renamed.
func (a *attached) takes(ctx context.Context, s sdktrace.ReadOnlySpan) bool {
	if a.everything() {
		return true
	}
	if !spancontext.Takes(ctx, a.only, -1, s.Name()) {
		return false
	}
	a.taken.Store(s.SpanContext().SpanID(), nil)
	return true
}

// took reports whether the output got the start of a span.
func (a *attached) took(s sdktrace.ReadOnlySpan, ends bool) (ok bool) {
	if a.everything() {
		return true
	}
	id := s.SpanContext().SpanID()
	if ends {
		_, ok = a.taken.LoadAndDelete(id)
	} else {
		_, ok = a.taken.Load(id)
	}
	return ok
}

func (a *attached) onStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	defer a.recovered()
	a.out.OnStart(ctx, s)
}

func (a *attached) onEnd(s sdktrace.ReadOnlySpan) {
	defer a.recovered()
	a.out.OnEnd(s)
}

func (a *attached) onEvent(s sdktrace.ReadOnlySpan, e sdktrace.Event) {
	defer a.recovered()
	a.out.OnEvent(s, e)
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

// Panics counts those of the outputs' methods other than Export.
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
		if networked || !a.wants.Network {
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

// ScopeKinds asks the outputs that record scopes themselves, those of the route.
func (h *Hub) ScopeKinds(category, name string, route spancontext.Route) (kinds []direct.ScopeKind) {
	for _, a := range h.all {
		if a.wants.Scopes != nil && route[a.only] {
			if k := a.scopeKind(category, name); k != nil {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}

func (a *attached) scopeKind(category, name string) direct.ScopeKind {
	defer a.recovered()
	return a.wants.Scopes.ScopeKind(category, name)
}

// FileLogs returns what records calls on files.
func (h *Hub) FileLogs() (logs []direct.FileLog) {
	for _, a := range h.all {
		if a.wants.Files != nil {
			logs = append(logs, a.wants.Files)
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
