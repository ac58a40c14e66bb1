package telemetry

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/delivery"
	"github.com/trainspan/trainspan/spans"
)

// filterProcessor stands between the spans and the batches of one
// OpenTelemetry exporter. It leaves out the spans that the export
// customization leaves out, and hangs what lies below them under the nearest
// ancestor that is exported, so that no span of the backend's trace points at
// a parent that never comes.
type filterProcessor struct {
	*delivery.Processor
	only *selection
	rec  *Recorder

	mu sync.Mutex
	// hidden maps an open span that is left out to its nearest exported
	// ancestor; moved has the place of an open exported span in the export,
	// where that is not below its own parent.
	hidden map[trace.SpanID]ancestor
	moved  map[trace.SpanID]place
	long   map[trace.SpanID]*longSpan
	cut    []*segment // finished and not yet sent

	segment time.Duration // how long a long span is delivered in one piece
	ids     sdktrace.IDGenerator
	counts  bool // segments count as spans of their trace here
}

// ancestor is the nearest exported ancestor of a span.
type ancestor struct {
	trace.SpanContext           // of its segment at that time, if it is a long one
	long              *longSpan // nil if it is no long one
}

// place is where a span stands in the export: below a parent, the zero one for
// a root, and perhaps with a link to the ancestor that is in another trace.
type place struct {
	parent, link trace.SpanContext
}

func newFilterProcessor(e sdktrace.SpanExporter, r *Recorder, segment time.Duration, ids sdktrace.IDGenerator) *filterProcessor {
	return &filterProcessor{
		Processor: delivery.New(e, &delivery.Options{
			Clean: cleanSpan, OnLoss: r.spansLost, LookupEnv: os.LookupEnv,
		}),
		only:    r.only,
		rec:     r,
		hidden:  make(map[trace.SpanID]ancestor),
		moved:   make(map[trace.SpanID]place),
		long:    make(map[trace.SpanID]*longSpan),
		segment: segment,
		ids:     ids,
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (f *filterProcessor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	name := s.Name()
	index := spans.Index(name)
	id := s.SpanContext().SpanID()
	f.mu.Lock()
	defer f.unlock()
	above := f.ancestorOf(ctx, s)
	if !f.only.has(index, name) {
		f.hidden[id] = above
		return
	}
	f.add(ctx, s, isLong(index), above)
}

// add puts an exported span below its nearest exported ancestor. The lock is
// held.
func (f *filterProcessor) add(ctx context.Context, s sdktrace.ReadWriteSpan, long bool, above ancestor) {
	own := s.SpanContext()
	at := f.placeOf(ctx, s, above)
	if at.link.IsValid() || at.parent.SpanID() != s.Parent().SpanID() {
		f.moved[own.SpanID()] = at
	}
	if long && own.IsSampled() && (f.segment > 0 || f.rec.traces != nil) {
		l := &longSpan{
			span: s, current: own, part: f.rec.traces.find(own.TraceID()),
			above: above.long, direct: above.long != nil, place: at, from: s.StartTime(),
		}
		if !l.direct {
			l.above = f.longAbove(ctx)
		}
		f.long[own.SpanID()] = l
	}
}

// ancestorOf finds the nearest exported ancestor of a span that starts. The
// lock is held.
func (f *filterProcessor) ancestorOf(ctx context.Context, s sdktrace.ReadWriteSpan) ancestor {
	parent := s.Parent()
	if above, ok := f.hidden[parent.SpanID()]; ok {
		if above.long != nil {
			if in, ok := f.segmentIn(above.long, s); ok {
				above.SpanContext = in
			}
		}
		return above
	}
	if l := f.long[parent.SpanID()]; l != nil {
		in, ok := f.segmentIn(l, s)
		if !ok {
			in = l.current
		}
		return ancestor{in, l}
	}
	if _, known := parentIn(ctx); known.SpanID() == parent.SpanID() {
		parent = known
	}
	return ancestor{parent, nil}
}

// placeOf is the place of a span below its nearest exported ancestor or, if
// that is in another trace, below the nearest long span. The lock is held.
func (f *filterProcessor) placeOf(ctx context.Context, s sdktrace.ReadWriteSpan, above ancestor) place {
	if !above.HasSpanID() || above.TraceID() == s.SpanContext().TraceID() {
		return place{parent: above.SpanContext}
	}
	if l := f.longAbove(ctx); l != nil {
		if in, ok := f.segmentIn(l, s); ok {
			return place{in, above.SpanContext}
		}
	}
	return place{link: above.SpanContext}
}

// longAbove is the nearest long span that is open above the span that starts
// with ctx, or nil. The lock is held.
func (f *filterProcessor) longAbove(ctx context.Context) *longSpan {
	parent, _ := parentIn(ctx)
	for ; parent != nil; parent = parent.parent {
		if l := f.long[parent.SpanContext().SpanID()]; l != nil {
			return l
		}
	}
	return nil
}

// OnEnd implements sdktrace.SpanProcessor.
func (f *filterProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	if s := f.end(s); s != nil {
		f.Processor.OnEnd(s)
	}
}

// end is an ended span as it is exported, nil if it is not.
func (f *filterProcessor) end(s sdktrace.ReadOnlySpan) sdktrace.ReadOnlySpan {
	id := s.SpanContext().SpanID()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, left := f.hidden[id]; left {
		delete(f.hidden, id)
		return nil
	}
	if l := f.long[id]; l != nil {
		delete(f.long, id)
		l.ended = true
		if l.index > 0 {
			delete(f.moved, id)
			l.span = s
			return l.cut(s.EndTime(), true)
		}
	}
	if at, moved := f.moved[id]; moved {
		delete(f.moved, id)
		return movedSpan{s, at}
	}
	return s
}

// movedSpan is a span under another parent.
type movedSpan struct {
	sdktrace.ReadOnlySpan
	at place
}

// Parent implements sdktrace.ReadOnlySpan.
func (m movedSpan) Parent() trace.SpanContext { return m.at.parent }

// Links implements sdktrace.ReadOnlySpan.
func (m movedSpan) Links() []sdktrace.Link { return m.at.links(m.ReadOnlySpan.Links()) }

// links adds the link to the parent in another trace to those of the span.
func (p place) links(of []sdktrace.Link) []sdktrace.Link {
	if !p.link.IsValid() {
		return of
	}
	return append(slices.Clip(of), linkTo(p.link, linkParent))
}

// cleanedSpan is a span with mended texts.
type cleanedSpan struct {
	sdktrace.ReadOnlySpan
	name   string
	attrs  []attribute.KeyValue
	events []sdktrace.Event
	links  []sdktrace.Link
	status sdktrace.Status
}

func (c cleanedSpan) Name() string                     { return c.name }
func (c cleanedSpan) Attributes() []attribute.KeyValue { return c.attrs }
func (c cleanedSpan) Events() []sdktrace.Event         { return c.events }
func (c cleanedSpan) Links() []sdktrace.Link           { return c.links }
func (c cleanedSpan) Status() sdktrace.Status          { return c.status }

// cleanSpan mends what a backend could not take: text that is not UTF-8 and
// values without bounds would lose the whole batch.
func cleanSpan(s sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int) {
	c := cleanedSpan{ReadOnlySpan: s, name: s.Name(), attrs: s.Attributes(), events: s.Events(), links: s.Links(), status: s.Status()}
	mended := 0
	count := func(changed bool) {
		if changed {
			mended++
		}
	}
	var changed bool
	c.name, changed = attributes.CleanString(c.name)
	count(changed)
	c.status.Description, changed = attributes.CleanString(c.status.Description)
	count(changed)
	c.attrs = cleanAttributes(c.attrs, &mended)
	for i, e := range c.events {
		name, changedName := attributes.CleanString(e.Name)
		before := mended
		attrs := cleanAttributes(e.Attributes, &mended)
		count(changedName)
		if mended > before {
			c.events = append([]sdktrace.Event(nil), c.events...)
			c.events[i].Name, c.events[i].Attributes = name, attrs
		}
	}
	for i, l := range c.links {
		before := mended
		attrs := cleanAttributes(l.Attributes, &mended)
		if mended > before {
			c.links = append([]sdktrace.Link(nil), c.links...)
			c.links[i].Attributes = attrs
		}
	}
	if mended == 0 {
		return s, 0
	}
	return c, mended
}

// cleanAttributes gives attrs, or a mended copy.
func cleanAttributes(attrs []attribute.KeyValue, mended *int) []attribute.KeyValue {
	out := attrs
	for i, kv := range attrs {
		if clean, changed := attributes.CleanKeyValue(kv); changed {
			if &out[0] == &attrs[0] {
				out = append([]attribute.KeyValue(nil), attrs...)
			}
			out[i] = clean
			*mended++
		}
	}
	return out
}
