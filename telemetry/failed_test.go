package telemetry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// failing are the ways in which a program reports that a span failed, and one in which it
// does not.
var failing = []struct {
	name   string
	fails  bool
	errors int // records
	end    func(*telemetry.Span, trace.Span)
}{
	{"EndErr", true, 1, func(s *telemetry.Span, _ trace.Span) { s.EndErr(&errGoneVariable) }},
	{"Fail", true, 1, func(s *telemetry.Span, _ trace.Span) { s.Fail(errGone); s.End() }},
	{"Fail and EndErr", true, 1, func(s *telemetry.Span, _ trace.Span) { s.Fail(errGone); s.EndErr(&errGoneVariable) }},
	{"Fail, a span and EndErr", true, 1, func(s *telemetry.Span, o trace.Span) {
		s.Fail(errGone)
		_, cleanUp := o.TracerProvider().Tracer("").Start(trace.ContextWithSpan(context.Background(), o), "clean-up")
		cleanUp.End()
		s.EndErr(&errGoneVariable)
	}},
	{"status, a span and EndErr", true, 1, func(s *telemetry.Span, o trace.Span) {
		o.SetStatus(codes.Error, errGone.Error())
		_, cleanUp := o.TracerProvider().Tracer("").Start(trace.ContextWithSpan(context.Background(), o), "clean-up")
		cleanUp.End()
		s.EndErr(&errGoneVariable)
	}},
	{"status", true, 1, func(s *telemetry.Span, o trace.Span) { o.SetStatus(codes.Error, "gone"); s.End() }},
	{"error and status", true, 1, func(_ *telemetry.Span, o trace.Span) {
		o.RecordError(errGone)
		o.SetStatus(codes.Error, errGone.Error())
		o.End()
	}},
	{"panic", true, 1, func(_ *telemetry.Span, o trace.Span) {
		defer func() { _ = recover() }()
		defer o.End()
		panic("gone")
	}},
	{"status of a retry", false, 1, func(s *telemetry.Span, o trace.Span) {
		o.SetStatus(codes.Error, "gone")
		o.SetStatus(codes.Ok, "")
		s.End()
	}},
	{"status after Ok", false, 0, func(s *telemetry.Span, o trace.Span) {
		o.SetStatus(codes.Ok, "")
		o.SetStatus(codes.Error, "gone")
		s.End()
	}},
	{"panic after Ok", true, 1, func(_ *telemetry.Span, o trace.Span) {
		defer func() { _ = recover() }()
		defer o.End()
		o.SetStatus(codes.Ok, "")
		panic("gone")
	}},
	{"error of a retry", false, 1, func(s *telemetry.Span, _ trace.Span) { s.RecordError(errGone); s.End() }},
}

// However a program reports that a checkpoint failed, it is not a success, and the error
// is one record beside that of the checkpoint.
func TestFailedSaves(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, c := range failing {
			t.Run(fmt.Sprintf("%s, async %v", c.name, async), func(t *testing.T) {
				j := newJob(t, exportAll, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
					c.Training.IsSaveCheckpointEnabled = config.Value(true)
					if async {
						c.Training.SaveCheckpointStrategy = "async"
					}
				})
				ctx, app := j.tel.Start(j.ctx, spans.Application)
				inner, s := j.tel.Start(ctx, spans.CheckpointSave, telemetry.SaveStart{GlobalStep: 5})
				if async {
					s.End()
					inner, s = j.tel.Start(ctx, spans.CheckpointSaveFinalization, telemetry.Finalization{GlobalStep: 5})
				}
				c.end(s, trace.SpanFromContext(inner))
				succeeded, failed := len(j.mem.events(spans.EventSaveCheckpointSuccess)), len(j.mem.events(spans.EventSaveCheckpointFailure))
				if c.fails && (succeeded != 0 || failed != 1) || !c.fails && (succeeded != 1 || failed != 0) {
					t.Errorf("%d successes and %d failures, want a failure: %v", succeeded, failed, c.fails)
				}
				want := c.errors
				if c.name == "EndErr" {
					want = 0 // the failure of the checkpoint has it
				}
				if n := len(j.mem.events(spans.EventError)); n != want {
					t.Errorf("%d error records, want %d", n, want)
				}
				app.End()
			})
		}
	}
}

// A failed iteration does not count as completed, however the program reports it.
func TestFailedIterations(t *testing.T) {
	for _, c := range failing {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t, exportAll)
			ctx, app := j.tel.Start(j.ctx, spans.Application)
			ctx, loop := j.tel.Start(ctx, spans.TrainingLoop)
			for range 2 {
				inner, s := j.tel.Start(ctx, spans.TrainingIteration)
				j.clock.pass(time.Second)
				c.end(s, trace.SpanFromContext(inner))
			}
			if updates := len(j.mem.events(spans.EventTrainingMetricsUpdate)); updates != 0 && c.fails || updates != 1 && !c.fails {
				t.Errorf("%d updates after two iterations, want one unless they failed", updates)
			}
			if n := len(j.mem.events(spans.EventError)); n != 2*c.errors {
				t.Errorf("%d error records, want %d", n, 2*c.errors)
			}
			loop.End()
			app.End()
		})
	}
}

// The error with which a span ends is a record of its own if the span had another error
// before; an error of a checkpoint is not one of the application.
func TestErrorAtTheEndAfterAnother(t *testing.T) {
	fatal := errors.New("CUDA error")
	for name, before := range map[string]func(*job, *telemetry.Span){
		"retry": func(_ *job, app *telemetry.Span) { app.RecordError(errGone) },
		"checkpoint": func(j *job, _ *telemetry.Span) {
			check(t, j.cb.OnSaveCheckpointFailure(j.ctx, callbacks.SaveFailure{GlobalStep: 1, Err: errGone}))
		},
		"the same checkpoint": func(j *job, _ *telemetry.Span) {
			check(t, j.cb.OnSaveCheckpointFailure(j.ctx, callbacks.SaveFailure{GlobalStep: 1, Err: fatal}))
		},
		"by hand": func(j *job, app *telemetry.Span) { check(t, j.tel.Recorder().Error(app, "words", errGone)) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			ctx := started(t)(j.cb.OnAppStart(j.ctx))
			before(j, telemetry.FromContext(ctx))
			check(t, j.cb.OnAppEnd(j.ctx, callbacks.End{Err: fatal}))
			all := j.mem.events(spans.EventError)
			if n := len(all); n == 0 || attr(all[n-1], "exception_message") != fatal.Error() {
				t.Errorf("error records %v, want the last with %q", all, fatal)
			}
		})
	}
	// The same error again, and that of another process with its text, is no further record.
	for _, again := range []error{fatal, fmt.Errorf("above: %w", fatal), errors.New(fatal.Error())} {
		j := newJob(t)
		_, s := j.tel.StartSpan(j.ctx, "x")
		s.RecordError(fatal)
		s.EndErr(&again)
		_, byHand, err := j.tel.Recorder().Start(j.ctx, "y", telemetry.SpanStart{})
		check(t, err)
		check(t, j.tel.Recorder().Error(byHand, "words", fatal))
		check(t, j.tel.Recorder().Stop(byHand, telemetry.End{Err: again}))
		if n := len(j.mem.events(spans.EventError)); n != 2 {
			t.Errorf("%v after %v: %d records for two spans, want 2", again, fatal, n)
		}
	}
}

// An error after which the program continued does not hide a later one with the same cause
// or text.
func TestErrorAfterAToleratedOne(t *testing.T) {
	timeout := context.DeadlineExceeded
	fatal := fmt.Errorf("rendezvous of node 7: %w", timeout)
	like := errors.New(timeout.Error())
	below := func(j *job, ctx context.Context, err error) {
		_, s := j.tel.StartSpan(ctx, "below")
		s.EndErr(&err)
	}
	for name, c := range map[string]struct {
		before func(*job, context.Context, *telemetry.Span)
		end    func(*telemetry.Span, trace.Span)
		want   string
	}{
		"cause": {
			func(_ *job, _ context.Context, s *telemetry.Span) { s.RecordError(timeout) },
			func(s *telemetry.Span, _ trace.Span) { s.EndErr(&fatal) }, fatal.Error(),
		},
		"cause of a span below": {
			func(j *job, ctx context.Context, _ *telemetry.Span) { below(j, ctx, timeout) },
			func(s *telemetry.Span, _ trace.Span) { s.EndErr(&fatal) }, fatal.Error(),
		},
		"text": {
			func(_ *job, _ context.Context, s *telemetry.Span) { s.RecordError(timeout) },
			func(s *telemetry.Span, _ trace.Span) { s.EndErr(&like) }, like.Error(),
		},
		"by hand": {
			func(j *job, _ context.Context, s *telemetry.Span) {
				check(t, j.tel.Recorder().Error(s, "words", timeout))
			},
			func(s *telemetry.Span, _ trace.Span) { s.EndErr(&fatal) }, fatal.Error(),
		},
		"status": {
			func(_ *job, _ context.Context, s *telemetry.Span) { s.RecordError(timeout) },
			func(s *telemetry.Span, o trace.Span) { o.SetStatus(codes.Error, "lost node 7"); s.End() }, "lost node 7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			ctx, s := j.tel.StartSpan(j.ctx, "rank")
			c.before(j, ctx, s)
			below(j, ctx, nil) // the program continues
			c.end(s, trace.SpanFromContext(ctx))
			all := j.mem.events(spans.EventError)
			if n := len(all); n != 2 || cmp.Or(attr(all[1], "exception_message"), attr(all[1], "error_message")) != c.want {
				t.Errorf("error records %v, want a second one with %q", all, c.want)
			}
		})
	}
	// On its way up it is one record, also if spans of other goroutines end meanwhile.
	j := newJob(t)
	ctx, above := j.tel.StartSpan(j.ctx, "above")
	_, other := j.tel.StartSpan(ctx, "other")
	below(j, ctx, fatal)
	other.End()
	above.EndErr(&fatal)
	if n := len(j.mem.events(spans.EventError)); n != 1 {
		t.Errorf("%d records of an error on its way up, want 1", n)
	}
}
