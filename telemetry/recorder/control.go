package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
)

// Control is the provider's side of a [Recorder]: what wires it, what starts
// scopes, and what ends it. A nil Control does nothing.
type Control struct{ r *Recorder }

// Wiring is what a recorder gets to know once the outputs are attached.
type Wiring struct {
	Tracers     trace.TracerProvider // that make the OpenTelemetry spans
	Version     string               // of the instrumentation scope
	Placer      Placer               // nil: a span is in its parent's trace
	Instruments *Instruments         // of the training's metrics, nil for none
	// Steps says that spans of iterations carry epoch and step as attributes.
	Steps bool
	// Closing is called at the end of the application, and when telemetry is
	// switched off; Stopped after the latter.
	Closing func(context.Context) error
	Stopped func()
	// Ending is called before open spans are stopped: scopes that are no spans
	// of the recorder end before what is around them.
	Ending func()
}

// Wire completes the recorder before it is used.
func (c *Control) Wire(w Wiring) {
	r := c.r
	r.tracer = w.Tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(w.Version))
	r.tracers = &tracerProvider{rec: r, inner: w.Tracers}
	r.placer, r.steps, r.closing, r.onStop, r.ending = w.Placer, w.Steps, w.Closing, w.Stopped, w.Ending
}

// SetInstruments sets the instruments of the training's metrics, before the
// recorder is used.
func (c *Control) SetInstruments(m *Instruments) { c.r.meters = m }

// TracerProvider returns the tracer provider whose spans nest with those of the
// recorder.
func (c *Control) TracerProvider() trace.TracerProvider { return c.r.tracers }

// Scope starts the scope of a standard span.
func (c *Control) Scope(ctx context.Context, name string, options []StartOption) (context.Context, *Span) {
	if c == nil || c.silent() {
		return ctx, nil
	}
	r := c.r
	var p startParams
	if err := r.standard(&p, name, options); err != nil {
		err = r.fail(callName{"start", "Start"}, err)
		return ctx, &Span{rec: r, index: -1, state: spanEnded, problem: err}
	}
	p.scoped = true
	ctx, s, _ := r.begin(ctx, &p)
	return ctx, s
}

// Span starts the scope of a span of any name, any number of times at once. A
// standard name keeps its meaning in the trace file, but moves no training
// state. anyTime lifts the window of explicit times.
func (c *Control) Span(ctx context.Context, name string, start SpanStart, anyTime bool) (context.Context, *Span) {
	if c == nil {
		return ctx, nil
	}
	r := c.r
	ctx, s, _ := r.begin(ctx, &startParams{
		name: name, index: -1, scoped: true, at: start.Time, parent: start.Parent, anyTime: anyTime,
		attrs: r.cleanCopy(start.Attributes), starts: r.cleanCopy(start.StartAttributes),
	})
	return ctx, s
}

// Run runs fn with a scope that was started for it, and ends the scope with
// fn's error, which it returns unchanged.
func (s *Span) Run(ctx context.Context, fn func(context.Context) error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		if r := recover(); r != nil {
			s.finish(End{Err: panicError{r}})
			panic(r)
		}
		s.finish(End{Err: errGoexit})
	}()
	err = fn(ctx)
	finished = true
	s.finish(End{Err: err})
	return err
}

// Adopt returns a context without a span the latest span of a callback, else the
// one that the run belongs to.
func (c *Control) Adopt(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	s := c.r.current.Load()
	if s == nil {
		return c.r.joined(ctx)
	}
	return trace.ContextWithSpan(ctx, (*contextSpan)(s))
}

// silent reports whether telemetry is off for good, about which no word is lost.
func (c *Control) silent() bool { return c.r.off.Load() && c.Why() == ErrDisabled }

// Why reports why nothing is recorded any more, nil while it is.
func (c *Control) Why() error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	return c.r.ended
}

// StopAll stops the open spans and ends the recording.
func (c *Control) StopAll() { c.r.stopAll(ErrClosed) }

// Disable switches telemetry off for good.
func (c *Control) Disable() { c.r.disable() }

// Warn logs a warning.
func (c *Control) Warn(text string, args ...any) { c.r.warn(0, text, args...) }

// Training is the training configuration, nil while there is none.
func (c *Control) Training() *config.Training { return c.r.training.Load() }

// SetTraining sets the training configuration of a job that learns it late.
// It can be set once. Without an open application span it is stored, to be
// reported when the application starts, and the call is an error.
func (c *Control) SetTraining(t config.Training) error {
	r := c.r
	name := callName{"set_training_telemetry_config", "SetTrainingConfig"}
	if err := t.Validate(); err != nil {
		return r.fail(name, err)
	}
	t = t.WithDefaults(r.base.ApplicationName)
	content, err := r.trainingEvent(&t)
	if err != nil {
		return r.fail(name, err)
	}
	call := call{now: r.now()}
	err = r.locked(&call, func() error {
		if !r.training.CompareAndSwap(nil, &t) {
			return errTrainingSet
		}
		app, err := r.openSpan(indexApplication)
		if err != nil {
			return errNoApplication
		}
		call.event(app, configRecord(content, call.now), false)
		return nil
	})
	r.deliver(&call)
	switch {
	case err == nil:
		return nil
	case err == ErrClosed || err == ErrDisabled:
		return silent(err)
	}
	return silent(r.fail(name, err))
}

func (r *Recorder) trainingEvent(t *config.Training) (attrs []attributes.Attr, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	return r.clean(configEvent(t).Append(nil)), nil
}

var (
	errTrainingSet   = errors.New("Training telemetry config has already been set.")
	errNoApplication = &worded{
		"the training configuration cannot be reported before the application has started: call OnAppStart first",
		"Cannot update training metrics: Please call on_app_start() before calling this method.",
	}
)

// Stats are the counts of a recorder.
type Stats struct {
	SpansStarted   int64 // spans started, standard and custom
	SpansOpen      int64 // spans open now
	Records        int64 // records made for the outputs
	Events         int64 // events of all spans
	Errors         int64 // misuse and internal errors that the error strategy dealt with
	DataErrors     int64 // gaps found in the telemetry data
	RepairedValues int64 // attribute values shortened or repaired
	RepairedTimes  int64 // ends that lay before their start
}

// Stats returns the counts of this moment.
func (c *Control) Stats() Stats {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	s := c.r.stats
	s.RepairedValues = c.r.repairedValues.Load()
	return s
}

// CountGap counts a gap in the data that was reported without the recorder.
func (c *Control) CountGap() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.stats.DataErrors++
}

// Times are how long a process has been at what.
type Times struct {
	Productive time.Duration // of completed iterations
	Loop       time.Duration // since the start of the first training loop, zero before it
	Startup    time.Duration // until the first iteration was completed, or until now
	Training   bool          // a training loop is open
}

// Times returns those of this moment.
func (c *Control) Times() Times {
	now := c.r.now()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	st := &c.r.state
	t := Times{Productive: time.Duration(st.productive), Startup: time.Duration(max(0, cmp.Or(st.trained, now)-c.r.made))}
	if st.begun != 0 {
		t.Loop = time.Duration(max(0, now-st.begun))
	}
	loop := c.r.byName[indexTraining]
	t.Training = loop != nil && loop.state == spanOpen
	return t
}
