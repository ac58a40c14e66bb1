package segment

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Exporter is the output for one OpenTelemetry span exporter. It puts each span under
// the segment of its parent that is in the same trace, so that no span refers to a
// parent that is missing from its trace.
type Exporter struct {
	outputs.None

	exporter     sdktrace.SpanExporter
	offer        *outputs.Telemetry
	stopRotation func()

	// Open long spans are delivered in segments.
	run     *Run
	newID   func() trace.SpanID
	segment time.Duration       // maximum length of a segment of a long span
	counts  bool                // count segments as spans of their trace
	queue   *delivery.Processor // nil before Open
	clock   func() time.Time

	mu   sync.Mutex // protects the fields below
	long map[trace.SpanID]*longSpan
	cut  []*segment // finished segments that are not yet sent

	// moved holds the place of an open span in the export, if it is not below the span's
	// own parent.
	moved map[trace.SpanID]place
	spare []movedSpan // for ended spans
}

var _ outputs.Output = (*Exporter)(nil)

// ancestor is the parent of a span in the export.
type ancestor struct {
	trace.SpanContext           // for a long span, the segment at that time
	long              *longSpan // nil if it is not a long span
}

// NewExporter returns the output for an exporter. segment is the maximum length of a
// segment of a long span; zero or less means no segments. first reports that this is the
// output whose segments count for the budget of a trace. newID returns the span ids of
// further segments.
func NewExporter(e sdktrace.SpanExporter, run *Run, newID func() trace.SpanID, segment time.Duration, first bool) *Exporter {
	return &Exporter{
		exporter: e,
		run:      run, newID: newID, segment: segment, counts: first, long: make(map[trace.SpanID]*longSpan),
		moved: make(map[trace.SpanID]place),
	}
}

// Open implements outputs.Output.
func (f *Exporter) Open(_ context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	f.offer, f.clock = t, t.Clock
	f.queue = delivery.New(f.exporter, &delivery.Options{
		Clean: cleanSpan, LookupEnv: os.LookupEnv,
		OnLoss: func(cause delivery.Cause, n int64, err error) { t.Lost(outputs.DeliversSpans, cause.String(), n, err) },
	})
	f.stopRotation = f.startRotation()
	return outputs.Traits{Snapshots: true, Remote: true}, nil
}

// ForceFlush implements outputs.Output.
func (f *Exporter) ForceFlush(ctx context.Context) error { return f.queue.ForceFlush(ctx) }

// Shutdown implements outputs.Output.
func (f *Exporter) Shutdown(ctx context.Context) error {
	if f.queue == nil { // not opened: the rank is off
		return f.exporter.Shutdown(ctx)
	}
	f.stopRotation()
	return f.queue.Shutdown(ctx)
}

// Stats implements outputs.Output.
func (f *Exporter) Stats() outputs.Stats {
	if f.queue == nil {
		return outputs.Stats{}
	}
	s := f.queue.Stats()
	d := outputs.Delivery{
		What: outputs.DeliversSpans, Total: s.Ended, Sent: s.Exported, Spilled: s.Spilled, Dropped: s.DroppedTotal(),
		Pending: s.Pending, Repaired: s.Repaired,
	}
	for cause, n := range s.Dropped {
		if n > 0 {
			if d.Drops == nil {
				d.Drops = make(map[string]int64)
			}
			d.Drops[delivery.Cause(cause).String()] += n
		}
	}
	return outputs.Stats{Delivery: d}
}

// Held returns the number of entries for open spans in memory.
func (f *Exporter) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.moved) + len(f.long)
}

// Write implements outputs.Output.
func (f *Exporter) Write(records []outputs.Record) error {
	for i := range records {
		switch r := &records[i]; r.Kind {
		case outputs.KindStart:
			f.onStart(r.Context, r.Snapshot.(sdktrace.ReadWriteSpan))
		case outputs.KindEvent:
			f.onEvent(r.Snapshot.SpanContext().SpanID())
		case outputs.KindStop:
			f.onEnd(r.Snapshot)
		}
	}
	return nil
}

// onStart records the place of a starting span in the export.
func (f *Exporter) onStart(ctx context.Context, span sdktrace.ReadWriteSpan) {
	s := starting{ReadWriteSpan: span, own: span.SpanContext(), parent: span.Parent(), long: isLong(spans.Index(span.Name()))}
	if started := filter.Started(ctx); started != nil {
		var known trace.SpanContext
		if s.above = started.Above(); s.above != nil {
			known = s.above.SpanContext()
		} else {
			known = started.Outside()
		}
		if known.SpanID() == s.parent.SpanID() {
			s.parent = known // even if it is in another trace
		}
	}
	f.mu.Lock()
	defer f.unlock()
	above := f.ancestorOf(&s)
	if above.HasSpanID() && above.TraceID() != s.own.TraceID() {
		// The clock is the program's, which may start a span.
		f.mu.Unlock()
		now := f.clock()
		f.mu.Lock()
		if s.cutAt = s.StartTime(); s.cutAt.After(now) { // an explicit time
			s.cutAt = now
		}
		above = f.ancestorIn(&s, f.ancestorOf(&s))
	}
	f.add(&s, above)
}

// add records the place of a span below its parent in the export. f.mu must be held.
func (f *Exporter) add(s *starting, above ancestor) {
	own := s.own
	at := f.placeOf(s, above)
	if at.link.IsValid() || at.parent.SpanID() != s.parent.SpanID() {
		f.moved[own.SpanID()] = at
	}
	if s.long && own.IsSampled() && (f.segment > 0 || f.run != nil) {
		l := &longSpan{
			span: s.ReadWriteSpan, current: own, part: f.run.find(own.TraceID()),
			above: above.long, direct: above.long != nil, place: at, from: s.StartTime(),
		}
		if !l.direct {
			l.above = f.longAbove(s)
		}
		f.long[own.SpanID()] = l
	}
}

// ancestorOf returns the parent of a starting span, which may be in another trace. f.mu must
// be held.
func (f *Exporter) ancestorOf(s *starting) ancestor {
	if l := f.long[s.parent.SpanID()]; l != nil {
		return ancestor{l.current, l}
	}
	return ancestor{s.parent, nil}
}

// ancestorIn returns the segment of a parent that is in the trace of the starting span, if
// there is one, or else the parent. f.mu must be held.
func (f *Exporter) ancestorIn(s *starting, above ancestor) ancestor {
	if above.long != nil {
		if in, ok := f.segmentIn(above.long, s); ok {
			above.SpanContext = in
		}
	}
	return above
}

// placeOf returns the place of a span: below its parent or, if that is in another trace,
// below the nearest long span. f.mu must be held.
func (f *Exporter) placeOf(s *starting, above ancestor) place {
	if !above.HasSpanID() || above.TraceID() == s.own.TraceID() {
		return place{parent: above.SpanContext}
	}
	if l := f.longAbove(s); l != nil {
		if in, ok := f.segmentIn(l, s); ok {
			return place{in, above.SpanContext}
		}
	}
	return place{link: above.SpanContext}
}

// longAbove returns the nearest open long span above a starting span, or nil. f.mu must
// be held.
func (f *Exporter) longAbove(of *starting) *longSpan {
	for s := of.above; s != nil; s = s.Above() {
		if l := f.long[s.SpanContext().SpanID()]; l != nil {
			return l
		}
	}
	return nil
}

// onEnd queues an ended span if it is sampled.
func (f *Exporter) onEnd(s sdktrace.ReadOnlySpan) {
	if own := s.SpanContext(); own.IsSampled() {
		f.queue.Put(f.end(s, own.SpanID()))
	} else {
		f.end(s, own.SpanID())
	}
}

// end returns an ended span in the form in which it is exported, and forgets the span.
func (f *Exporter) end(s sdktrace.ReadOnlySpan, id trace.SpanID) sdktrace.ReadOnlySpan {
	f.mu.Lock()
	defer f.mu.Unlock()
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
		return f.move(s, at)
	}
	return s
}

// move returns a span with another parent. Most spans of a long loop are moved: they are
// allocated in groups. f.mu must be held.
func (f *Exporter) move(s sdktrace.ReadOnlySpan, at place) sdktrace.ReadOnlySpan {
	if len(f.spare) == 0 {
		f.spare = make([]movedSpan, 64)
	}
	m := &f.spare[0]
	f.spare = f.spare[1:]
	*m = movedSpan{s, at}
	return m
}

// movedSpan is a span with another parent.
type movedSpan struct {
	sdktrace.ReadOnlySpan
	at place
}

// Parent implements sdktrace.ReadOnlySpan.
func (m movedSpan) Parent() trace.SpanContext { return m.at.parent }

// Links implements sdktrace.ReadOnlySpan.
func (m movedSpan) Links() []sdktrace.Link { return m.at.links(m.ReadOnlySpan.Links()) }

// cleanedSpan is a span with repaired texts.
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

// cleanSpan repairs what a backend could reject: text that is not UTF-8 and overlong
// values would lose the whole batch. It returns the number of repairs.
func cleanSpan(s sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int) {
	c := cleanedSpan{ReadOnlySpan: s, name: s.Name(), attrs: s.Attributes(), events: s.Events(), links: s.Links(), status: s.Status()}
	repaired := 0
	count := func(changed bool) {
		if changed {
			repaired++
		}
	}
	var changed bool
	c.name, changed = attrvalue.CleanString(c.name)
	count(changed)
	c.status.Description, changed = attrvalue.CleanString(c.status.Description)
	count(changed)
	c.attrs = cleanAttributes(c.attrs, &repaired)
	for i, e := range c.events {
		name, changedName := attrvalue.CleanString(e.Name)
		before := repaired
		attrs := cleanAttributes(e.Attributes, &repaired)
		count(changedName)
		if repaired > before {
			c.events = append([]sdktrace.Event(nil), c.events...)
			c.events[i].Name, c.events[i].Attributes = name, attrs
		}
	}
	for i, l := range c.links {
		before := repaired
		attrs := cleanAttributes(l.Attributes, &repaired)
		if repaired > before {
			c.links = append([]sdktrace.Link(nil), c.links...)
			c.links[i].Attributes = attrs
		}
	}
	if repaired == 0 {
		return s, 0
	}
	return c, repaired
}

// cleanAttributes returns attrs, or a repaired copy.
func cleanAttributes(attrs []attribute.KeyValue, repaired *int) []attribute.KeyValue {
	out := attrs
	for i, kv := range attrs {
		if clean, changed := attrvalue.CleanKeyValue(kv); changed {
			if &out[0] == &attrs[0] {
				out = append([]attribute.KeyValue(nil), attrs...)
			}
			out[i] = clean
			*repaired++
		}
	}
	return out
}
