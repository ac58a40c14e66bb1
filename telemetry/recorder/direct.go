package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
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
	f, known := r.failureOf(s, p.Err, 1)
	return r.record(s, "stop", p.Time, false, func(c *call, t int64) {
		if f != nil && !s.errored && !known {
			c.failure(s, f.event("Error in "+s.data.Name+": ", t), s.index >= 0)
		}
		r.stopByForce(c, s, t, attrs, f)
	})
}

// Event records an event of an open span: now, or at the given time.
func (r *Recorder) Event(s *Span, name string, attrs []attributes.Attr, at time.Time) error {
	attrs = r.cleanCopy(attrs)
	return r.record(s, "event", at, false, func(c *call, t int64) {
		c.event(s, outputs.Event{Name: name, Time: t, Attributes: attrs}, false)
	})
}

// Error records an error of an open span. cause may be nil.
func (r *Recorder) Error(s *Span, message string, cause error) error {
	f := r.describe(cause, 1)
	return r.record(s, "error", time.Time{}, false, func(c *call, t int64) {
		c.failure(s, f.event(message, t), false)
	})
}

// addEvent is Event for handles: after the end of the span it does nothing, as
// in OpenTelemetry, and there is no window of explicit times.
func (r *Recorder) addEvent(s *Span, name string, attrs []attributes.Attr, at time.Time) {
	attrs = r.cleanCopy(attrs)
	_ = r.record(s, "", at, true, func(c *call, t int64) {
		c.event(s, outputs.Event{Name: name, Time: t, Attributes: attrs}, false)
	})
}

// recordError is Error for handles.
func (r *Recorder) recordError(s *Span, message string, cause error, at time.Time, extra []attribute.KeyValue) {
	f := r.describe(cause, 2)
	f.attrs = r.withExtra(f.attrs, extra)
	_ = r.record(s, "", at, true, func(c *call, t int64) {
		c.failure(s, f.event(message, t), false)
		if s.parent != nil {
			s.parent.inner = cause
		}
	})
}

// withExtra adds the program's attributes of an error, as many as a span keeps;
// what is left out counts as a repaired value. Those with a key of ours get the
// prefix "user_".
func (r *Recorder) withExtra(attrs []attributes.Attr, extra []attribute.KeyValue) []attributes.Attr {
	for _, a := range r.cleanCopy(attributes.From(extra...)) {
		if len(attrs) >= maxAttributes {
			r.repairedValues.Add(1)
			continue
		}
		for a.Key == attributes.ErrorMessage || has(attrs, a.Key) {
			a.Key = "user_" + a.Key
		}
		attrs = append(attrs, a)
	}
	return attrs
}

var errNotRunning = errors.New("Cannot add an event to a span that is not running.")

// record does something with an open span. anyTime lifts the window of
// explicit times. Without a name for the call, a span that has ended is no
// problem.
func (r *Recorder) record(s *Span, name string, at time.Time, anyTime bool, do func(c *call, t int64)) error {
	if r == nil {
		return ErrNotConfigured
	}
	c := call{now: r.now()}
	t, wrong := r.instant(at, c.now, anyTime)
	err := r.locked(&c, func() error {
		if wrong != nil {
			return wrong
		}
		if s == nil || s.rec != r || s.state != spanOpen {
			if name == "stop" {
				return fmt.Errorf("Span %s not found", s.ID())
			}
			return errNotRunning
		}
		do(&c, t)
		return nil
	})
	r.deliver(&c)
	switch {
	case err == nil:
		return nil
	case err == ErrClosed || err == ErrDisabled:
		return off(err)
	case name == "" && err == errNotRunning:
		return nil
	}
	return r.fail(callName{name, name}, err)
}

// locked runs do under the lock, unless recording has ended.
func (r *Recorder) locked(_ *call, do func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return r.ended
	}
	return do()
}

// TelemetryDataError reports that the telemetry data has a gap. Each output
// takes only one such report; later ones are counted.
func (r *Recorder) TelemetryDataError(message string, attrs []attributes.Attr) error {
	if r == nil {
		return ErrNotConfigured
	}
	attrs = r.cleanCopy(attrs)
	c := call{now: r.now(), queued: true}
	err := r.locked(&c, func() error {
		r.gap(&c, message, attrs)
		return nil
	})
	r.deliver(&c)
	return off(err)
}

// gap reports to every output, once, that the data is incomplete. The lock is
// held.
func (r *Recorder) gap(c *call, message string, attrs []attributes.Attr) {
	r.stats.DataErrors++
	r.hub.PushGap(message, attrs, c.now)
	c.queued = true
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

// cleanCopy is clean for a slice that stays the caller's. Of a key that comes
// twice the last value counts, in the place of the first.
func (r *Recorder) cleanCopy(attrs []attributes.Attr) []attributes.Attr {
	if len(attrs) == 0 || r == nil {
		return nil
	}
	// Cleaned first: two keys may be equal once they are repaired.
	all := r.clean(slices.Clone(attrs))
	own := all[:0]
next:
	for _, a := range all {
		for i := range own {
			if own[i].Key == a.Key {
				own[i] = a
				continue next
			}
		}
		if len(own) == maxAttributes {
			r.repairedValues.Add(1)
			continue
		}
		own = append(own, a)
	}
	return own
}

// off turns "telemetry is disabled" into no error at all: it is what the user
// asked for, or was told before.
func off(err error) error {
	if err == ErrDisabled {
		return nil
	}
	return err
}

// silent hides that telemetry is off: to the training loop that is no error.
func silent(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDisabled) || errors.Is(err, ErrNotConfigured) {
		return nil
	}
	return err
}
