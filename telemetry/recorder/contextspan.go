package recorder

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// contextSpan is the view of a Span that contexts carry: the OpenTelemetry
// API over it, so that what is done through that API reaches the records too.
// What that API does after the end of a span does nothing, as it says.
type contextSpan Span

var _ trace.Span = (*contextSpan)(nil)

func (c *contextSpan) owner() *Span { return (*Span)(c) }

// Above is the span above, as contexts carry it, or nil. A [Placer] follows it.
func (c *contextSpan) Above() trace.Span {
	if c.parent == nil {
		return nil
	}
	return (*contextSpan)(c.parent)
}

// End implements trace.Span.
func (c *contextSpan) End(options ...trace.SpanEndOption) {
	if r := recover(); r != nil {
		defer panic(r)
		c.owner().RecordError(panicError{r})
	}
	cfg := trace.NewSpanEndConfig(options...)
	c.owner().finish(End{Time: cfg.Timestamp(), anyTime: true, again: true})
}

// AddEvent implements trace.Span.
func (c *contextSpan) AddEvent(name string, options ...trace.EventOption) {
	cfg, at := eventConfig(options)
	c.rec.addEvent(c.owner(), name, attributes.From(cfg.Attributes()...), at)
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
	cfg, at := eventConfig(options)
	c.rec.recordError(c.owner(), errorText(err), err, at, cfg.Attributes())
}

// SpanContext implements trace.Span.
func (c *contextSpan) SpanContext() trace.SpanContext { return c.otel.SpanContext() }

// SetStatus implements trace.Span. An error status is an error in the records
// unless one was recorded before.
func (c *contextSpan) SetStatus(code codes.Code, description string) {
	c.otel.SetStatus(code, description)
	if code == codes.Error {
		c.rec.statusError(c.owner(), description)
	}
}

// SetName implements trace.Span. It does not make a custom span a standard one.
func (c *contextSpan) SetName(name string) {
	c.otel.SetName(name)
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	if c.state == spanOpen {
		c.data.Name = name
	}
}

// SetAttributes implements trace.Span.
func (c *contextSpan) SetAttributes(kv ...attribute.KeyValue) { c.owner().SetAttributes(kv...) }

// TracerProvider implements trace.Span.
func (c *contextSpan) TracerProvider() trace.TracerProvider { return c.rec.tracers }

// statusError records the error that a status stands for.
func (r *Recorder) statusError(s *Span, description string) {
	c := call{now: r.now()}
	none := (*failure)(nil)
	_ = r.locked(&c, func() error {
		if s.state != spanOpen || s.errored {
			return nil
		}
		s.errored = true
		r.exportEvent(&c, s, outputs.KindError, none.event(description, c.now), false)
		return nil
	})
	r.deliver(&c)
}
