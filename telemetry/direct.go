package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// Start starts a span of any name. A standard name may be open only once, and
// a standard span with a timer cannot be started by hand: its callback or
// scope does that. The span stays the parent of what is started without a
// context until it is stopped.
func (r *Recorder) Start(ctx context.Context, name string, p SpanStart) (context.Context, *Span, error) {
	ctx, s, err := r.begin(ctx, &startParams{
		name: name, index: spans.Index(name), at: p.Time, parent: p.Parent,
		ambient: true, byHand: true, attrs: r.cleanCopy(p.Attributes), starts: r.cleanCopy(p.StartAttributes),
		values: r.values(true),
	})
	return ctx, s, off(err)
}

// Stop stops a span. A span that is not open is an error.
func (r *Recorder) Stop(s *Span, p SpanStop) error {
	if r == nil {
		return ErrNotConfigured
	}
	attrs := r.cleanCopy(p.StopAttributes)
	var c call
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return off(r.ended)
	}
	t, err := r.instant(p.Time)
	if err == nil && (s == nil || s.rec != r || s.state != spanOpen) {
		err = fmt.Errorf("Span %s not found", s.ID())
	}
	if err == nil {
		if p.Err != nil && !s.errored {
			c.failure(s, s.recordedError(p.Err, t), s.index >= 0)
		}
		r.stopByForce(&c, s, t, attrs, p.Err)
	}
	r.mu.Unlock()
	r.deliver(&c)
	if err != nil {
		return r.fail("stop", err)
	}
	return nil
}

// Event records an event of an open span: now, or at the given time.
func (r *Recorder) Event(s *Span, name string, attrs []attributes.Attr, at time.Time) error {
	return r.record(s, "event", at, false, func(c *call, t int64) {
		c.event(s, Event{Name: name, Time: t, Attributes: r.cleanCopy(attrs)}, false)
	})
}

// Error records an error of an open span. cause may be nil.
func (r *Recorder) Error(s *Span, message string, cause error) error {
	attrs := r.clean(errorAttributes(message, cause, 1))
	return r.record(s, "error", time.Time{}, false, func(c *call, t int64) {
		c.failure(s, Event{Name: spans.EventError, Time: t, Attributes: attrs}, false)
	})
}

// recordError is Error for the OpenTelemetry API.
func (r *Recorder) recordError(s *Span, message string, cause error, at time.Time, extra []attribute.KeyValue) {
	attrs := r.clean(attributes.AppendKeyValues(errorAttributes(message, cause, 2), extra))
	_ = r.record(s, "error", at, true, func(c *call, t int64) {
		c.failure(s, Event{Name: spans.EventError, Time: t, Attributes: attrs}, false)
	})
}

// record does something with an open span. anyTime lifts the window of
// explicit times, which the plain OpenTelemetry API does not have.
func (r *Recorder) record(s *Span, fn string, at time.Time, anyTime bool, do func(c *call, t int64)) error {
	if r == nil {
		return ErrNotConfigured
	}
	var c call
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return off(r.ended)
	}
	t, err := r.instantIn(at, anyTime)
	if err == nil && (s == nil || s.rec != r || s.state != spanOpen) {
		err = fmt.Errorf("Cannot add an event to a span that is not running.")
	}
	if err == nil {
		do(&c, t)
	}
	r.mu.Unlock()
	r.deliver(&c)
	if err != nil {
		return r.fail(fn, err)
	}
	return nil
}

// TelemetryDataError reports that the telemetry data has a gap. Each exporter
// takes only one such report; later ones are counted.
func (r *Recorder) TelemetryDataError(message string, attrs []attributes.Attr) error {
	if r == nil {
		return ErrNotConfigured
	}
	attrs = r.cleanCopy(attrs)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return off(r.ended)
	}
	r.reportDataError(message, attrs)
	return nil
}

// ActiveSpans lists the open spans of a name in the order of their start; all
// open spans for the empty name.
func (r *Recorder) ActiveSpans(name string) []*Span {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var open []*Span
	for s := r.first; s != nil; s = s.next {
		if name == "" || s.data.Name == name {
			open = append(open, s)
		}
	}
	return open
}

// Current is the span under which a callback without a context would start
// its span, or nil.
func (r *Recorder) Current() *Span {
	if r == nil {
		return nil
	}
	return r.current.Load()
}

// SetTraining sets the training configuration of a job that learns it late.
// It can be set once. Without an open application span it is stored, to be
// reported when the application starts, and the call is an error.
func (r *Recorder) SetTraining(t config.Training) error {
	if r == nil {
		return ErrNotConfigured
	}
	const fn = "set_training_telemetry_config"
	if err := t.Validate(); err != nil {
		return r.fail(fn, err)
	}
	t = t.WithDefaults(r.base.ApplicationName)
	content := r.clean(configEvent(&t).Append(nil))
	var c call
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return off(r.ended)
	}
	err := errTrainingSet
	if r.training.CompareAndSwap(nil, &t) {
		var app *Span
		if app, err = r.openSpan(indexApplication); err == nil {
			c.event(app, r.configRecord(content), false)
		} else {
			err = errNoApplication
		}
	}
	r.mu.Unlock()
	r.deliver(&c)
	if err != nil {
		return r.fail(fn, err)
	}
	return nil
}

var (
	errTrainingSet   = fmt.Errorf("Training telemetry config has already been set.")
	errNoApplication = fmt.Errorf("Cannot update training metrics: Please call on_app_start() before calling this method.")
)

// cleanCopy is clean for a slice that stays the caller's. Of a key that comes
// twice the last value counts, in the place of the first.
func (r *Recorder) cleanCopy(attrs []attributes.Attr) []attributes.Attr {
	if len(attrs) == 0 || r == nil {
		return nil
	}
	own := make([]attributes.Attr, 0, len(attrs))
	for _, a := range attrs {
		own = upsert(own, a)
	}
	return r.clean(own)
}

// off turns "telemetry is disabled" into no error at all: it is what the user
// asked for, or was told of before.
func off(err error) error {
	if err == ErrDisabled {
		return nil
	}
	return err
}
