package pfw_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestExporterFindsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New(path, nil)))
		tracer := tp.Tracer("example.com/server")
		ctx, root := tracer.Start(context.Background(), "request", trace.WithAttributes(attribute.Int("n", 1)))
		mid, q := tracer.Start(ctx, "query")
		_, l := tracer.Start(mid, "lock")
		l.AddEvent("acquired")
		l.End()
		q.End()
		_, late := tracer.Start(ctx, "late")
		if err := tp.ForceFlush(context.Background()); err != nil { // children are in the file first
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		root.End()
		time.Sleep(20 * time.Millisecond)
		late.End()
		_, open := tracer.Start(context.Background(), "open")
		_, inside := tracer.Start(trace.ContextWithSpan(context.Background(), open), "inside")
		inside.End()
		if err := tp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		dftest.Check(t, path)
		ev := byName(dftest.Events(t, path))
		for child, parent := range map[string]string{"query": "request", "lock": "query", "inside": "unfinished"} {
			if ev[child].Parent != int64(ev[parent].ID) || ev[parent].ID == 0 {
				t.Errorf("%s hangs under %d, want %s", child, ev[child].Parent, parent)
			}
		}
		if ev["lock"].TID != ev["request"].TID {
			t.Error("a nested span is not on the lane of its parent")
		}
		if ev["late"].Parent != dftracer.NoParent || ev["late"].TID == ev["request"].TID {
			t.Errorf("span that outlived its root is %+v, want no parent and another lane", ev["late"])
		}
		if text(t, ev["unfinished"], "truncated") != "1" || text(t, ev["request"], "n") != "1" {
			t.Error("arguments are missing")
		}
		if acquired := ev["CM:acquired"]; acquired.Level != 0 || text(t, acquired, "span") != fmt.Sprint(ev["lock"].ID) { // its depth is unknown
			t.Error("the event record is not below its span")
		}
	})
}

// tree returns finished spans of random trees, in the order of their ends.
func tree(r *rand.Rand, spansWanted int) tracetest.SpanStubs {
	var all tracetest.SpanStubs
	base := time.Now().Truncate(time.Second)
	var grow func(tid trace.TraceID, parent trace.SpanContext, start, end int64, depth int)
	grow = func(tid trace.TraceID, parent trace.SpanContext, start, end int64, depth int) {
		var sid trace.SpanID
		for i := range sid {
			sid[i] = byte(r.UintN(256))
		}
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid, TraceFlags: 1})
		if depth < 5 {
			at := start
			for at < end && r.IntN(4) > 0 {
				s := at + r.Int64N(end-at+1)
				e := s + r.Int64N(end-s+1)
				grow(tid, sc, s, e, depth+1)
				if r.IntN(3) > 0 {
					at = e // sequential; otherwise concurrent
				}
			}
		}
		all = append(all, tracetest.SpanStub{
			Name: fmt.Sprint("depth", depth), SpanContext: sc, Parent: parent,
			StartTime: base.Add(time.Duration(start) * time.Microsecond), EndTime: base.Add(time.Duration(end) * time.Microsecond),
		})
	}
	for i := 0; len(all) < spansWanted; i++ {
		start := r.Int64N(2000)
		grow(trace.TraceID{1, byte(i), byte(i >> 8)}, trace.SpanContext{}, start, start+r.Int64N(1000), 0)
	}
	return all
}

func TestExporterLanesAndMemory(t *testing.T) {
	for name, limit := range map[string]int{"all remembered": 0, "few remembered": 8} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				path := filepath.Join(t.TempDir(), "trace.pfw")
				e := pfw.New(path, &pfw.Options{MaxParents: limit})
				stubs := tree(rand.New(rand.NewPCG(seed, 0)), 300)
				list := stubs.Snapshots()
				for len(list) > 0 {
					n := min(len(list), 7)
					if limit == 0 {
						n = len(list) // as if all had ended in order
					}
					if err := e.ExportSpans(context.Background(), list[:n]); err != nil {
						t.Fatal(err)
					}
					list = list[n:]
				}
				if err := e.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
				report := dftest.Check(t, path)
				if limit == 0 {
					if got := report.Counts["otel/unfinished/X"]; got != 0 {
						t.Errorf("seed %d: %d parents were not found, want 0", seed, got)
					}
					if report.Events != len(stubs)+2 {
						t.Errorf("seed %d: %d events, want %d", seed, report.Events, len(stubs)+2)
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestExporterLanesOfALoop checks that an open loop whose iterations end one after
// another needs few lanes, for any number of iterations.
func TestExporterLanesOfALoop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	e := pfw.New(path, nil)
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e))
	tracer := tp.Tracer("x")
	ctx, loop := tracer.Start(context.Background(), "loop")
	for range 300 {
		inside, it := tracer.Start(ctx, "iteration")
		_, forward := tracer.Start(inside, "forward")
		forward.End()
		it.End()
	}
	loop.End()
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	lanes := map[int64]bool{}
	for _, ev := range dftest.Events(t, path) {
		if ev.Phase == dftracer.PhaseComplete {
			lanes[ev.TID] = true
		}
	}
	if len(lanes) > 4 {
		t.Errorf("%d lanes, want at most 4", len(lanes))
	}
}

func TestExporterConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New(path, nil), sdktrace.WithBlocking()))
	tracer := tp.Tracer("example.com/server")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				ctx, a := tracer.Start(context.Background(), "a")
				for range 3 {
					_, b := tracer.Start(ctx, "b")
					b.End()
				}
				a.End()
			}
		})
	}
	wg.Wait()
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	if report.Counts["server/a/X"] != 800 || report.Counts["server/b/X"] != 2400 || report.Counts["otel/unfinished/X"] != 0 {
		t.Errorf("counts %v, want 800 of a, 2400 of b, none unfinished", report.Counts)
	}
}

// TestExporterTraceBeginsWithItsFirstSpan checks that the trace starts with the first
// span, although the file is created after spans have ended. It also checks that a span
// that arrives twice is written once, and the open span as unfinished.
func TestExporterTraceBeginsWithItsFirstSpan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	e := pfw.New(path, nil)
	list := tree(rand.New(rand.NewPCG(3, 0)), 50)
	first := list[0].StartTime
	for _, s := range list {
		if s.StartTime.Before(first) {
			first = s.StartTime
		}
	}
	batch := list[:len(list)-1].Snapshots() // the last root does not end
	for range 2 {
		if err := e.ExportSpans(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	if want := len(batch) + int(report.Counts["otel/unfinished/X"]) + 2; report.Events != want {
		t.Errorf("%d events, want %d", report.Events, want)
	}
	ev := byName(dftest.Events(t, path))
	if ev["start"].TS != first.UnixMicro() || ev["end"].TS < ev["start"].TS {
		t.Errorf("trace lasts from %d to %d, want from %d, the start of its first span", ev["start"].TS, ev["end"].TS, first.UnixMicro())
	}
	if n := report.Counts["otel/unfinished/X"]; n != 1 {
		t.Errorf("%d unfinished spans, want the open one", n)
	}
}

func TestExporterWithoutSpansMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	e := pfw.New(path, nil)
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Stat of the trace = %v, want no file", err)
	}
}

func TestExporterReportsUnusablePath(t *testing.T) {
	e := pfw.New(filepath.Join(os.DevNull, "trace.pfw"), nil)
	stubs := tree(rand.New(rand.NewPCG(1, 1)), 1)
	if err := e.ExportSpans(context.Background(), stubs.Snapshots()); err == nil {
		t.Error("ExportSpans to a path that cannot be created: no error, want one")
	}
	if err := e.Shutdown(context.Background()); err == nil {
		t.Error("Shutdown returned no error, want the first error")
	}
}

func TestNilsDoNothing(t *testing.T) {
	var p *pfw.Processor
	var e *pfw.Exporter
	ctx := context.Background()
	p.OnStart(ctx, nil)
	p.OnEnd(nil)
	if err := p.Write([]outputs.Record{{Kind: outputs.KindEvent}}); err != nil {
		t.Errorf("Write() = %v, want nil", err)
	}
	if p.Writer() != nil {
		t.Error("a nil processor has a writer, want none")
	}
	for _, err := range []error{p.ForceFlush(ctx), p.Shutdown(ctx), e.ExportSpans(ctx, nil), e.Shutdown(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// An Exporter is also a span processor of a plain SDK.
func TestExporterAsProcessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(pfw.New(path, nil)))
	ctx, outer := tp.Tracer("t").Start(t.Context(), "outer")
	_, inner := tp.Tracer("t").Start(ctx, "inner")
	inner.End()
	outer.End()
	if err := tp.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	ev := byName(dftest.Events(t, path))
	if ev["outer"].ID == 0 || ev["inner"].Parent != int64(ev["outer"].ID) {
		t.Errorf("inner is below %d, want outer, %d", ev["inner"].Parent, ev["outer"].ID)
	}
}

// An Exporter that cannot create its file records nothing, and Shutdown returns the error.
func TestExporterAsProcessorWithoutFile(t *testing.T) {
	told := 0
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(pfw.New(t.TempDir(), &pfw.Options{
		Trace: &dftracer.Options{OnError: func(error) { told++ }},
	})))
	for range 2 {
		_, s := tp.Tracer("t").Start(t.Context(), "span")
		s.End()
	}
	if err := tp.Shutdown(context.WithoutCancel(t.Context())); err == nil || told != 1 {
		t.Errorf("Shutdown: %v after %d reports, want an error after 1", err, told)
	}
}
