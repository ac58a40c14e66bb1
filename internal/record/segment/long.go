package segment

import (
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/record/filter"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// DefaultSegment is the time after which a finished segment of an open long span is sent
// to backends.
const DefaultSegment = 10 * time.Minute

// maxEvents is the number of events after which the open segment of a long span is
// finished: the SDK keeps the last 128 events of a span.
const maxEvents = 100

func linkTo(sc trace.SpanContext, kind string) sdktrace.Link {
	return sdktrace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{attribute.String(otlpform.LinkKind, kind)}}
}

// place is the position of a span in the export: its parent, invalid for a root, and an
// optional link to the parent in another trace.
type place struct {
	parent, link trace.SpanContext
}

// links returns the span's links, plus the link to the parent in another trace.
func (p place) links(of []sdktrace.Link) []sdktrace.Link {
	if !p.link.IsValid() {
		return of
	}
	return append(slices.Clip(of), linkTo(p.link, otlpform.LinkParent))
}

// longSpan is an open long span. A backend receives a span when it ends, but a training
// loop ends after weeks. So the span is delivered in finished segments: the first under
// the span's own id, each further one under a new id, with a link to the previous one.
// Segments follow each other without a gap, so that their durations add up to the
// span's. A new trace begins with a new segment.
type longSpan struct {
	span    sdktrace.ReadOnlySpan
	current trace.SpanContext // of the open segment
	before  trace.SpanContext // of the previous segment
	part    *part             // of the open segment; nil if its trace is not part of the run
	above   *longSpan         // the nearest long span above
	direct  bool              // no exported span is between
	place   place             // of the open segment
	from    time.Time
	index   int
	events  int // of the open segment
	past    int // number of events of the finished segments
	ended   bool
}

// segment is a finished segment of a long span.
type segment struct {
	sdktrace.ReadOnlySpan
	context, parent trace.SpanContext
	start, end      time.Time
	attrs           []attribute.KeyValue
	events          []sdktrace.Event
	dropped         int // events
	links           []sdktrace.Link
}

func (s *segment) SpanContext() trace.SpanContext   { return s.context }
func (s *segment) Parent() trace.SpanContext        { return s.parent }
func (s *segment) StartTime() time.Time             { return s.start }
func (s *segment) EndTime() time.Time               { return s.end }
func (s *segment) Attributes() []attribute.KeyValue { return s.attrs }
func (s *segment) Events() []sdktrace.Event         { return s.events }
func (s *segment) DroppedEvents() int               { return s.dropped }
func (s *segment) Links() []sdktrace.Link           { return s.links }

// cut returns the open segment, finished at end.
func (l *longSpan) cut(end time.Time, final bool) *segment {
	s := &segment{
		ReadOnlySpan: l.span, context: l.current, parent: l.place.parent, start: l.from, end: end,
		attrs: slices.Clip(l.span.Attributes()),
		links: l.place.links(l.span.Links()),
	}
	own := l.span.SpanContext()
	s.attrs = append(s.attrs, attribute.Int(otlpform.SegmentIndex, l.index))
	if l.index > 0 {
		s.attrs = append(s.attrs, attribute.String(otlpform.SegmentOf, own.SpanID().String()))
		s.links = append(slices.Clip(s.links), linkTo(l.before, otlpform.LinkPrevious))
	}
	if l.current.TraceID() != own.TraceID() {
		s.attrs = append(s.attrs, attribute.String(otlpform.SegmentTrace, own.TraceID().String()))
	}
	if p := l.part; p != nil && p.seq > 0 {
		if p.window >= 0 {
			s.attrs = append(s.attrs, attribute.Int64(otlpform.TraceWindow, p.window))
		}
		s.attrs = append(s.attrs, attribute.Int(otlpform.TracePart, p.number))
	}
	if final {
		s.attrs = append(s.attrs, attribute.Bool(otlpform.SegmentFinal, true))
	}
	dropped, kept := l.span.DroppedEvents(), l.span.Events()
	s.dropped = max(dropped-l.past, 0)
	s.events = kept[min(max(l.past-dropped, 0), len(kept)):]
	if !final && l.events < maxEvents { // those from the end on are in the next segment
		if i := slices.IndexFunc(s.events, func(e sdktrace.Event) bool { return !e.Time.Before(end) }); i >= 0 {
			s.events = s.events[:i]
		}
	}
	l.past += s.dropped + len(s.events)
	l.events = dropped + len(kept) - l.past
	return s
}

// advance finishes the open segment of a span and opens the next one, in the part into
// unless that is nil. f.mu must be held.
func (f *Exporter) advance(l *longSpan, at time.Time, into *part) {
	if at.Before(l.from) {
		at = l.from
	}
	f.cut = append(f.cut, l.cut(at, false))
	l.before = l.current
	if into != nil {
		l.part = into
		l.current = l.current.WithTraceID(into.id)
	}
	l.current = l.current.WithSpanID(f.newID())
	l.from = at
	l.index++
	if l.part != nil && f.counts {
		l.part.spans.Add(1)
	}
}

// enter moves a long span and its long ancestors into a part of the run, if they are in
// an earlier one. f.mu must be held.
func (f *Exporter) enter(l *longSpan, into *part, at time.Time) {
	if into == nil || l.ended || l.part != nil && l.part.seq >= into.seq {
		return
	}
	was := l.place.parent
	f.advance(l, at, into)
	l.place = place{}
	if l.above != nil {
		f.enter(l.above, into, at)
		if l.above.current.TraceID() == into.id {
			l.place.parent = l.above.current
		}
	}
	if !l.direct || !l.place.parent.IsValid() {
		l.place.link = was
	}
}

// starting is a starting span with its values that are used several times, because each
// method of the span takes the span's lock.
type starting struct {
	sdktrace.ReadWriteSpan
	own, parent trace.SpanContext
	above       filter.Span // the nearest span around it that the recorder knows, or nil
	long        bool
	cutAt       time.Time // where segments of the spans above it end, if it begins a new trace
}

// segmentIn returns the segment of l that is in the trace of the starting span s, and
// whether there is one. If that trace is a newer part of the run, l is moved into it
// first. f.mu must be held.
func (f *Exporter) segmentIn(l *longSpan, s *starting) (trace.SpanContext, bool) {
	id := s.own.TraceID()
	if l.current.TraceID() == id {
		return l.current, true
	}
	f.enter(l, f.run.find(id), s.cutAt)
	for _, sc := range [...]trace.SpanContext{l.current, l.before, l.span.SpanContext()} {
		if sc.TraceID() == id {
			return sc, true
		}
	}
	return trace.SpanContext{}, false
}

// Segment returns the open segment of a long span that has several, and the zero value
// for other spans.
func (f *Exporter) Segment(id trace.SpanID) trace.SpanContext {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.long[id]; l != nil && l.index > 0 {
		return l.current
	}
	return trace.SpanContext{}
}

// unlock releases f.mu and queues the finished segments.
func (f *Exporter) unlock() {
	done := f.cut
	f.cut = nil
	f.mu.Unlock()
	for _, s := range done {
		f.queue.OnEnd(s)
	}
}

// Rotate finishes all segments that are open for at least the segment length. The new
// segments are in the newest part of the run.
func (f *Exporter) Rotate(now time.Time) {
	part := f.run.rotated()
	f.mu.Lock()
	defer f.unlock()
	for _, l := range f.long {
		if now.Sub(l.from) >= f.segment {
			f.renew(l, part, now)
		}
	}
	// The segments were cut in any order.
	for _, l := range f.long {
		if l.from.Equal(now) {
			l.hang()
		}
	}
}

// renew finishes the open segment of a long span. The next one is in the part, unless that
// is nil. f.mu must be held.
func (f *Exporter) renew(l *longSpan, part *part, now time.Time) {
	before := l.index
	if f.enter(l, part, now); l.index == before {
		f.advance(l, now, nil)
	}
}

// hang puts the open segment under that of its parent.
func (l *longSpan) hang() {
	if up := l.above; l.direct && up.current.TraceID() == l.current.TraceID() {
		l.place.parent = up.current
	}
}

// onEvent counts an event of a long span, and finishes the open segment before the SDK
// drops events.
func (f *Exporter) onEvent(id trace.SpanID) {
	if f.segment <= 0 {
		return
	}
	f.mu.Lock()
	l := f.long[id]
	full := l != nil && l.events+1 >= maxEvents
	if l != nil {
		l.events++
	}
	f.mu.Unlock()
	if !full {
		return
	}
	now, part := f.clock(), f.run.rotated() // may call the program
	f.mu.Lock()
	defer f.unlock()
	if !l.ended && l.events >= maxEvents { // nobody else did it
		f.renew(l, part, now)
		l.hang()
	}
}

// startRotation calls Rotate in the background until stop is called.
func (f *Exporter) startRotation() (stop func()) {
	if f.segment <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(min(max(f.segment/20, 100*time.Millisecond), 30*time.Second))
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				f.Rotate(f.clock())
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-done
	})
}
