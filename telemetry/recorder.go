package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Recorder starts and stops spans whose start and end are far apart, for integrations
// that replay what another process has recorded. Programs that train use
// [Provider.Start] or package callbacks.
//
// [Provider.Recorder] returns it. All methods are safe for concurrent use. The methods
// of a nil Recorder do nothing, and those that return an error return one.
type Recorder struct {
	// The lock guards state and arithmetic only. Configuration functions, Error
	// methods, span processors, outputs, the clock and the log are foreign code,
	// which is called before the lock is taken or after it is released. The methods
	// of state.go need the lock held, except locked, while, why, succeeds, onRecord, opened
	// and those that read the configuration: values, initEvent and firstEvents.
	off      atomic.Bool // ended is set
	progress *outputs.Progress

	mu    sync.Mutex // see locked
	ended error      // why recording has ended: ErrClosed or errDisabled
	tree  tree
	books spantree.Counters
	out   outbox

	refusedApp bool // the start of an application was refused

	errors, repairedTimes int64 // counts

	// The run, from the configuration.
	base     config.Base
	id       Identity
	training atomic.Pointer[config.Training] // nil while it is unknown

	time     times
	strategy config.ErrorStrategy
	repairs  repairs
	otel     otelSide
	hooks    hooks
}

// hooks are what the provider does when recording ends.
type hooks struct {
	ending  func()                          // before open spans are stopped: ends scopes that are not spans of the recorder, before the spans around them
	closing func(ctx context.Context) error // at the end of the application, and when telemetry is switched off
	stopped func()                          // after telemetry switched itself off
}

// Recording reports whether anything is recorded: r is not nil, and was neither
// switched off nor closed.
func (r *Recorder) Recording() bool { return r != nil && !r.off.Load() }

// times reads the clock and checks explicit times.
type times struct {
	now    func() int64 // nanoseconds since the Unix epoch
	of     func(time.Time) int64
	wall   func() int64  // the wall clock, or nil
	made   int64         // when the recorder was made
	window time.Duration // of explicit times; zero means no window
}

// instant returns an explicit time in nanoseconds, or now.
func (c *times) instant(at time.Time, now int64, anyTime bool) (int64, error) {
	if at.IsZero() {
		return now, nil
	}
	const farthest = 1 << 33 // seconds; beyond it nanoseconds overflow
	if s := at.Unix(); s > farthest || s < -farthest {
		return 0, fmt.Errorf("timestamp %s is out of range", at)
	}
	t := c.of(at)
	switch {
	case c.window <= 0 || anyTime || c.near(t, now) || c.wall != nil && c.near(t, c.wall()):
		return t, nil
	case t < now:
		return 0, errors.New("timestamp is too old. This is meant to be the time in seconds since epoch.")
	}
	return 0, errors.New("timestamp is in the future. This is meant to be the time in seconds since epoch.")
}

// near reports whether a time is in the window around another.
func (c *times) near(t, now int64) bool {
	return uint64(max(t, now))-uint64(min(t, now)) <= uint64(c.window) // the difference may need 64 bits
}

// fail applies the error strategy to a problem of a call: the outputs get their
// telemetry data error, and either the problem is returned or telemetry ends
// quietly.
func (r *Recorder) fail(name phase.Call, problem error) error {
	message := fmt.Sprintf("Exception in telemetry code when calling %s: %s", name.Record, failure.RecordText(problem))
	c := call{now: r.time.now()}
	if r.while(func() error {
		r.errors++
		r.out.gap(&c, message, nil)
		return nil
	}) != nil {
		return nil
	}
	r.out.deliver(&c)
	if r.strategy == config.DisableQuietly {
		r.out.log.Error("telemetry is disabled after a fatal error", "call", name.Text, "error", failure.Text(problem), "see", helptopic.Refused)
		r.disable()
		return nil
	}
	r.out.misuse(name.Text, failure.Text(problem))
	return problem
}

// disable switches telemetry off permanently: open spans are stopped, held
// records are written, and every output is closed; in the background if
// something has to be sent over a network first.
func (r *Recorder) disable() {
	if !r.stopAll(errDisabled) {
		return
	}
	if r.hooks.closing != nil {
		_ = r.hooks.closing(context.Background()) // logged where it happens
	}
	if r.hooks.stopped != nil {
		r.hooks.stopped()
	}
}

// Close stops every open span, the latest first, and closes the outputs. If
// spans or records go over a network, they are flushed instead and stay open
// until [Provider.Shutdown], so that the report of losses is complete. Later
// calls do nothing.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return errNotConfigured
	}
	if r.stopAll(ErrClosed) && r.hooks.closing != nil {
		return r.hooks.closing(ctx)
	}
	return nil
}

// stopAll stops the open spans and ends the recording. It reports whether the
// recording was still open.
func (r *Recorder) stopAll(why error) (stopped bool) {
	if r.hooks.ending != nil && r.Recording() {
		r.hooks.ending()
	}
	c := call{now: r.time.now()}
	r.locked(func() { stopped = r.stopOpen(&c, why) })
	if stopped {
		r.out.deliver(&c)
	}
	return stopped
}

// ActiveSpans returns the open spans with a name in the order of their start,
// and all open spans for an empty name.
func (r *Recorder) ActiveSpans(name string) (open []*Span) {
	if r != nil {
		r.locked(func() { open = r.tree.list(name) })
	}
	return open
}

// Current returns the span under which a callback without a context would start
// its span, or nil.
func (r *Recorder) Current() *Span {
	if r == nil {
		return nil
	}
	return r.tree.current.Load()
}

// lifetime runs a function once, for any number of callers, who all wait for
// it until their contexts are done.
type lifetime struct {
	state atomic.Pointer[life]
}

type life struct {
	done chan struct{}
	err  error
}

func (l *lifetime) end(ctx context.Context, f func() error) (err error) {
	mine := &life{done: make(chan struct{})}
	if !l.state.CompareAndSwap(nil, mine) {
		other := l.state.Load()
		select {
		case <-other.done:
			return other.err
		case <-ctx.Done():
			return fmt.Errorf("telemetry: another call has not closed the outputs yet: %w", ctx.Err())
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: shutdown panicked: %v", p)
		}
		mine.err = err
		close(mine.done)
	}()
	return f()
}

// finish ends a span with everything that the end of its kind requires: metrics
// of an iteration, a loop, a save. It completes e.
func (r *Recorder) finish(s *Span, e *finishing) error {
	var v spantree.Values
	switch s.index {
	case phase.Iteration, phase.SaveSync, phase.SaveAsync, phase.Training:
		v = r.values(false)
	}
	if s.index == phase.Application && r.hooks.ending != nil && r.Recording() && s.Active() {
		if _, wrong := r.time.instant(e.Time, r.time.now(), e.anyTime); wrong == nil { // the end is not refused
			r.hooks.ending()
		}
	}
	c := call{now: r.time.now()}
	e.at, e.wrong = r.time.instant(e.Time, c.now, e.anyTime)
	e.failure, e.known = r.repairs.describe(e.Err, 2), r.onRecord(s, e.Err)
	var problem error
	last := false // the end of this span ends the recording
	r.locked(func() {
		var ended bool
		ended, problem = r.end(&c, s, e, &v)
		if last = ended && s.index == phase.Application; last {
			// The end of the application ends all open spans below it.
			r.stopOpen(&c, ErrClosed)
		}
	})
	r.out.deliver(&c)
	switch {
	case last && r.hooks.closing != nil:
		_ = r.hooks.closing(context.Background()) // logged where it happens; not a result of this call
	case problem != nil && !last:
		return r.fail(phase.CallsOf(s.index).End, problem)
	}
	return nil
}
