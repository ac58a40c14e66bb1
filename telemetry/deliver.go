package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
)

// EventProcessor is a span processor that wants to see the events of spans
// while these are still open. The provider calls OnEvent on the goroutine that
// records the event, after the event was added to the span, concurrently for
// different spans.
type EventProcessor interface {
	OnEvent(s sdktrace.ReadOnlySpan, e sdktrace.Event)
}

// call gathers what one call into the recorder has to do in OpenTelemetry
// once the lock is released.
type call struct {
	events  []otelEvent
	ends    []otelEnd
	reading reading // for metrics
}

type otelEvent struct {
	span  *Span
	event Event
}

type otelEnd struct {
	span *Span
	at   int64
	err  error
}

// event records an event of an open span natively and, later, in OpenTelemetry.
func (c *call) event(s *Span, e Event, extension bool) {
	s.rec.exportEvent(s, KindEvent, e, extension)
	c.events = append(c.events, otelEvent{s, e})
}

// failure records an error of an open span natively and, later, in
// OpenTelemetry.
func (c *call) failure(s *Span, e Event, extension bool) {
	s.errored = true
	s.rec.exportEvent(s, KindError, e, extension)
	c.events = append(c.events, otelEvent{s, e})
}

// deliver does the OpenTelemetry part of a call. The lock is not held.
func (r *Recorder) deliver(c *call) {
	r.meters.record(&c.reading)
	for i := range c.events {
		e := &c.events[i]
		kvs := attributes.AppendOTel(nil, e.event.Attributes)
		at := time.Unix(0, e.event.Time)
		e.span.otel.AddEvent(e.event.Name, trace.WithTimestamp(at), trace.WithAttributes(kvs...))
		r.watch(e.span, sdktrace.Event{Name: e.event.Name, Time: at, Attributes: kvs})
	}
	for i := range c.ends {
		e := &c.ends[i]
		if e.err != nil {
			e.span.otel.SetStatus(codes.Error, errorText(e.err))
		}
		e.span.otel.End(trace.WithTimestamp(time.Unix(0, e.at)))
	}
}

func (r *Recorder) watch(s *Span, e sdktrace.Event) {
	if len(r.watchers) == 0 {
		return
	}
	if ro, ok := s.otel.(sdktrace.ReadOnlySpan); ok {
		for _, w := range r.watchers {
			w.OnEvent(ro, e)
		}
	}
}
