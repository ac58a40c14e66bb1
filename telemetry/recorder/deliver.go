package recorder

import (
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// call gathers what one call into the recorder has to do once the lock is
// released: in OpenTelemetry, with the outputs, in the log.
type call struct {
	now      int64 // when it began, nanoseconds since the Unix epoch
	queued   bool  // records wait for the outputs
	events   []otelEvent
	ends     []otelEnd
	reading  reading // for metrics
	warnings []warning
}

type otelEvent struct {
	span  *Span
	event outputs.Event
}

type otelEnd struct {
	span *Span
	at   int64
	fail *failure
	// truncated says that nobody ended it before the recording did.
	truncated bool
}

type warning struct {
	kind uint32 // zero: every time
	text string
	args []any
}

func (c *call) warn(kind uint32, text string, args ...any) {
	c.warnings = append(c.warnings, warning{kind, text, args})
}

// event records an event of an open span natively and, later, in OpenTelemetry.
func (c *call) event(s *Span, e outputs.Event, extension bool) {
	s.rec.exportEvent(c, s, outputs.KindEvent, e, extension)
	c.events = append(c.events, otelEvent{s, e})
}

// failure records an error of an open span natively and, later, in
// OpenTelemetry.
func (c *call) failure(s *Span, e outputs.Event, extension bool) {
	s.errored = true
	s.rec.exportEvent(c, s, outputs.KindError, e, extension)
	c.events = append(c.events, otelEvent{s, e})
}

// deliver does what a call left to do. The lock is not held.
func (r *Recorder) deliver(c *call) {
	if c.queued {
		r.hub.Drain()
	}
	r.meters.record(&c.reading)
	for i := range c.events {
		e := &c.events[i]
		kvs := attributes.AppendOTel(nil, e.event.Attributes)
		at := time.Unix(0, e.event.Time)
		e.span.otel.AddEvent(e.event.Name, trace.WithTimestamp(at), trace.WithAttributes(kvs...))
		if ro, ok := e.span.otel.(sdktrace.ReadOnlySpan); ok {
			r.hub.OnEvent(ro, sdktrace.Event{Name: e.event.Name, Time: at, Attributes: kvs})
		}
	}
	for i := range c.ends {
		e := &c.ends[i]
		if e.truncated {
			e.span.truncate()
		}
		if e.fail != nil {
			e.span.otel.SetStatus(codes.Error, e.fail.text)
		}
		e.span.otel.End(trace.WithTimestamp(time.Unix(0, e.at)))
	}
	for i := range c.warnings {
		w := &c.warnings[i]
		r.warn(w.kind, w.text, w.args...)
	}
}
