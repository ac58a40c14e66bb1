package telemetry

import (
	"log/slog"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/meters"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// outbox does the work that calls into the recorder leave for the outputs, for
// OpenTelemetry, the metrics and the log. Under the recorder's lock, records
// are only queued, in order.
type outbox struct {
	hub    *dispatch.Hub
	meters *meters.Instruments // nil if there are none
	log    *slog.Logger
	logged logLimit

	// Guarded by the recorder's lock.
	records, events, gaps int64 // counts
}

// call collects what one call into the recorder has to do after the lock is
// released.
type call struct {
	now      int64 // when it began, nanoseconds since the Unix epoch
	queued   bool  // records wait for the outputs
	events   []otelEvent
	ends     []otelEnd // of spans, in order
	own      otelEnd   // the last of them: of the span that the call ends
	entry    spantree.Entry
	warnings []warning
}

type otelEvent struct {
	span  *Span
	event outputs.Event
}

type otelEnd struct {
	span *Span
	at   int64
	fail *failure.Failure
	// truncated means that the recording ended the span.
	truncated bool
}

type warning struct {
	kind uint32 // zero means no limit
	text string
	args []any
}

func (c *call) warn(kind uint32, text string, args ...any) {
	c.warnings = append(c.warnings, warning{kind, text, args})
}

// recorded reports whether an output gets records of a span.
func (o *outbox) recorded(s *Span) bool { return s.to&o.hub.Records() != 0 }

// spanned reports whether an output gets a span as OpenTelemetry has it.
func (o *outbox) spanned(s *Span) bool { return s.to&o.hub.Spans() != 0 }

// record queues a record of a span for the outputs that get it, with the
// current state of the span. A stopped span does not change and is not copied.
func (o *outbox) record(c *call, s *Span, rec *outputs.Record) {
	o.records++
	if rec.Span = &s.data; rec.Kind != outputs.KindStop {
		data := s.data
		rec.Span = &data
	}
	o.hub.Push(rec, s.to)
	c.queued = true
}

// edge queues a record for the start or the stop of a span.
func (o *outbox) edge(c *call, s *Span, kind outputs.Kind, e outputs.Event) {
	if o.recorded(s) {
		o.record(c, s, &outputs.Record{Kind: kind, Event: e, Extension: phase.Extension(s.index)})
	}
}

// event records an event or an error of an open span natively and, later, in
// OpenTelemetry if an output can see it there.
func (o *outbox) event(c *call, s *Span, kind outputs.Kind, e outputs.Event, extension bool) {
	o.events++
	if o.recorded(s) {
		o.record(c, s, &outputs.Record{Kind: kind, Event: e, Extension: extension})
	}
	if o.spanned(s) {
		c.events = append(c.events, otelEvent{s, e})
	}
}

// entry records the events of the counters, for a span that ended and, if it is
// open, for the training loop. f is the failure, if any: the one of a save is on record
// in these events, but that of an asynchronous save is not an error of the application.
func (o *outbox) entry(c *call, s, loop *Span, f *failure.Failure) {
	for i := range c.entry.Events {
		e := &c.entry.Events[i]
		of, kind := s, outputs.KindEvent
		if e.Loop {
			of = loop
		}
		if e.Error {
			kind = outputs.KindError
			if of.index != phase.Application {
				of.erred(f)
			}
		}
		o.event(c, of, kind, e.Event, e.Extension)
	}
	c.entry.Events = nil
}

// stop records the stop of a span, and returns its end in OpenTelemetry.
func (o *outbox) stop(c *call, s *Span, t int64, attrs []attributes.Attr, f *failure.Failure) otelEnd {
	s.data.Stop = t
	if o.recorded(s) {
		s.data.Attributes = upsert(s.data.Attributes, attrvalue.Int(onelogger.DurationMsec, (t-s.data.Start)/1e6))
		o.edge(c, s, outputs.KindStop, outputs.Event{Name: spans.EventSpanStop, Time: t, Attributes: attrs})
	}
	return otelEnd{span: s, at: t, fail: f}
}

// gap reports to every output, once, that the data is incomplete.
func (o *outbox) gap(c *call, message string, attrs []attributes.Attr) {
	o.gaps++
	o.hub.PushDataError(dispatch.DataError{Message: message, Attributes: attrs, Time: c.now, Once: true})
	c.queued = true
}

// deliver does what a call left to do. The caller does not hold the lock.
func (o *outbox) deliver(c *call) {
	if c.queued {
		o.hub.Drain()
	}
	o.meters.Record(&c.entry.Reading)
	for i := range c.events {
		e := &c.events[i]
		kvs := lent(e.event.Attributes)
		e.span.otel.AddEvent(e.event.Name, trace.WithTimestamp(time.Unix(0, e.event.Time)), trace.WithAttributes(kvs.all()...))
		kvs.release()
		if span, ok := e.span.otel.(sdktrace.ReadWriteSpan); ok {
			o.hub.Event((*contextSpan)(e.span), span, e.event)
		}
	}
	for i := range c.ends {
		c.ends[i].deliver()
	}
	if c.own.span != nil {
		c.own.deliver()
	}
	for i := range c.warnings {
		w := &c.warnings[i]
		o.warn(w.kind, w.text, w.args...)
	}
}

func (e *otelEnd) deliver() {
	s := e.span
	if e.truncated {
		s.truncate()
	}
	if e.fail != nil {
		s.otel.SetStatus(codes.Error, e.fail.Text)
	}
	s.rec.otel.end(s, e.at)
}

// warn logs a warning. A warning with a kind is logged once.
func (o *outbox) warn(kind uint32, text string, args ...any) {
	if kind != 0 && o.logged.kinds.Or(kind)&kind != 0 {
		return
	}
	if s := section(kind); s != "" {
		args = append(args, "see", s)
	}
	o.log.Warn("telemetry: "+text, args...)
}
