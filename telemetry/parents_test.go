package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// logged returns a job whose log is kept.
func logged(t *testing.T, change ...func(*config.Base, *telemetry.TrainingTelemetryBuilder)) (*job, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return newJob(t, append(change, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		b.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
	})...), log
}

// Callbacks that share one context nest below the span of that context, even if
// it is remote or from another tracer.
func TestCallbacksBelowAForeignSpan(t *testing.T) {
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1, Remote: true})
	other := sdktrace.NewTracerProvider()
	plain, span := other.Tracer("x").Start(context.Background(), "request")
	defer span.End()
	for name, ctx := range map[string]context.Context{
		"remote": trace.ContextWithRemoteSpanContext(context.Background(), remote), "plain": plain,
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, exportAll)
			started(t)(j.cb.OnAppStart(ctx))
			started(t)(j.cb.OnTrainStart(ctx, callbacks.TrainStart{}))
			for range 2 {
				started(t)(j.cb.OnTrainingSingleIterationStart(ctx))
				started(t)(j.cb.OnModelForwardStart(ctx))
				check(t, j.cb.OnModelForwardEnd(ctx))
				j.clock.pass(time.Second)
				check(t, j.cb.OnTrainingSingleIterationEnd(ctx))
			}
			check(t, j.cb.OnTrainEnd(ctx))
			check(t, j.cb.OnAppEnd(ctx))
			ids := map[trace.SpanID]string{}
			for _, s := range j.spans.GetSpans() {
				ids[s.SpanContext.SpanID()] = s.Name
			}
			for _, s := range j.spans.GetSpans() {
				want := map[string]string{
					"training_loop": "application", "training_single_iteration": "training_loop", "model_forward": "training_single_iteration",
				}[s.Name]
				if got := ids[s.Parent.SpanID()]; got != want {
					t.Errorf("%s hangs under %q, want %q", s.Name, got, want)
				}
			}
			if app := j.stub(t, "application"); app.Parent.SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
				t.Error("the parent of the application is not the foreign span")
			}
		})
	}
}

// The context of a span that has ended leads to its nearest open ancestor, with
// one warning.
func TestContextOfAnEndedSpan(t *testing.T) {
	j, log := logged(t, exportAll)
	app := started(t)(j.cb.OnAppStart(j.ctx))
	loop := started(t)(j.cb.OnTrainStart(app, callbacks.TrainStart{}))
	ctx := loop
	for range 20 { // a common mistake: ctx is overwritten in the loop
		ctx = started(t)(j.cb.OnTrainingSingleIterationStart(ctx))
		ectx, s := j.tel.StartSpan(ctx, "evaluated")
		s.End()
		_, late := j.tel.Tracer("x").Start(ectx, "late")
		late.End()
		j.clock.pass(time.Second)
		check(t, j.cb.OnTrainingSingleIterationEnd(ctx))
	}
	parents := map[string]map[string]int{}
	for _, r := range j.mem.all() {
		if r.Kind == outputs.KindStop {
			if parents[r.Span.Name] == nil {
				parents[r.Span.Name] = map[string]int{}
			}
			for _, above := range j.mem.all() {
				if above.Kind == outputs.KindStart && above.Span.SpanID == r.Span.ParentID {
					parents[r.Span.Name][above.Span.Name]++
				}
			}
		}
	}
	want := "map[evaluated:map[training_single_iteration:20] late:map[training_single_iteration:20] training_single_iteration:map[training_loop:20]]"
	if got := fmt.Sprint(parents); got != want {
		t.Errorf("the parents are %s, want %s", got, want)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "context of an ended span") {
		t.Errorf("%d lines in the log, want one about the context of an ended span:\n%s", n, log)
	}
}

// A refused span was never started: its end is not a second one.
func TestRefusedSpanEndsQuietly(t *testing.T) {
	j, log := logged(t)
	started(t)(j.cb.OnAppStart(j.ctx))
	_, s := j.tel.Start(j.ctx, "my.span")
	s.End()
	s.End()
	if got := log.String(); strings.Contains(got, "ended twice") || strings.Count(got, "is not a standard span") != 1 {
		t.Errorf("got %s, want only that the name is not standard", got)
	}
}

// Misuse in a loop does not fill the log: one line for each kind, with the
// names of the Go functions.
func TestWarningsComeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		misuse func(j *job, i int)
		want   string
		after  bool // after the end of the application
	}{
		"after the end":  {func(j *job, _ int) { _, s := j.tel.StartSpan(j.ctx, "x"); s.End() }, "after the end of the application or after Shutdown", true},
		"callback after": {func(j *job, _ int) { _, _ = j.cb.OnTrainingSingleIterationStart(j.ctx) }, "after the end of the application or after Shutdown", true},
		"plain after":    {func(j *job, _ int) { _, s := j.tel.Tracer("x").Start(j.ctx, "x"); s.End() }, "after the end of the application or after Shutdown", true},
		"no loop": {func(j *job, _ int) {
			_, _ = j.cb.OnTrainingSingleIterationStart(j.ctx)
			_ = j.cb.OnTrainingSingleIterationEnd(j.ctx)
		}, "call OnTrainStart", false},
		"second end": {func(j *job, _ int) {
			_, s := j.tel.StartSpan(j.ctx, "x")
			s.End()
			s.End()
		}, "ended twice", false},
		"many attributes": {func(j *job, i int) {
			_, s := j.tel.StartSpan(j.ctx, "x")
			for k := range 600 {
				s.SetAttributes(attribute.Int(fmt.Sprint("k", k), i))
			}
			s.End()
		}, "too many attributes", false},
	} {
		t.Run(name, func(t *testing.T) {
			j, log := logged(t)
			started(t)(j.cb.OnAppStart(j.ctx))
			if c.after {
				check(t, j.cb.OnAppEnd(j.ctx))
			}
			for i := range 1000 {
				if c.misuse(j, i); name == "many attributes" && i == 5 {
					break
				}
			}
			if n := strings.Count(log.String(), c.want); n != 1 {
				t.Errorf("%d lines say %q, want one:\n%.2000s", n, c.want, log)
			}
			if n := strings.Count(log.String(), "\n"); n > 5 || strings.Contains(log.String(), "on_train") {
				t.Errorf("%d lines in the log, want at most 5, without Python names:\n%.2000s", n, log)
			}
		})
	}
	t.Run("refused calls", func(t *testing.T) {
		j, log := logged(t)
		started(t)(j.cb.OnAppStart(j.ctx))
		for range 1000 {
			if err := j.cb.OnTrainEnd(j.ctx); err == nil {
				t.Fatal("a loop that was not started has ended")
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 4 || !strings.Contains(log.String(), "OnTrainEnd") {
			t.Errorf("%d lines in the log, want 4, one with OnTrainEnd:\n%s", n, log)
		}
		if n := j.tel.Stats().Errors; n != 1000 {
			t.Errorf("%d errors are counted, want 1000", n)
		}
	})
}

// An error that passes through several spans is one error record; each span has
// the status.
func TestOneErrorIsOneRecord(t *testing.T) {
	list := errorList{errors.New("a"), errors.New("b")}
	for name, err := range map[string]error{"plain": errGone, "wrapped": fmt.Errorf("read: %w", errGone), "not comparable": list} {
		for _, wrap := range []bool{false, true} {
			j := newJob(t)
			pass := func(err error) error {
				if wrap && err != nil {
					return fmt.Errorf("above: %w", err)
				}
				return err
			}
			got := j.tel.Run(j.ctx, spans.Application, func(ctx context.Context) error {
				return pass(j.tel.TimedSpan(ctx, "middle", func(ctx context.Context) error {
					return pass(j.tel.TimedSpan(ctx, "inner", func(ctx context.Context) error { return err }))
				}))
			})
			if got == nil {
				t.Error("got no error, want the function's error")
			}
			if n := len(j.mem.events(spans.EventError)); n != 1 {
				t.Errorf("%s, wrapped on its way %v: %d error records, want 1", name, wrap, n)
			}
			for _, span := range []string{"application", "middle", "inner"} {
				if s := j.stub(t, span); s.Status.Description == "" {
					t.Errorf("%s: %s has no status description", name, span)
				}
			}
		}
	}
	// Another error is another record.
	j := newJob(t)
	_ = j.tel.TimedSpan(j.ctx, "outer", func(ctx context.Context) error {
		_ = j.tel.TimedSpan(ctx, "inner", func(context.Context) error { return errGone })
		return errors.New("something else")
	})
	if n := len(j.mem.events(spans.EventError)); n != 2 {
		t.Errorf("two errors are %d records, want 2", n)
	}
}

type errorList []error

func (l errorList) Error() string { return fmt.Sprint([]error(l)) }

// After the end of a span the OpenTelemetry API does nothing, also with the
// strategy that switches telemetry off at the first error.
func TestAfterTheEndOfASpan(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) { c.ErrorStrategy = config.DisableQuietly })
	ctx, s := j.tel.StartSpan(j.ctx, "x")
	view := trace.SpanFromContext(ctx)
	_, plain := j.tel.Tracer("t").Start(ctx, "plain")
	plain.End()
	s.End()
	before := len(j.mem.all())
	for _, span := range []trace.Span{view, plain} {
		span.AddEvent("late")
		span.RecordError(errGone)
		span.SetAttributes(attribute.Int("k", 1))
		span.SetName("other")
		span.End()
	}
	s.AddEvent("late")
	s.RecordError(errGone)
	s.Fail(errGone)
	if !j.tel.Enabled() {
		t.Fatal("telemetry is off, want on")
	}
	if after := j.mem.all(); len(after) != before || j.tel.Stats().DataErrors != 0 || j.tel.Stats().Errors != 0 {
		t.Errorf("%d records after the end, want none, and no errors in %+v", len(after)-before, j.tel.Stats())
	}
}

// Values set on an iteration are kept if the callback that ends it does not set
// them.
func TestValuesOfAnIterationAreKept(t *testing.T) {
	for _, batch := range []int64{0, 32} {
		j := newJob(t)
		started(t)(j.cb.OnAppStart(j.ctx))
		started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
		for range 2 {
			ctx := started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
			s := telemetry.FromContext(ctx)
			s.SetLoss(0.25)
			s.SetSamples(10)
			s.SetTokens(7)
			j.clock.pass(time.Second)
			var end []callbacks.IterationEnd
			if batch > 0 {
				end = append(end, callbacks.IterationEnd{Samples: attributes.Some(batch)})
			}
			check(t, j.cb.OnTrainingSingleIterationEnd(ctx, end...))
		}
		updates := j.mem.events(spans.EventTrainingMetricsUpdate)
		if len(updates) != 1 {
			t.Fatalf("%d updates, want 1", len(updates))
		}
		samples := "20"
		if batch > 0 {
			samples = "64"
		}
		if attr(updates[0], "latest_loss") != "0.25" || attr(updates[0], "num_train_samples") != samples || attr(updates[0], "train_tokens") != "14" {
			t.Errorf("update %s, want loss 0.25, %s samples, 14 tokens", fmt.Sprint(updates[0].Event.Attributes)[300:], samples)
		}
	}
}

// Attributes of a span are bounded, and so is the time they cost: 20,000 keys
// in one call and one by one.
func TestManyAttributes(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.StartSpan(j.ctx, "x")
	var kvs []attribute.KeyValue
	for i := range 20_000 {
		kvs = append(kvs, attribute.Int(fmt.Sprint("k", i), i))
	}
	s.SetAttributes(kvs...)
	for _, kv := range kvs {
		s.SetAttributes(kv)
	}
	s.SetAttributes(attribute.Int("k7", -7)) // an existing key is not a new one
	s.End()
	_, given := j.tel.StartSpan(j.ctx, "given", kvs...)
	given.AddEvent("e", kvs...)
	given.End()
	for _, r := range j.mem.all() {
		if n := max(len(r.Span.Attributes), len(r.Event.Attributes)); n > 513 { // and the duration
			t.Fatalf("a %s record of %s has %d attributes, want at most 513", r.Kind, r.Span.Name, n)
		}
		if r.Kind == outputs.KindStop && r.Span.Name == "x" && attrIn(r.Span.Attributes, "k7") != "-7" {
			t.Error("a known key was not set")
		}
	}
	if n := j.tel.Stats().RepairedValues; n < 4*19_000 {
		t.Errorf("%d values are counted, want at least %d", n, 4*19_000)
	}
}

// A scope of package ai may be ended twice, also as a span.
func TestScopeEndedTwice(t *testing.T) {
	j, log := logged(t, exportAll)
	scope := ai.NewTree(j.tel).Compute.Forward.Start(j.ctx)
	scope.End()
	scope.End()
	j.stub(t, "compute.forward")
	if got := log.String(); got != "" {
		t.Errorf("the log is %q, want nothing", got)
	}
}
