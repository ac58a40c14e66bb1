package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// parents returns the parent's name of each finished span.
func (j *job) parents(t *testing.T) map[string]string {
	t.Helper()
	names := map[trace.SpanID]string{}
	for _, s := range j.spans.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
	}
	out := map[string]string{}
	for _, s := range j.spans.GetSpans() {
		parent := ""
		if s.Parent.IsValid() {
			if parent = names[s.Parent.SpanID()]; parent == "" {
				t.Errorf("the parent of %s was never finished", s.Name)
			}
		}
		out[s.Name] = parent
	}
	return out
}

func TestCallbacksNestWithoutContexts(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	started(t)(j.cb.OnEpochStart(j.ctx, 0))
	started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
	started(t)(j.cb.OnModelForwardStart(j.ctx))
	// An OpenTelemetry span without a span in its context is a child of the
	// callback's.
	_, plain := j.tel.Tracer("user").Start(j.ctx, "attention")
	plain.End()
	check(t, j.cb.OnModelForwardEnd(j.ctx))
	j.clock.pass(1)
	check(t, j.cb.OnTrainingSingleIterationEnd(j.ctx))
	check(t, j.cb.OnEpochEnd(j.ctx))
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	want := map[string]string{
		"application": "", "training_loop": "application", "epoch": "training_loop",
		"training_single_iteration": "epoch", "model_forward": "training_single_iteration", "attention": "model_forward",
	}
	got := j.parents(t)
	for name, parent := range want {
		if got[name] != parent {
			t.Errorf("%s hangs under %q, want %q", name, got[name], parent)
		}
	}
	traces := map[trace.TraceID]bool{}
	for _, s := range j.spans.GetSpans() {
		traces[s.SpanContext.TraceID()] = true
	}
	if len(traces) != 1 {
		t.Errorf("%d traces, want 1", len(traces))
	}
}

func TestScopesCallbacksAndPlainSpansMix(t *testing.T) {
	j := newJob(t)
	ctx, app := j.tel.Start(j.ctx, spans.Application)
	tracer := j.tel.Tracer("user")
	loopCtx, loop := j.tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{})
	plainCtx, plain := tracer.Start(loopCtx, "window")
	itCtx, it := j.tel.Start(plainCtx, spans.TrainingIteration)
	_, inner := tracer.Start(itCtx, "kernel")
	inner.End()
	// A framework that holds one context calls callbacks with it.
	started(t)(j.cb.OnModelForwardStart(itCtx))
	started(t)(j.cb.OnDataLoadingStart(itCtx)) // below the forward pass, although the context has the iteration
	check(t, j.cb.OnDataLoadingEnd(itCtx))
	check(t, j.cb.OnModelForwardEnd(itCtx))
	// A scope uses its context.
	_, side := j.tel.StartSpan(ctx, "side")
	side.End()
	it.End()
	plain.End()
	loop.End()
	app.End()
	want := map[string]string{
		"training_loop": "application", "window": "training_loop", "training_single_iteration": "window",
		"kernel": "training_single_iteration", "model_forward": "training_single_iteration",
		"data_loading": "model_forward", "side": "application",
	}
	got := j.parents(t)
	for name, parent := range want {
		if got[name] != parent {
			t.Errorf("%s hangs under %q, want %q", name, got[name], parent)
		}
	}
	// The native records have the same parents.
	ids := map[trace.SpanID]string{}
	for _, r := range j.mem.all() {
		if r.Kind == outputs.KindStart {
			ids[r.Span.SpanID] = r.Span.Name
			if w, ok := want[r.Span.Name]; ok && ids[r.Span.ParentID] != w && r.Span.Name != "kernel" && r.Span.Name != "window" {
				t.Errorf("natively %s hangs under %q, want %q", r.Span.Name, ids[r.Span.ParentID], w)
			}
		}
	}
	if ids[j.stub(t, "window").SpanContext.SpanID()] != "window" {
		t.Error("a span of the plain API did not reach the native exporter")
	}
}

func TestFinalizationIsBelowTheApplication(t *testing.T) {
	j := newJob(t, async)
	startTraining(t, j)
	ctx, save := j.tel.Start(j.ctx, spans.CheckpointSave, telemetry.SaveStart{GlobalStep: 1})
	_, fin := j.tel.Start(ctx, spans.CheckpointSaveFinalization, telemetry.Finalization{GlobalStep: 1})
	save.End()
	check(t, j.cb.OnTrainEnd(j.ctx))
	fin.End()
	if got := len(j.mem.events(spans.EventSaveCheckpointSuccess)); got != 1 {
		t.Errorf("%d successes were recorded, want 1 with the end of the finalization", got)
	}
	check(t, j.cb.OnAppEnd(j.ctx))
	if got := j.parents(t)[spans.CheckpointSaveFinalization]; got != spans.Application {
		t.Errorf("the finalization hangs under %q, want %q", got, spans.Application)
	}
}

func TestRemoteParentAndNewRoot(t *testing.T) {
	j := newJob(t)
	remote := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	started(t)(j.cb.OnAppStart(j.ctx))
	_, s := j.tel.StartSpan(trace.ContextWithRemoteSpanContext(j.ctx, remote), "request")
	s.End()
	_, r := j.tel.Tracer("user").Start(j.ctx, "root", trace.WithNewRoot())
	r.End()
	if got := j.stub(t, "request").Parent.SpanID(); got != remote.SpanID() {
		t.Errorf("parent is %v, want %v", got, remote.SpanID())
	}
	if j.stub(t, "root").Parent.IsValid() {
		t.Error("a new root has a parent, want none")
	}
}

func TestPlainAPIReachesNativeRecords(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.Tracer("user").Start(j.ctx, "download", trace.WithAttributes(attribute.String("shard", "a\xff")))
	s.SetAttributes(attribute.Int("bytes", 7))
	s.AddEvent("retry", trace.WithAttributes(attribute.Int("n", 1)))
	s.RecordError(errors.New("reset"))
	s.SetStatus(codes.Error, "reset")
	s.End()
	s.End()
	want := []string{"start download", "event retry", "application_error error", "stop download"}
	if got := j.mem.kinds(); !slices.Equal(got, want) {
		t.Fatalf("records %v, want %v", got, want)
	}
	all := j.mem.all()
	if got := attrIn(all[3].Span.Attributes, "bytes"); got != "7" {
		t.Errorf("bytes is %q, want \"7\"", got)
	}
	if got := attrIn(all[0].Span.Attributes, "shard"); got != "a�" {
		t.Errorf("shard is %q, want \"a�\"", got)
	}
	if got := attr(all[2], "exception_message"); got != "reset" {
		t.Errorf("the error is %q, want \"reset\"", got)
	}
	stub := j.stub(t, "download")
	if stub.Status.Code != codes.Error || len(stub.Events) != 2 {
		t.Errorf("status %v, %d events; want an error and 2", stub.Status, len(stub.Events))
	}
	if got := j.tel.Stats().RepairedValues; got != 1 {
		t.Errorf("%d repaired values, want 1", got)
	}
}

func TestSpanFromContextIsTheScope(t *testing.T) {
	j := newJob(t)
	ctx, s := j.tel.StartSpan(j.ctx, "x")
	if telemetry.FromContext(ctx) != s {
		t.Error("FromContext returns another span, want the one of the context")
	}
	trace.SpanFromContext(ctx).AddEvent("hello")
	trace.SpanFromContext(ctx).End()
	if s.Active() {
		t.Error("the scope is active after the end of its span, want it ended")
	}
	if got := len(j.mem.events("hello")); got != 1 {
		t.Errorf("%d events, want 1", got)
	}
}

func TestClosuresPassErrorsAndPanicsOn(t *testing.T) {
	j := newJob(t, exportAll)
	startTraining(t, j)
	failure := fmt.Errorf("loss is NaN")
	if err := j.tel.Run(j.ctx, spans.TrainingIteration, func(context.Context) error { return failure }); err != failure {
		t.Errorf("the error came back as %v, want %v", err, failure)
	}
	value := &struct{ int }{3}
	func() {
		defer func() {
			if r := recover(); r != value {
				t.Errorf("the panic came back as %v, want %v", r, value)
			}
		}()
		_ = j.tel.Run(j.ctx, spans.ModelForward, func(context.Context) error { panic(value) })
	}()
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("the panic came back as %v, want \"boom\"", r)
			}
		}()
		_, s := j.tel.StartSpan(j.ctx, "deferred")
		defer s.End()
		panic("boom")
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.tel.Run(j.ctx, spans.ModelBackward, func(context.Context) error { goexit(); return nil })
	}()
	<-done
	for _, name := range []string{"training_single_iteration", "model_forward", "deferred", "model_backward"} {
		if s := j.stub(t, name); s.Status.Code != codes.Error || len(s.Events) == 0 {
			t.Errorf("%s has status %v and %d events, want an error and one or more", name, s.Status, len(s.Events))
		}
	}
	types := []string{}
	for _, r := range j.mem.events(spans.EventError) {
		types = append(types, attr(r, "exception_type"))
	}
	if !slices.Equal(types, []string{"*errors.errorString", "panic", "panic", "*errors.errorString"}) {
		t.Errorf("types %v, want [*errors.errorString panic panic *errors.errorString]", types)
	}
}

func TestExportedSpansHaveExportedAncestors(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithSpanExporter(kept{sent}) })
	startTraining(t, j)
	ctx := started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
	ctx, forward := j.tel.Start(ctx, spans.ModelForward)
	_, custom := j.tel.StartSpan(ctx, "attention", attribute.String("text", "\xff"))
	custom.End()
	forward.End()
	j.clock.pass(1)
	check(t, j.cb.OnTrainingSingleIterationEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	check(t, j.tel.Shutdown(j.ctx))
	parents := map[string]string{}
	names := map[trace.SpanID]string{}
	for _, s := range sent.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
	}
	for _, s := range sent.GetSpans() {
		parents[s.Name] = names[s.Parent.SpanID()]
	}
	want := map[string]string{"application": "", "training_loop": "application", "attention": "training_loop"}
	if fmt.Sprint(parents) != fmt.Sprint(want) {
		t.Errorf("exported %v, want %v", parents, want)
	}
	s := j.tel.Stats()
	if s.EndedSpans != 3 || s.ExportedSpans != 3 || s.DroppedSpans != 0 {
		t.Errorf("stats %+v, want 3 spans ended and exported, none dropped", s)
	}
}

// The name of a span decides whether it is exported, however it was started.
func TestDefaultBlacklistHoldsForEveryWayToStart(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.StartSpan(j.ctx, spans.ModelForward)
	s.End()
	_, p := j.tel.Tracer("user").Start(j.ctx, spans.ModelBackward)
	p.End()
	_, c := j.tel.StartSpan(j.ctx, "mine")
	c.End()
	if got, want := j.mem.kinds(), []string{"start mine", "stop mine"}; !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
}

func TestManyGoroutines(t *testing.T) {
	j := newJob(t, exportAll)
	startTraining(t, j)
	const goroutines, each = 32, 100
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				ctx, s := j.tel.StartSpan(j.ctx, "worker", attribute.Int("g", g))
				_, p := j.tel.Tracer("user").Start(ctx, "plain")
				p.AddEvent("e", trace.WithAttributes(attribute.Int("i", i)))
				p.End()
				s.End()
			}
		})
	}
	for range 200 {
		j.iteration(t, 1)
	}
	wg.Wait()
	check(t, j.tel.ForceFlush(j.ctx)) // the last records may be on their way to the output
	open := map[trace.SpanID]string{}
	stops := map[string]int{}
	for _, r := range j.mem.all() {
		switch r.Kind {
		case outputs.KindStart:
			open[r.Span.SpanID] = r.Span.Name
		case outputs.KindStop:
			if open[r.Span.SpanID] == "" {
				t.Fatalf("%s stops before it starts", r.Span.Name)
			}
			stops[r.Span.Name]++
			delete(open, r.Span.SpanID)
		case outputs.KindEvent:
			if r.Event.Name == "e" && open[r.Span.SpanID] != "plain" {
				t.Fatal("an event is outside of its span")
			}
		}
	}
	if stops["worker"] != goroutines*each || stops["plain"] != goroutines*each || stops["training_single_iteration"] != 200 {
		t.Errorf("stops %v, want %d of worker and plain, 200 of training_single_iteration", stops, goroutines*each)
	}
}

func TestCallbacksFromManyGoroutines(t *testing.T) {
	j := newJob(t)
	startTraining(t, j)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 { // most of these calls come at the wrong time
				_, _ = j.cb.OnTrainingSingleIterationStart(j.ctx)
				_ = j.cb.OnTrainingSingleIterationEnd(j.ctx, callbacks.IterationEnd{Loss: callbacks.Some(0.5)})
				_, _ = j.cb.OnValidationStart(j.ctx)
				_ = j.cb.OnValidationEnd(j.ctx)
			}
		})
	}
	wg.Wait()
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	if s := j.tel.Stats(); s.SpansOpen != 0 {
		t.Errorf("%d spans are open at the end, want 0", s.SpansOpen)
	}
}

// The text of an error status has no secret, with an error that was recorded before, as in
// most instrumentation, and without.
func TestStatusHasNoSecret(t *testing.T) {
	err := errors.New("no answer of https://u:hunter2@host")
	for name, before := range map[string]func(trace.Span){"alone": func(trace.Span) {}, "after the error": func(s trace.Span) { s.RecordError(err) }} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			_, s := j.tel.Tracer("t").Start(j.ctx, "request")
			before(s)
			s.SetStatus(codes.Error, err.Error())
			s.End()
			want := "no answer of https://REDACTED@host"
			if got := j.stub(t, "request").Status.Description; got != want {
				t.Errorf("the status is %q, want %q", got, want)
			}
			records := j.mem.events(spans.EventError)
			if len(records) != 1 || attr(records[0], "error_message") != want {
				t.Errorf("records %v, want one with %q", records, want)
			}
		})
	}
}

// The texts of an exception have no secrets if the program makes the event itself.
func TestExceptionsOfTheProgramHaveNoSecrets(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.Tracer("t").Start(j.ctx, "request")
	texts := trace.WithAttributes(
		attribute.String("exception.message", "no answer of https://u:hunter2@host"), attribute.String("exception.stacktrace", "in f(password=hunter2)"))
	s.AddEvent("exception", texts)
	s.RecordError(errGone, texts)
	s.End()
	var all []string
	for _, r := range j.mem.all() {
		all = append(all, attr(r, "exception.message"), attr(r, "exception.stacktrace"))
	}
	for _, e := range j.stub(t, "request").Events {
		for _, kv := range e.Attributes {
			all = append(all, kv.Value.String())
		}
	}
	text := strings.Join(all, " ")
	if n := strings.Count(text, "REDACTED"); n != 8 || strings.Contains(text, "hunter2") {
		t.Errorf("%d secrets are hidden, want 8: %q", n, all)
	}
}
