package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// contextSpan is the view of a Span that contexts carry: the OpenTelemetry
// API over it, so that what is done through that API reaches the native
// exporters too.
type contextSpan Span

var _ trace.Span = (*contextSpan)(nil)

func (c *contextSpan) owner() *Span { return (*Span)(c) }

// End implements trace.Span.
func (c *contextSpan) End(options ...trace.SpanEndOption) {
	if r := recover(); r != nil {
		defer panic(r)
		c.owner().RecordError(panicError{r})
	}
	cfg := trace.NewSpanEndConfig(options...)
	c.owner().finish(End{Time: cfg.Timestamp(), anyTime: true})
}

// AddEvent implements trace.Span.
func (c *contextSpan) AddEvent(name string, options ...trace.EventOption) {
	s := c.owner()
	cfg, at := eventConfig(options)
	attrs := s.rec.cleanCopy(attributes.From(cfg.Attributes()...))
	_ = s.rec.record(s, "event", at, true, func(c *call, t int64) {
		c.event(s, Event{Name: name, Time: t, Attributes: attrs}, false)
	})
}

// unset is a time that nobody gives.
var unset = time.Unix(1, 1)

// eventConfig is what the options say. The time is zero when they give none,
// so that the provider's clock is asked and not the system's.
func eventConfig(options []trace.EventOption) (trace.EventConfig, time.Time) {
	all := make([]trace.EventOption, 0, len(options)+1)
	cfg := trace.NewEventConfig(append(append(all, trace.WithTimestamp(unset)), options...)...)
	if cfg.Timestamp().Equal(unset) {
		return cfg, time.Time{}
	}
	return cfg, cfg.Timestamp()
}

// AddLink implements trace.Span.
func (c *contextSpan) AddLink(link trace.Link) { c.otel.AddLink(link) }

// IsRecording implements trace.Span.
func (c *contextSpan) IsRecording() bool { return c.owner().Active() }

// RecordError implements trace.Span.
func (c *contextSpan) RecordError(err error, options ...trace.EventOption) {
	if err == nil {
		return
	}
	s := c.owner()
	cfg, at := eventConfig(options)
	s.rec.recordError(s, errorText(err), err, at, cfg.Attributes())
}

// SpanContext implements trace.Span.
func (c *contextSpan) SpanContext() trace.SpanContext { return c.otel.SpanContext() }

// SetStatus implements trace.Span. An error status is an error for native
// exporters unless one was recorded before.
func (c *contextSpan) SetStatus(code codes.Code, description string) {
	c.otel.SetStatus(code, description)
	if code == codes.Error {
		c.owner().rec.statusError(c.owner(), description)
	}
}

// SetName implements trace.Span. It does not make a custom span a standard one.
func (c *contextSpan) SetName(name string) {
	c.otel.SetName(name)
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	c.data.Name = name
}

// SetAttributes implements trace.Span.
func (c *contextSpan) SetAttributes(kv ...attribute.KeyValue) { c.owner().SetAttributes(kv...) }

// TracerProvider implements trace.Span.
func (c *contextSpan) TracerProvider() trace.TracerProvider { return c.rec.tracers }

// statusError records the error that a status stands for.
func (r *Recorder) statusError(s *Span, description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.state != spanOpen || s.errored {
		return
	}
	s.errored = true
	r.exportEvent(s, KindError, Event{
		Name:       spans.EventError,
		Time:       r.now(),
		Attributes: errorAttributes(description, nil, 0),
	}, false)
}
