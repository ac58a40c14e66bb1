package pfw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// newTrace returns a processor that writes to a new uncompressed file, and its path.
func newTrace(t testing.TB, o *pfw.Options) (*pfw.Processor, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pfw")
	p, err := pfw.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, path
}

// newSDK returns a plain tracer provider that writes to a new file. done shuts it down
// and returns the events by name.
func newSDK(t testing.TB, o *pfw.Options) (tp *sdktrace.TracerProvider, done func() map[string]dftracer.Event) {
	t.Helper()
	p, path := newTrace(t, o)
	tp = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	return tp, func() map[string]dftracer.Event {
		t.Helper()
		if err := tp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		dftest.Check(t, path)
		return byName(dftest.Events(t, path))
	}
}

// byName maps the names of complete events, and "CM:" and the keys of metadata
// records, to the events.
func byName(events []dftracer.Event) map[string]dftracer.Event {
	all := make(map[string]dftracer.Event)
	for _, ev := range events {
		name := ev.Name
		if ev.Phase == dftracer.PhaseMetadata {
			key, _ := ev.Meta()
			name = ev.Name + ":" + key
		}
		all[name] = ev
	}
	return all
}

// newTelemetry returns a telemetry provider with the processor.
func newTelemetry(t testing.TB, p sdktrace.SpanProcessor, more ...func(*telemetry.TrainingTelemetryBuilder)) *telemetry.Provider {
	t.Helper()
	b := telemetry.NewTrainingTelemetryBuilder()
	for _, m := range more {
		m(b)
	}
	tel, err := b.
		WithBaseConfig(config.Base{ApplicationName: "test", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("p"), GlobalBatchSize: config.Value(4)}).
		WithRanks(config.Ranks{}).
		WithSpanProcessor(p).
		ConfigureProvider(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return tel
}

func text(t *testing.T, ev dftracer.Event, key string) string {
	t.Helper()
	a, ok := ev.Arg(key)
	if !ok {
		t.Errorf("%s has no argument %s: %v", ev.Name, key, ev.Args)
	}
	return a.Text()
}

func TestSpanBecomesOneEvent(t *testing.T) {
	tp, done := newSDK(t, nil)
	tracer := tp.Tracer("example.com/shop/http-client")
	linked := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx, s := tracer.Start(context.Background(), "GET /", trace.WithAttributes(
		attribute.Int("status", 200), attribute.String("url", `a"<b>`), attribute.Bool("ok", true),
		attribute.Float64("ratio", 3), attribute.StringSlice("tags", []string{"<x>", "y"}),
	), trace.WithLinks(trace.Link{SpanContext: linked, Attributes: []attribute.KeyValue{attribute.Int("n", 1)}}))
	_, child := tracer.Start(ctx, "dial")
	child.AddEvent("resolved", trace.WithAttributes(attribute.String("name", "db"), attribute.Int("ms", 4)))
	child.SetStatus(codes.Error, "refused")
	child.End()
	s.SetStatus(codes.Ok, "")
	s.End()

	ev := done()
	get, dial := ev["GET /"], ev["dial"]
	if get.Cat != "http-client" || get.Level != 1 || get.Parent != dftracer.NoParent {
		t.Errorf("root is %+v, want an http-client on level 1 without a parent", get)
	}
	if dial.Parent != int64(get.ID) || dial.Level != 2 || dial.TID != get.TID {
		t.Errorf("child %+v: want parent, next level and lane of %+v", dial, get)
	}
	for key, want := range map[string]string{
		"status": "200", "url": `a"<b>`, "ok": "1", "ratio": "3.0", "tags": `["<x>","y"]`, "otel.status_code": "OK",
		"otel.links": `[{"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000","attributes":{"n":1}}]`,
	} {
		if got := text(t, get, key); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	if a, _ := get.Arg("status"); tracefile.KindOf(a) != tracefile.KindInt {
		t.Errorf("status is no integer: %v, want %v", tracefile.KindOf(a), tracefile.KindInt)
	}
	if text(t, dial, "otel.status_code") != "ERROR" || text(t, dial, "otel.status_description") != "refused" {
		t.Errorf(`arguments %v, want status ERROR, "refused"`, dial.Args)
	}
	resolved, ok := ev["CM:resolved"]
	if !ok {
		t.Fatal("the event record resolved is missing")
	}
	if resolved.Level != dial.Level+1 || text(t, resolved, "span") != fmt.Sprint(dial.ID) || text(t, resolved, "event.name") != "db" || text(t, resolved, "ms") != "4" {
		t.Errorf("event record has %v on level %d, want %d, span %d, name db, ms 4", resolved.Args, resolved.Level, dial.Level+1, dial.ID)
	}
}

func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		scope, span string
		attrs       []attribute.KeyValue
		cat, event  string
	}{
		"standard":         {"x", spans.ModelForward, nil, "compute", "forward"},
		"application":      {"x", spans.Application, nil, "ai_root", "ai_root"},
		"category":         {"x", "tokenize", []attribute.KeyValue{attribute.String("dftracer.cat", "data")}, "data", "tokenize"},
		"category, name":   {"x", "data.item", []attribute.KeyValue{attribute.String("dftracer.cat", "data"), attribute.String("dftracer.name", "item")}, "data", "item"},
		"beats the table":  {"x", spans.Epoch, []attribute.KeyValue{attribute.String("dftracer.cat", "pipeline"), attribute.String("dftracer.name", "epoch")}, "pipeline", "epoch"},
		"scope":            {"go.opentelemetry.io/contrib/otelhttp", "GET", nil, "otelhttp", "GET"},
		"scope with slash": {"example.com/lib/", "call", nil, "lib", "call"},
		"no scope":         {"", "call", nil, "otel", "call"},
		"reserved":         {"x/dftracer", "call", nil, "dftracer.app", "call"},
	} {
		t.Run(name, func(t *testing.T) {
			tp, done := newSDK(t, &pfw.Options{NoBegin: true})
			_, s := tp.Tracer(c.scope).Start(context.Background(), c.span, trace.WithAttributes(c.attrs...))
			s.End()
			ev, ok := done()[c.event]
			if !ok || ev.Cat != c.cat {
				t.Errorf("event is %+v, want %s/%s", ev, c.cat, c.event)
			}
			for _, a := range ev.Args {
				if a.Key == spans.AttrCategory || a.Key == spans.AttrName {
					t.Errorf("%s is an argument, want it only as name or category", a.Key)
				}
			}
		})
	}
}

func TestOutlivedParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tp, done := newSDK(t, nil)
		tracer := tp.Tracer("x")
		ctx, root := tracer.Start(context.Background(), "root")
		ctx, parent := tracer.Start(ctx, "parent")
		ctx, child := tracer.Start(ctx, "child")
		_, grandchild := tracer.Start(ctx, "grandchild")
		parent.End()
		time.Sleep(20 * time.Millisecond)
		grandchild.End()
		child.End()
		_, late := tracer.Start(ctx, "late") // its parent has ended
		late.End()
		root.End()
		ev := done() // checks levels and containment
		if got := ev["child"].Parent; got != int64(ev["root"].ID) {
			t.Errorf("parent of child is %d, want root %d", got, ev["root"].ID)
		}
		if got := ev["late"].Parent; got != dftracer.NoParent {
			t.Errorf("late hangs under %d, though its parent was over, want %d", got, dftracer.NoParent)
		}
		if got := ev["grandchild"].Parent; got != int64(ev["child"].ID) {
			t.Errorf("parent of grandchild is %d, want child %d", got, ev["child"].ID)
		}
	})
}

func TestRemoteParentIsRoot(t *testing.T) {
	tp, done := newSDK(t, nil)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true, TraceFlags: 1})
	_, s := tp.Tracer("x").Start(trace.ContextWithRemoteSpanContext(context.Background(), remote), "served")
	s.End()
	if ev := done()["served"]; ev.Parent != dftracer.NoParent || ev.Level != 1 {
		t.Errorf("span with a remote parent is %+v, want a root on level 1", ev)
	}
}

// TestRemoteParentIsRootWhateverIsOpen checks that a span with a remote parent is a
// root, even if an open span has the same id, as in a process that calls itself, or an
// ambient scope is open.
func TestRemoteParentIsRootWhateverIsOpen(t *testing.T) {
	p, path := newTrace(t, nil)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	tracer := tp.Tracer("x")
	scope := p.ScopeKind("compute", "scope").Start(context.Background(), nil, dispatch.ScopeStart{Ambient: true})
	ctx, client := tracer.Start(context.Background(), "client")
	called := trace.ContextWithRemoteSpanContext(context.Background(), client.SpanContext())
	_, served := tracer.Start(called, "served")
	elsewhere := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
	_, other := tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), elsewhere), "other")
	_, inner := tracer.Start(ctx, "inner")
	for _, s := range []trace.Span{inner, other, served, client} {
		s.End()
	}
	scope.End()
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := byName(dftest.Events(t, path))
	for name, parent := range map[string]string{"scope": "", "client": "scope", "inner": "client", "served": "", "other": ""} {
		want := int64(dftracer.NoParent)
		if parent != "" {
			want = int64(all[parent].ID)
		}
		if got := all[name]; got.Parent != want || got.ID == 0 {
			t.Errorf("%s is below %d, want %d (%q)", name, got.Parent, want, parent)
		}
	}
}

func TestShutdownWritesOpenSpans(t *testing.T) {
	p, path := newTrace(t, nil)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	ctx, root := tp.Tracer("x").Start(context.Background(), spans.TrainingLoop)
	ctx, inner := tp.Tracer("x").Start(ctx, "inner", trace.WithAttributes(attribute.Int("k", 1)))
	scope := p.ScopeKind("compute", "forward").Start(ctx, nil, dispatch.ScopeStart{})
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	inner.End()
	root.End()
	scope.End()
	if s := p.ScopeKind("compute", "forward").Start(ctx, nil, dispatch.ScopeStart{}); s != nil {
		t.Error("a scope was started after Shutdown")
	}
	report := dftest.Check(t, path)
	if report.Open != 0 {
		t.Errorf("%d spans are open in the file, want 0", report.Open)
	}
	ev := byName(dftest.Events(t, path))
	for _, name := range []string{"train", "inner", "forward"} {
		if text(t, ev[name], "truncated") != "1" {
			t.Errorf("%s has no argument truncated: 1", name)
		}
	}
	if text(t, ev["inner"], "k") != "1" || text(t, ev["end"], "spans_truncated") != "3" {
		t.Errorf("inner %v, end %v; want k 1 in inner, 3 truncated spans in end", ev["inner"].Args, ev["end"].Args)
	}
	if _, ok := ev["CM:"+tracefile.KeySpanBegin]; !ok {
		t.Error("the long span has no begin record")
	}
}

func TestTelemetrySpans(t *testing.T) {
	p, path := newTrace(t, nil)
	tel := newTelemetry(t, p)
	ctx, app := tel.Start(context.Background(), spans.Application)
	ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{IterationsStart: 7})
	ectx, epoch := tel.Start(ctx, spans.Epoch, telemetry.Epoch(2))
	ictx, it := tel.Start(ectx, spans.TrainingIteration)
	it.AddEvent("checked", attribute.Int("n", 3))
	_, fw := tel.Start(ictx, spans.ModelForward)
	fw.EndWith(telemetry.End{Err: errors.New("overflow")})
	it.End()
	epoch.End()
	loop.End()
	app.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	ev := byName(dftest.Events(t, path))
	if report.Counts["dftracer/CM/M"] < 5 {
		t.Errorf("counts %v, want 5 begin records or more", report.Counts)
	}
	chain := []string{"ai_root", "train", "epoch.block", "train.iteration", "forward"}
	for i := 1; i < len(chain); i++ {
		if ev[chain[i]].Parent != int64(ev[chain[i-1]].ID) {
			t.Errorf("parent of %s is %d, want %s", chain[i], ev[chain[i]].Parent, chain[i-1])
		}
	}
	for _, name := range []string{"train.iteration", "forward"} {
		if e := ev[name]; text(t, e, "epoch") != "2" || text(t, e, "step") != "7" {
			t.Errorf("%s has %v, want epoch 2, step 7", name, e.Args)
		}
	}
	if text(t, ev["forward"], "otel.status_description") != "overflow" {
		t.Errorf(`forward has %v, want the status "overflow"`, ev["forward"].Args)
	}
	var checked int
	for _, e := range dftest.Events(t, path) {
		if key, value := e.Meta(); e.Name == "CM" && key == "checked" {
			checked++
			if us, err := strconv.ParseInt(value, 10, 64); err != nil || us < ev["train.iteration"].TS {
				t.Errorf("time of the event is %s, want one from %d on", value, ev["train.iteration"].TS)
			}
		}
	}
	if checked != 1 {
		t.Errorf("the event was written %d times, want 1", checked)
	}
}

// TestTracesDoNotShowInTheFile checks that the nesting in the trace file does not depend
// on how exporters distribute the run over traces.
func TestTracesDoNotShowInTheFile(t *testing.T) {
	tree := func(more ...func(*telemetry.TrainingTelemetryBuilder)) (lines []string) {
		p, path := newTrace(t, nil)
		tel := newTelemetry(t, p, more...)
		ctx, app := tel.Start(context.Background(), spans.Application)
		ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{})
		_, held := tel.StartSpan(ctx, "held")
		traces := map[trace.TraceID]bool{}
		for range 30 {
			ictx, it := tel.Start(ctx, spans.TrainingIteration)
			traces[it.SpanContext().TraceID()] = true
			fctx, fw := tel.Start(ictx, spans.ModelForward)
			_, op := tel.Tracer("user").Start(fctx, "op")
			op.End()
			fw.End()
			it.End()
			_, s := tel.StartSpan(ctx, "beside")
			s.End()
		}
		held.End()
		loop.End()
		app.End()
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if (len(traces) > 1) != (len(more) > 0) {
			t.Errorf("%d traces, want several: %v", len(traces), len(more) > 0)
		}
		dftest.Check(t, path)
		names := map[int64]string{}
		events := dftest.Events(t, path)
		for _, e := range events {
			names[int64(e.ID)] = e.Name
		}
		for _, e := range events {
			if e.Phase == dftracer.PhaseComplete {
				lines = append(lines, fmt.Sprint(e.Name, " ", e.Level, " below ", names[e.Parent]))
			}
		}
		return lines
	}
	sent := tracetest.NewInMemoryExporter()
	split := tree(func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanExporter(sent).WithExportCustomization(config.Export{Mode: config.ExportAll}).
			WithTraces(config.Traces{Split: config.TracePerWindow, Window: 3, Budget: config.MinTraceBudget})
	})
	if whole := tree(); !slices.Equal(split, whole) {
		t.Errorf("%q\nwant %q", split, whole)
	}
}

func TestEventIsWrittenAtOnce(t *testing.T) {
	p, path := newTrace(t, nil)
	tel := newTelemetry(t, p)
	_, app := tel.Start(context.Background(), spans.Application)
	app.AddEvent("midway")
	if err := tel.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	report := dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowUnfinished: true})
	if report.Open != 1 {
		t.Errorf("%d spans are open in the file, want the application", report.Open)
	}
	if _, ok := byName(dftest.Events(t, path))["CM:midway"]; !ok {
		t.Error("the event is not in the file yet")
	}
	app.End()
}

// mix runs randomly nested telemetry spans, plain spans and scopes.
type mix struct {
	tel    *telemetry.Provider
	tracer trace.Tracer
	kinds  []dispatch.ScopeKind
	wg     sync.WaitGroup
	strict bool // nothing outlives its parent
}

func (m *mix) run(ctx context.Context, r *rand.Rand, depth int, count *int) {
	*count++
	var end func()
	switch r.IntN(3) {
	case 0:
		c, s := m.tel.StartSpan(ctx, "custom"+strconv.Itoa(r.IntN(4)))
		ctx, end = c, func() { s.End() }
	case 1:
		c, s := m.tracer.Start(ctx, "plain"+strconv.Itoa(r.IntN(4)))
		ctx, end = c, func() { s.End() }
	default:
		s := m.kinds[r.IntN(len(m.kinds))].Start(ctx, nil, dispatch.ScopeStart{})
		ctx, end = s.Context(), func() { s.End() }
	}
	for range r.IntN(4) {
		if depth < 6 {
			m.run(ctx, r, depth+1, count)
		}
	}
	if !m.strict && r.IntN(10) == 0 { // a child that may outlive this one
		*count++
		s := m.kinds[0].Start(ctx, nil, dispatch.ScopeStart{})
		m.wg.Go(func() { s.End() })
	}
	end()
}

func TestManyGoroutines(t *testing.T) {
	for name, strict := range map[string]bool{"nested": true, "outliving": false} {
		t.Run(name, func(t *testing.T) {
			p, path := newTrace(t, &pfw.Options{BeginAfter: time.Millisecond})
			tel := newTelemetry(t, p)
			m := &mix{tel: tel, tracer: tel.Tracer("example.com/plain"), strict: strict}
			for _, n := range []string{"forward", "backward", "step"} {
				m.kinds = append(m.kinds, p.ScopeKind("compute", n))
			}
			ctx, err := tel.Recorder().StartPhase(context.Background(), spans.Application, telemetry.Start{})
			if err != nil {
				t.Fatal(err)
			}
			counts := make([]int, 64)
			for g := range counts {
				m.wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 1))
					start := ctx
					if g%2 == 0 {
						start = context.Background() // under the ambient span
					}
					for range 5 {
						m.run(start, r, 0, &counts[g])
					}
				})
			}
			m.wg.Wait()
			if err := tel.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			report := dftest.Check(t, path)
			want := 3 // start, end, application
			for _, n := range counts {
				want += n
			}
			if report.Events != want || report.Open != 0 {
				t.Errorf("%d events, want %d, and %d are open", report.Events, want, report.Open)
			}
			if strict && report.Lanes > 2*64 {
				t.Errorf("%d lanes for 64 goroutines, want at most 128", report.Lanes)
			}
			roots := slices.DeleteFunc(dftest.Events(t, path), func(e dftracer.Event) bool {
				return e.Phase != dftracer.PhaseComplete || e.Cat == "dftracer" || e.Parent != dftracer.NoParent
			})
			if len(roots) != 1 {
				t.Errorf("%d roots, want the application alone", len(roots))
			}
			t.Logf("%d events on %d lanes", report.Events, report.Lanes)
		})
	}
}

// hiding is a processor of a program that passes ended spans on without their
// attributes.
type hiding struct{ sdktrace.SpanProcessor }

func (h hiding) OnEnd(s sdktrace.ReadOnlySpan) { h.SpanProcessor.OnEnd(hidden{s}) }

type hidden struct{ sdktrace.ReadOnlySpan }

func (hidden) Attributes() []attribute.KeyValue { return nil }

// What the file gets is the ended span that the Processor was given, also if another
// processor has changed it, before and after spans of the SDK itself.
func TestChangedOnTheWay(t *testing.T) {
	p, path := newTrace(t, nil)
	plain := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("plain")
	changed := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(hiding{p})).Tracer("changed")
	for i, tracer := range []trace.Tracer{changed, plain, changed} {
		_, s := tracer.Start(context.Background(), fmt.Sprint("started ", i))
		s.SetAttributes(attribute.String("secret", "12345"))
		s.SetName(fmt.Sprint("span ", i))
		s.End()
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	events := byName(dftest.Events(t, path))
	for i, want := range []bool{false, true, false} {
		ev, ok := events[fmt.Sprint("span ", i)]
		if !ok {
			t.Fatalf("span %d is not in the file", i)
		}
		if _, got := ev.Arg("secret"); got != want {
			t.Errorf("span %d: got the attribute: %v, want %v", i, got, want)
		}
	}
}

// The texts of exceptions and statuses of a program with an SDK of its own have no secrets.
func TestErrorsHaveNoSecrets(t *testing.T) {
	for name, processor := range map[string]func(e *pfw.Exporter) sdktrace.SpanProcessor{
		"as they happen": func(e *pfw.Exporter) sdktrace.SpanProcessor { return e },
		"in batches":     func(e *pfw.Exporter) sdktrace.SpanProcessor { return sdktrace.NewBatchSpanProcessor(e) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.pfw")
			tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor(pfw.New(path, nil))))
			_, s := tp.Tracer("plain").Start(context.Background(), "request")
			err := errors.New("no answer of https://u:hunter2@host")
			s.RecordError(err, trace.WithAttributes(attribute.String("exception.stacktrace", "in f(password=hunter2)")))
			s.SetStatus(codes.Error, err.Error())
			s.End()
			if err := tp.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), "REDACTED"); n != 3 || strings.Contains(string(text), "hunter2") {
				t.Errorf("%d secrets are hidden, want 3:\n%s", n, text)
			}
		})
	}
}
