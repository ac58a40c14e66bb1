package recorder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// finish ends a span with everything that the end of its kind means: metrics
// of an iteration, a loop, a save.
func (r *Recorder) finish(s *Span, e End) error {
	v := r.valuesFor(s.index)
	if s.index == indexApplication && r.ending != nil && r.Recording() && s.Active() {
		r.ending()
	}
	c := call{now: r.now()}
	f, known := r.failureOf(s, e.Err, 2)
	problem, refused := r.finishLocked(&c, s, e, f, known, &v)
	if refused || s.index != indexApplication {
		r.deliver(&c)
		if problem != nil {
			problem = r.fail(namesOf(s.index).end, problem)
		}
		return problem
	}
	// The end of the application is the end of what is open below it: in
	// OpenTelemetry a parent ends last.
	r.stopLocked(&c, ErrClosed)
	c.ends = append(c.ends[1:], c.ends[0])
	r.deliver(&c)
	if r.closing != nil {
		_ = r.closing(context.Background()) // logged where it happens: no outcome of this call
	}
	return nil
}

// finishLocked is the part of finish under the lock. known reports that an error
// record of the failure was written for a span below.
func (r *Recorder) finishLocked(c *call, s *Span, e End, f *failure, known bool, v *values) (problem error, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil || s.state != spanOpen {
		if s.state == spanEnded && r.ended == nil && !e.again {
			c.warn(warnSecondEnd, "a span was ended twice; the second end has no effect", "span", s.data.Name)
		}
		return nil, true
	}
	t, err := r.instant(e.Time, c.now, e.anyTime)
	if err != nil {
		return err, true
	}
	t = r.notBefore(s, t)
	problem = r.complete(c, s, t, f, v)
	if f != nil && !s.errored && !known {
		c.failure(s, f.event("Error in "+s.data.Name+": ", t), s.index >= 0)
	}
	if f != nil && s.parent != nil {
		s.parent.inner = f.err
	}
	r.stop(c, s, t, nil, f)
	return problem, false
}

// finishNamed is finish for the open span of a name.
func (r *Recorder) finishNamed(index int, e End) error {
	if r == nil {
		return ErrNotConfigured
	}
	s, err := r.named(index)
	switch {
	case err == nil:
		return r.finish(s, e)
	case err == ErrClosed || err == ErrDisabled:
		return err
	case timed(index):
		err = errors.New("Cannot stop timer since it is not active")
	}
	return r.fail(namesOf(index).end, err)
}

func (r *Recorder) named(index int) (*Span, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return nil, r.ended
	}
	return r.openSpan(index)
}

// notBefore keeps an end from lying before its start: a clock that was set
// back gives a span without length, which is counted.
func (r *Recorder) notBefore(s *Span, t int64) int64 {
	if t < s.data.Start {
		r.stats.RepairedTimes++
		s.repaired = true
		return s.data.Start
	}
	return t
}

// stop writes the stop record and takes the span off the open ones.
func (r *Recorder) stop(c *call, s *Span, t int64, attrs []attributes.Attr, f *failure) {
	s.data.Stop = t
	r.unlink(s)
	if s.mask != 0 {
		s.data.Attributes = upsert(s.data.Attributes, attributes.Int(attributes.DurationMsec, msec(t-s.data.Start)))
		r.export(c, s, &outputs.Record{
			Kind:      outputs.KindStop,
			Event:     outputs.Event{Name: spans.EventSpanStop, Time: t, Attributes: attrs},
			Extension: s.index >= 0 && spans.At(s.index).Extension,
		})
	}
	c.ends = append(c.ends, otelEnd{span: s, at: t, fail: f})
}

// truncate marks a span in OpenTelemetry that the end of the recording stopped.
// An attribute of the program's with that key gets the prefix "user_".
func (s *Span) truncate() {
	s.rec.mu.Lock()
	i := slices.IndexFunc(s.data.Attributes, func(a attributes.Attr) bool { return a.Key == attributes.Truncated })
	var before []attribute.KeyValue
	if i >= 0 {
		before = attributes.AppendOTel(nil, s.data.Attributes[i:i+1])
	}
	s.rec.mu.Unlock()
	for _, kv := range before {
		s.otel.SetAttributes(attribute.KeyValue{Key: "user_" + kv.Key, Value: kv.Value})
	}
	s.otel.SetAttributes(attribute.Int(attributes.Truncated, 1))
}

// stopByForce stops a span that nobody ended: at the end of the job, or
// through Recorder.Stop. A timed span says so of its timer.
func (r *Recorder) stopByForce(c *call, s *Span, t int64, attrs []attributes.Attr, f *failure) {
	t = r.notBefore(s, t)
	if timed(s.index) {
		r.state.windows[s.index].stop(t - s.data.Start)
		e := outputs.Event{Name: spans.EventError, Time: c.now, Attributes: []attributes.Attr{
			attributes.String(attributes.ErrorMessage, fmt.Sprintf(forcedTimer, s.data.Name)),
		}}
		c.failure(s, e, false)
	}
	r.stop(c, s, t, attrs, f)
}

// forcedTimer is the reference's message, which log readers match.
const forcedTimer = "Timer for span %s was automatically stopped because the span is being stopped. " +
	"This may indicate that the corresponding on_xxx_end method was not called correctly. " +
	"If the program exited properly, please double-check your on_xxx_end callback. " +
	"If the program exited abnormally (e.g., due to an exception), this is expected."

// Close stops every open span, the latest first, and closes the outputs.
// Where spans or records go over a network they are flushed instead and stay
// open until the provider's Shutdown, to get a report of what was lost on the way.
// Later calls do nothing.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return ErrNotConfigured
	}
	if r.stopAll(ErrClosed) && r.closing != nil {
		return r.closing(ctx)
	}
	return nil
}

// stopAll stops the open spans, and is the end of recording. It reports whether
// that had not come before.
func (r *Recorder) stopAll(why error) bool {
	if r.ending != nil && r.Recording() {
		r.ending()
	}
	c := call{now: r.now()}
	if !r.stopLocked(&c, why) {
		return false
	}
	r.deliver(&c)
	return true
}

func (r *Recorder) stopLocked(c *call, why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return false
	}
	for s := r.last; s != nil; s = r.last {
		r.stopByForce(c, s, c.now, nil, nil)
		c.ends[len(c.ends)-1].truncated = true
	}
	r.ended = why
	r.off.Store(true)
	return true
}

func msec(ns int64) int64 { return ns / 1e6 }
