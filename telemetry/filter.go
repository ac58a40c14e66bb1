package telemetry

import (
	"context"
	"os"
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

	mu sync.Mutex
	// hidden maps an open span that is left out to its nearest exported
	// ancestor; moved maps an open exported span to its parent in the export
	// where that is not its own.
	hidden, moved map[trace.SpanID]trace.SpanContext
	long          map[trace.SpanID]*longSpan

	segment time.Duration // how long a long span is delivered in one piece
	ids     sdktrace.IDGenerator
}

func newFilterProcessor(e sdktrace.SpanExporter, r *Recorder, segment time.Duration, ids sdktrace.IDGenerator) *filterProcessor {
	return &filterProcessor{
		Processor: delivery.New(e, &delivery.Options{
			Clean: cleanSpan, OnLoss: r.spansLost, LookupEnv: os.LookupEnv,
		}),
		only:    r.only,
		hidden:  make(map[trace.SpanID]trace.SpanContext),
		moved:   make(map[trace.SpanID]trace.SpanContext),
		long:    make(map[trace.SpanID]*longSpan),
		segment: segment,
		ids:     ids,
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (f *filterProcessor) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	name := s.Name()
	index := spans.Index(name)
	own := s.SpanContext()
	parent := s.Parent()
	f.mu.Lock()
	defer f.mu.Unlock()
	ancestor, below := f.hidden[parent.SpanID()]
	if !below {
		ancestor = parent
	}
	if !f.only.has(index, name) {
		f.hidden[own.SpanID()] = ancestor
		return
	}
	under := ancestor.SpanID()
	ancestor = f.openSegment(under, ancestor)
	if ancestor.SpanID() != parent.SpanID() {
		f.moved[own.SpanID()] = ancestor
	}
	if f.segment > 0 && index >= 0 && spans.At(index).Long && own.IsSampled() {
		f.long[own.SpanID()] = &longSpan{span: s, current: own, parent: ancestor, under: under, from: s.StartTime()}
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (f *filterProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	id := s.SpanContext().SpanID()
	f.mu.Lock()
	_, left := f.hidden[id]
	delete(f.hidden, id)
	parent, moved := f.moved[id]
	delete(f.moved, id)
	long := f.long[id]
	delete(f.long, id)
	f.mu.Unlock()
	switch {
	case left:
		return
	case long != nil && long.index > 0:
		long.span = s
		s = long.cut(s.EndTime(), true)
	case moved:
		s = movedSpan{s, parent}
	}
	f.Processor.OnEnd(s)
}

// movedSpan is a span under another parent.
type movedSpan struct {
	sdktrace.ReadOnlySpan
	parent trace.SpanContext
}

// Parent implements sdktrace.ReadOnlySpan.
func (m movedSpan) Parent() trace.SpanContext { return m.parent }

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
