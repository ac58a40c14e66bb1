package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
)

// Start starts a span of any name. Only one span of a standard name may be open. A
// standard span with a timer cannot be started with Start: use its callback or
// scope. The span is the parent of what is started without a context
// until it is stopped.
func (r *Recorder) Start(ctx context.Context, name string, p SpanStart) (context.Context, *Span, error) {
	if r == nil {
		return ctx, nil, errNotConfigured
	}
	ctx, s, err := r.begin(ctx, &startParams{
		name: name, index: spans.Index(name), at: p.Time, parent: p.Parent,
		ambient: true, byHand: true, attrs: r.repairs.cleanCopy(p.Attributes), starts: r.repairs.cleanCopy(p.StartAttributes),
		values: r.values(true),
	})
	return ctx, s, ignoreOff(err)
}

// Stop stops a span, with attributes of its stop event. A span that is not open is
// an error.
func (r *Recorder) Stop(s *Span, e End, stops ...attributes.Attr) error {
	if r == nil {
		return errNotConfigured
	}
	attrs := r.repairs.cleanCopy(stops)
	f, known := r.repairs.describe(e.Err, 1), r.onRecord(s, e.Err)
	return r.record(s, "stop", e.Time, false, func(c *call, t int64) {
		if f != nil && !known && !s.erredLike(f) {
			r.out.event(c, s, outputs.KindError, f.Event("Error in "+s.data.Name+": ", t), s.index >= 0)
		}
		r.stopByForce(c, s, t, attrs, f)
	})
}

// Event records an event of an open span: now, or at a given time.
func (r *Recorder) Event(s *Span, name string, attrs []attributes.Attr, at time.Time) error {
	if r == nil {
		return errNotConfigured
	}
	attrs = r.repairs.withoutSecrets(attrs)
	return r.record(s, "event", at, false, func(c *call, t int64) {
		r.out.event(c, s, outputs.KindEvent, outputs.Event{Name: name, Time: t, Attributes: attrs}, false)
	})
}

// Error records an error of an open span. cause may be nil.
func (r *Recorder) Error(s *Span, message string, cause error) error {
	if r == nil {
		return errNotConfigured
	}
	f := r.repairs.describe(cause, 1)
	return r.record(s, "error", time.Time{}, false, func(c *call, t int64) {
		r.out.event(c, s, outputs.KindError, f.Event(message, t), false)
		s.erred(f)
	})
}

// TelemetryDataError reports that the telemetry data has a gap. Each output
// gets only one such report; later ones are counted.
func (r *Recorder) TelemetryDataError(message string, attrs []attributes.Attr) error {
	if r == nil {
		return errNotConfigured
	}
	attrs = r.repairs.cleanCopy(attrs)
	c := call{now: r.time.now()}
	err := r.while(func() error {
		r.out.gap(&c, message, attrs)
		return nil
	})
	r.out.deliver(&c)
	return ignoreOff(err)
}

// addEvent is Event for handles: after the end of the span it does nothing, as
// in OpenTelemetry, and the window of explicit times is not checked.
func (s *Span) addEvent(name string, attrs []attributes.Attr, at time.Time) {
	r := s.rec
	attrs = r.repairs.withoutSecrets(attrs)
	_ = r.record(s, "", at, true, func(c *call, t int64) {
		r.out.event(c, s, outputs.KindEvent, outputs.Event{Name: name, Time: t, Attributes: attrs}, false)
	})
}

// recordError is Error for handles. If fails is set, the span ends with the error unless
// its end has another.
func (s *Span) recordError(message string, cause error, at time.Time, extra []attribute.KeyValue, fails bool) {
	r := s.rec
	f := r.repairs.describe(cause, 2)
	f.Attrs = r.repairs.withExtra(f.Attrs, extra)
	_ = r.record(s, "", at, true, func(c *call, t int64) {
		r.out.event(c, s, outputs.KindError, f.Event(message, t), false)
		if s.erred(f); fails {
			s.rare.failed = f
		}
		if s.parent != nil {
			s.parent.failing().inner = cause
		}
	})
}

// record calls do for an open span. anyTime lifts the window of explicit times.
// If name is empty, a span that has ended is not a problem.
func (r *Recorder) record(s *Span, name string, at time.Time, anyTime bool, do func(c *call, t int64)) error {
	c := call{now: r.time.now()}
	t, wrong := r.time.instant(at, c.now, anyTime)
	err := r.while(func() error {
		if wrong != nil {
			return wrong
		}
		if s == nil || s.rec != r || s.state != spanOpen {
			if name == "stop" {
				return fmt.Errorf("Span %s not found", s.id())
			}
			return errNotRunning
		}
		do(&c, t)
		return nil
	})
	r.out.deliver(&c)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed) || errors.Is(err, errDisabled):
		return ignoreOff(err)
	case name == "" && errors.Is(err, errNotRunning):
		return nil
	}
	return r.fail(phase.Call{Record: name, Text: name}, err)
}
