package telemetry

import (
	"errors"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

var _ trace.Span = (*contextSpan)(nil)

// End implements trace.Span.
func (c *contextSpan) End(options ...trace.SpanEndOption) {
	if r := recover(); r != nil {
		defer panic(r)
		c.owner().Fail(failure.Panic{Value: r})
	}
	cfg := trace.NewSpanEndConfig(options...)
	c.owner().finish(End{Time: cfg.Timestamp(), anyTime: true, again: true})
}

// AddEvent implements trace.Span.
func (c *contextSpan) AddEvent(name string, options ...trace.EventOption) {
	cfg, at := eventConfig(options)
	c.owner().addEvent(name, attributes.From(cfg.Attributes()...), at)
}

// unset is a time that no caller sets.
var unset = time.Unix(1, 1)

// eventConfig returns the configuration of the options. The time is zero if
// they have none, so that the provider's clock is used instead of the system's.
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
	c.owner().recordError(failure.Text(err), err, at, cfg.Attributes(), false)
}

// SpanContext implements trace.Span.
func (c *contextSpan) SpanContext() trace.SpanContext { return c.otel.SpanContext() }

// SetStatus implements trace.Span. An error status becomes an error in the
// records unless one was recorded just before, and makes the span a failure. After
// Ok it has no effect, as in OpenTelemetry.
func (c *contextSpan) SetStatus(code codes.Code, description string) {
	if code != codes.Error {
		c.otel.SetStatus(code, description)
		if code == codes.Ok {
			c.rec.locked(func() {
				c.settled = true
				if c.rare != nil {
					c.rare.failed = nil
				}
			})
		}
		return
	}
	description = failure.Clean(description)
	c.otel.SetStatus(code, description)
	c.owner().statusError(description)
}

// SetName implements trace.Span. It does not make a custom span a standard one.
func (c *contextSpan) SetName(name string) {
	c.otel.SetName(name)
	c.rec.locked(func() {
		if c.state == spanOpen {
			c.data.Name = name
		}
	})
}

// SetAttributes implements trace.Span.
func (c *contextSpan) SetAttributes(kv ...attribute.KeyValue) { c.owner().SetAttributes(kv...) }

// TracerProvider implements trace.Span.
func (c *contextSpan) TracerProvider() trace.TracerProvider { return c.rec.otel.tracers }

// statusError records the error of a status.
func (s *Span) statusError(description string) {
	r := s.rec
	f := r.repairs.describe(errors.New(description), 2)
	c := call{now: r.time.now()}
	_ = r.while(func() error {
		if s.state != spanOpen || s.settled {
			return nil
		}
		of := s.rarely()
		if of.last != nil && of.last.Text == f.Text { // usually recorded before, with its type
			f = of.last
		}
		if !of.erred || of.asOf != r.tree.started {
			n := len(c.events)
			r.out.event(&c, s, outputs.KindError, (*failure.Failure)(nil).Event(description, c.now), false)
			c.events = c.events[:n] // OpenTelemetry has the status already
			s.erred(f)
		}
		of.failed = f
		return nil
	})
	r.out.deliver(&c)
}
