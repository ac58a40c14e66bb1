package telemetry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Name returns the name of the span.
func (s *Span) Name() (name string) {
	if s != nil && s.rec != nil {
		s.rec.locked(func() { name = s.data.Name })
	}
	return name
}

// Parent returns the parent among the telemetry spans, or nil.
func (s *Span) Parent() *Span {
	if s == nil {
		return nil
	}
	return s.parent
}

// Active reports whether the span is open.
func (s *Span) Active() (open bool) {
	if s != nil && s.rec != nil {
		s.rec.locked(func() { open = s.state == spanOpen })
	}
	return open
}

// SpanContext returns the ids of the span in OpenTelemetry.
func (s *Span) SpanContext() trace.SpanContext {
	if !s.started() {
		return trace.SpanContext{}
	}
	return s.otel.SpanContext()
}

// started reports whether the span has an OpenTelemetry side: it was neither refused nor
// started after the end.
func (s *Span) started() bool { return s != nil && s.otel != nil }

// id returns the span's identity in the compatible JSON-lines file, or "".
func (s *Span) id() string {
	if s == nil {
		return ""
	}
	return string(onelogger.AppendUUID(nil, s.data.TraceID, s.data.SpanID))
}

// Err returns the problem that telemetry had with the span, such as a start
// that was refused because a span with that name is open, or nil. It does not
// return errors of the program.
func (s *Span) Err() (problem error) {
	if s != nil && s.rec != nil {
		s.rec.locked(func() {
			if s.rare != nil {
				problem = s.rare.problem
			}
		})
	}
	return problem
}

// End ends the span now. Called by defer, it also records a panic and passes it
// on. A second call does nothing.
func (s *Span) End() {
	if r := recover(); r != nil {
		defer panic(r)
		s.finish(End{Err: failure.Panic{Value: r}})
		return
	}
	s.finish(End{})
}

// EndErr ends the span now, with the error that err points to when it is
// called: defer sp.EndErr(&err). An error is recorded as an error event and as
// the span's status. A nil pointer means no error. A panic is recorded as with
// End.
func (s *Span) EndErr(err *error) {
	var failed error
	if err != nil {
		failed = *err
	}
	if r := recover(); r != nil {
		defer panic(r)
		failed = errors.Join(failed, failure.Panic{Value: r})
	}
	s.finish(End{Err: failed})
}

// EndWith ends the span at a given time, with a given error, or both.
func (s *Span) EndWith(e End) {
	if r := recover(); r != nil {
		defer panic(r)
		e.Err = errors.Join(e.Err, failure.Panic{Value: r})
	}
	s.finish(e)
}

// runIn runs fn with a started scope, and ends the scope with fn's error, which
// it returns unchanged.
func runIn(ctx context.Context, s *Span, fn func(context.Context) error) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		if r := recover(); r != nil {
			s.finish(End{Err: failure.Panic{Value: r}})
			panic(r)
		}
		s.finish(End{Err: errGoexit})
	}()
	err = fn(ctx)
	finished = true
	s.finish(End{Err: err})
	return err
}

// Fail records an error of the span and sets its status, and leaves the span
// open. If the end of the span has no error, it ends with err. A nil err is ignored.
func (s *Span) Fail(err error) {
	if s == nil || s.rec == nil || err == nil {
		return
	}
	s.recordError("Error in "+s.Name()+": ", err, time.Time{}, nil, true)
	if s.otel != nil {
		s.otel.SetStatus(codes.Error, failure.Text(err))
	}
}

func (s *Span) finish(e End) {
	if s == nil || s.rec == nil {
		return
	}
	if s.scoped && (s.index == phase.SaveSync || s.index == phase.Finalization) && e.Err == nil && s.rec.succeeds(s) {
		// A scope around a save that ends without an error is a success, like
		// one-logger's context manager.
		if err := s.rec.CheckpointSucceeded(SaveSuccess{Time: e.Time, GlobalStep: int(s.step)}); err != nil {
			s.note(err)
		}
	}
	s.note(s.rec.finish(s, &finishing{End: e}))
}

// note keeps a problem for Err.
func (s *Span) note(err error) {
	if err != nil && !errors.Is(err, ErrClosed) {
		s.rec.locked(func() {
			of := s.rarely()
			of.problem = errors.Join(of.problem, err)
		})
	}
}

// SetLoss sets the loss of a training iteration, before its end.
func (s *Span) SetLoss(loss float64) {
	s.setIteration(spantree.Consumed{Loss: attributes.Some(loss)})
}

// SetSamples sets how many samples a training iteration consumed over all ranks, before
// its end.
func (s *Span) SetSamples(n int64) {
	s.setIteration(spantree.Consumed{Samples: attributes.Some(n)})
}

// SetTokens sets how many tokens a training iteration consumed over all ranks, before
// its end.
func (s *Span) SetTokens(n int64) {
	s.setIteration(spantree.Consumed{Tokens: attributes.Some(n)})
}

func (s *Span) setIteration(e spantree.Consumed) {
	if s != nil && s.rec != nil && s.index == phase.Iteration {
		s.rec.locked(func() { s.rarely().consumed.Add(e) })
	}
}

// SetAttributes sets attributes of the span. An existing key keeps its place. A
// span keeps 512 attributes; more are counted and left out.
func (s *Span) SetAttributes(kvs ...attribute.KeyValue) {
	if s == nil || s.rec == nil || len(kvs) == 0 {
		return
	}
	s.setOwn(attributes.From(kvs...))
}

// SetAttrs is SetAttributes for values that OpenTelemetry cannot hold.
func (s *Span) SetAttrs(attrs ...attributes.Attr) {
	if s == nil || s.rec == nil || len(attrs) == 0 {
		return
	}
	s.setOwn(slices.Clone(attrs))
}

// setOwn sets attributes, whose slice it may change.
func (s *Span) setOwn(attrs []attributes.Attr) {
	attrs = s.rec.repairs.clean(attrs)
	r := s.rec
	var c call
	if r.while(func() error { return r.setAttrs(&c, s, attrs) }) != nil {
		return
	}
	r.out.deliver(&c)
	kvs := lent(attrs)
	s.otel.SetAttributes(kvs.all()...)
	kvs.release()
}

// AddEvent records an event of the span now. It reaches the outputs at once,
// before the end of the span. After the end it does nothing.
func (s *Span) AddEvent(name string, kvs ...attribute.KeyValue) {
	if s == nil || s.rec == nil {
		return
	}
	s.addEvent(name, attributes.From(kvs...), time.Time{})
}

// RecordError records an error of the span and leaves the span open. A nil err is
// ignored, and so is a call after the end.
func (s *Span) RecordError(err error) {
	if s == nil || s.rec == nil || err == nil {
		return
	}
	s.recordError("Error in "+s.Name()+": ", err, time.Time{}, nil, false)
}

// errGoexit is the failure of a scope whose goroutine was ended by
// runtime.Goexit (a failed test, for instance).
var errGoexit = errors.New("the goroutine exited before the scope ended")
