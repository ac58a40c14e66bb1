package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// DefaultSegment is how long a span of the long kind may stay open before
// backends get a finished segment of it.
const DefaultSegment = 10 * time.Minute

// Keys of the attributes of segments.
const (
	segmentIndex = "segment.index" // from zero
	segmentFinal = "segment.final" // true on the last one
	segmentOf    = "segment.of"    // span id of the first one, which is the span's own
)

// longSpan is an open span of the long kind. A backend learns of a span when
// it ends; a training loop ends after weeks. So it is delivered in finished
// segments: the first under the span's own id, each further one under an id of
// its own, with a link to the one before. Segments follow each other without
// a gap, so that their lengths add up to the span's.
type longSpan struct {
	span    sdktrace.ReadOnlySpan
	current trace.SpanContext // of the segment that is open
	before  trace.SpanContext // of the one before
	parent  trace.SpanContext // of the segment that is open
	under   trace.SpanID      // the span's exported ancestor
	from    time.Time
	index   int
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
		ReadOnlySpan: l.span, context: l.current, parent: l.parent, start: l.from, end: end,
		attrs: slices.Clip(l.span.Attributes()),
		links: slices.Clip(l.span.Links()),
	}
	s.attrs = append(s.attrs, attribute.Int(segmentIndex, l.index))
	if l.index > 0 {
		s.attrs = append(s.attrs, attribute.String(segmentOf, l.span.SpanContext().SpanID().String()))
		s.links = append(s.links, sdktrace.Link{
			SpanContext: l.before,
			Attributes:  []attribute.KeyValue{attribute.String("link.kind", "segment.previous")},
		})
	}
	if final {
		s.attrs = append(s.attrs, attribute.Bool(segmentFinal, true))
	}
	for _, e := range l.span.Events() {
		if (l.index == 0 || !e.Time.Before(l.from)) && (final || e.Time.Before(end)) {
			s.events = append(s.events, e)
		}
	}
	return s
}

// rotate delivers the segments of the long spans that are open for longer than
// a segment lasts.
func (f *filterProcessor) rotate(now time.Time) {
	var done []*segment
	f.mu.Lock()
	for _, l := range f.long {
		if now.Sub(l.from) < f.segment {
			continue
		}
		done = append(done, l.cut(now, false))
		l.before = l.current
		l.current = l.current.WithSpanID(f.ids.NewSpanID(context.Background(), l.current.TraceID()))
		l.from = now
		l.index++
	}
	// Under the parent's segment of now, whichever was cut first.
	for _, l := range f.long {
		if l.from.Equal(now) {
			l.parent = f.openSegment(l.under, l.parent)
		}
	}
	f.mu.Unlock()
	for _, s := range done {
		f.Processor.OnEnd(s)
	}
}

// openSegment is the open segment of an exported span, if it is a long one
// that was cut, and otherwise what is given. The lock is held.
func (f *filterProcessor) openSegment(id trace.SpanID, otherwise trace.SpanContext) trace.SpanContext {
	if l := f.long[id]; l != nil {
		return l.current
	}
	return otherwise
}

// startRotation rotates long spans in the background until stop is called.
func startRotation(filters []*filterProcessor, clock Clock) (stop func()) {
	if len(filters) == 0 || filters[0].segment <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(min(max(filters[0].segment/20, 100*time.Millisecond), 30*time.Second))
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				for _, f := range filters {
					f.rotate(clock.Now())
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
