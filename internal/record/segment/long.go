package segment

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/record/filter"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// DefaultSegment is how long a span of the long kind may stay open before
// backends get a finished segment of it.
const DefaultSegment = 10 * time.Minute

func linkTo(sc trace.SpanContext, kind string) sdktrace.Link {
	return sdktrace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{attribute.String(otlpform.LinkKind, kind)}}
}

// place is where a span stands in the export: below a parent, the zero one for
// a root, and perhaps with a link to the ancestor that is in another trace.
type place struct {
	parent, link trace.SpanContext
}

// links adds the link to the parent in another trace to those of the span.
func (p place) links(of []sdktrace.Link) []sdktrace.Link {
	if !p.link.IsValid() {
		return of
	}
	return append(slices.Clip(of), linkTo(p.link, otlpform.LinkParent))
}

// longSpan is an open span of the long kind. A backend learns of a span when
// it ends; a training loop ends after weeks. So it is delivered in finished
// segments: the first under the span's own id, each further one under an id of
// its own, with a link to the one before. Segments follow each other without
// a gap, so that their lengths add up to the span's. A new trace begins with a
// new segment.
type longSpan struct {
	span    sdktrace.ReadOnlySpan
	current trace.SpanContext // of the segment that is open
	before  trace.SpanContext // of the one before
	part    *part             // of the segment that is open; nil: not one of the run's
	above   *longSpan         // the nearest long span above
	direct  bool              // nothing that is exported is between
	place   place             // of the segment that is open
	from    time.Time
	index   int
	ended   bool
}

// segment is a finished part of a span.
type segment struct {
	sdktrace.ReadOnlySpan
	context, parent trace.SpanContext
	start, end      time.Time
	attrs           []attribute.KeyValue
	events          []sdktrace.Event
	links           []sdktrace.Link
}

func (s *segment) SpanContext() trace.SpanContext   { return s.context }
func (s *segment) Parent() trace.SpanContext        { return s.parent }
func (s *segment) StartTime() time.Time             { return s.start }
func (s *segment) EndTime() time.Time               { return s.end }
func (s *segment) Attributes() []attribute.KeyValue { return s.attrs }
func (s *segment) Events() []sdktrace.Event         { return s.events }
func (s *segment) Links() []sdktrace.Link           { return s.links }

// cut finishes the open segment at a time.
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
	for _, e := range l.span.Events() {
		if (l.index == 0 || !e.Time.Before(l.from)) && (final || e.Time.Before(end)) {
			s.events = append(s.events, e)
		}
	}
	return s
}

// advance finishes the open segment of a span and opens the next one, in a
// part of the run if one is given. The lock is held.
func (f *Exporter) advance(l *longSpan, at time.Time, into *part) {
	if now := f.clock(); at.After(now) { // an explicit time
		at = now
	}
	if at.Before(l.from) {
		at = l.from
	}
	f.cut = append(f.cut, l.cut(at, false))
	l.before = l.current
	if into != nil {
		l.part = into
		l.current = l.current.WithTraceID(into.id)
	}
	l.current = l.current.WithSpanID(f.ids.NewSpanID(context.Background(), l.current.TraceID()))
	l.from = at
	l.index++
	if l.part != nil && f.counts {
		l.part.spans.Add(1)
	}
}

// enter brings a span and those above it into a part of the run, if it is in
// an earlier one. The lock is held.
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

// starting is a span that starts, with what is asked of it more than once: each
// question to it takes its lock.
type starting struct {
	sdktrace.ReadWriteSpan
	own, parent trace.SpanContext
	above       filter.Span // the nearest span around it that the recorder knows, or nil
	long        bool
}

// segmentIn is the segment of a long span to which a span belongs that starts
// in some trace, and whether there is one in that trace. If the long span has
// not come as far as that part of the run yet, it has then. The lock is held.
func (f *Exporter) segmentIn(l *longSpan, s *starting) (trace.SpanContext, bool) {
	id := s.own.TraceID()
	if l.current.TraceID() == id {
		return l.current, true
	}
	f.enter(l, f.run.find(id), s.StartTime())
	for _, sc := range [...]trace.SpanContext{l.current, l.before, l.span.SpanContext()} {
		if sc.TraceID() == id {
			return sc, true
		}
	}
	return trace.SpanContext{}, false
}

// Segment is the open segment of a span that was cut, zero for others.
func (f *Exporter) Segment(id trace.SpanID) trace.SpanContext {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.long[id]; l != nil && l.index > 0 {
		return l.current
	}
	return trace.SpanContext{}
}

// unlock releases the lock and sends the segments that were finished.
func (f *Exporter) unlock() {
	done := f.cut
	f.cut = nil
	f.mu.Unlock()
	for _, s := range done {
		f.queue.OnEnd(s)
	}
}

// Rotate delivers the segments of the long spans that are open for longer than
// a segment lasts. What begins then is in the newest part of the run.
func (f *Exporter) Rotate(now time.Time) {
	part := f.run.rotated()
	f.mu.Lock()
	defer f.unlock()
	for _, l := range f.long {
		if now.Sub(l.from) < f.segment {
			continue
		}
		if before := l.index; part != nil {
			if f.enter(l, part, now); l.index > before {
				continue
			}
		}
		f.advance(l, now, nil)
	}
	// Under the segment at present of the span above, whichever was cut first.
	for _, l := range f.long {
		if up := l.above; l.direct && l.from.Equal(now) && up.current.TraceID() == l.current.TraceID() {
			l.place.parent = up.current
		}
	}
}

// startRotation rotates long spans in the background until stop is called.
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
