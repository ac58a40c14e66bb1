package telemetry

import (
	"context"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// finishAs ends a span with everything that the end of its kind means:
// metrics of an iteration, a loop, a save.
func (r *Recorder) finishAs(s *Span, e End) error {
	v := r.valuesFor(s.index)
	var c call
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return nil
	}
	if s.state != spanOpen {
		r.mu.Unlock()
		return nil
	}
	t, err := r.instantIn(e.Time, e.anyTime)
	if err != nil {
		r.mu.Unlock()
		return r.fail(verbsOf(s.index).end, err)
	}
	t = r.notBefore(s, t)
	problem := r.complete(&c, s, t, e.Err, &v)
	if e.Err != nil && !s.errored {
		c.failure(s, s.recordedError(e.Err, t), s.index >= 0)
	}
	r.stop(&c, s, t, nil, e.Err)
	app := s.index == indexApplication
	r.mu.Unlock()
	r.deliver(&c)
	if problem != nil {
		problem = r.fail(verbsOf(s.index).end, problem)
	}
	if app {
		ctx, cancel := closing()
		defer cancel()
		_ = r.Close(ctx)
	}
	return problem
}

// finishNamed is finishAs for the open span of a name.
func (r *Recorder) finishNamed(index int, e End) error {
	if r == nil {
		return ErrNotConfigured
	}
	r.mu.Lock()
	if err := r.usable(); err != nil {
		r.mu.Unlock()
		return err
	}
	s, err := r.openSpan(index)
	if err != nil && timed(index) {
		err = fmt.Errorf("Cannot stop timer since it is not active")
	}
	r.mu.Unlock()
	if err != nil {
		return r.fail(verbsOf(index).end, err)
	}
	return r.finishAs(s, e)
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
func (r *Recorder) stop(c *call, s *Span, t int64, attrs []attributes.Attr, err error) {
	s.data.Stop = t
	s.data.Attributes = upsert(s.data.Attributes, attributes.Int(attributes.DurationMsec, msec(t-s.data.Start)))
	r.unlink(s)
	if s.native {
		r.export(&Record{
			Kind:      KindStop,
			Span:      &s.data,
			Event:     Event{Name: spans.EventSpanStop, Time: t, Attributes: attrs},
			Extension: s.index >= 0 && spans.At(s.index).Extension,
		})
	}
	c.ends = append(c.ends, otelEnd{s, t, err})
}

// stopByForce stops a span that nobody ended: at the end of the job, or
// through Recorder.Stop. A timed span tells of its timer.
func (r *Recorder) stopByForce(c *call, s *Span, t int64, attrs []attributes.Attr, err error) {
	t = r.notBefore(s, t)
	if timed(s.index) {
		r.state.windows[s.index].stop(t - s.data.Start)
		e := Event{Name: spans.EventError, Time: r.now(), Attributes: []attributes.Attr{
			attributes.String(attributes.ErrorMessage, fmt.Sprintf(forcedTimer, s.data.Name)),
		}}
		c.failure(s, e, false)
	}
	r.stop(c, s, t, attrs, err)
}

// forcedTimer is the reference's message, which log readers match.
const forcedTimer = "Timer for span %s was automatically stopped because the span is being stopped. " +
	"This may indicate that the corresponding on_xxx_end method was not called correctly. " +
	"If the program exited properly, please double-check your on_xxx_end callback. " +
	"If the program exited abnormally (e.g., due to an exception), this is expected."

// closing bounds the shutdown of exporters where the caller gives no context.
func closing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), DefaultShutdownTimeout)
}

// Close stops every open span, the latest first, then shuts the native
// exporters down. Where spans or records go over a network, [Provider.Shutdown]
// does that: until then what is held back is written, and the exporters stay
// open to be told of what got lost on the way. Later calls do nothing. ctx
// bounds the exporters' shutdown.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return ErrNotConfigured
	}
	return r.end(ctx, ErrClosed)
}

// end stops recording for the given reason.
func (r *Recorder) end(ctx context.Context, why error) error {
	if !r.stopAll(why) {
		return nil
	}
	if !r.sends {
		return r.closeSinks(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return flushSinks(r.sinks, r.log)
}

// stopAll stops the open spans, and is the end of recording. It reports whether
// that had not come before.
func (r *Recorder) stopAll(why error) bool {
	var c call
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return false
	}
	now := r.now()
	for s := r.last; s != nil; s = r.last {
		r.stopByForce(&c, s, now, nil, nil)
	}
	r.ended = why
	r.mu.Unlock()
	r.deliver(&c)
	return true
}

// closeSinks shuts the native exporters down, once.
func (r *Recorder) closeSinks(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sinksClosed {
		return nil
	}
	r.sinksClosed = true
	return shutdownSinks(ctx, r.sinks, r.log)
}

func msec(ns int64) int64 { return ns / 1e6 }
