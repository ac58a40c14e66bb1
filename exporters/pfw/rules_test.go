package pfw_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestRecordsThatHaveEndedHaveLanes checks that ended records without a parent are on a
// root lane that is free at that time.
func TestRecordsThatHaveEndedHaveLanes(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	kind := p.ScopeKind("c", "after")
	root := p.ScopeKind("c", "root").Start(context.Background(), nil, dispatch.ScopeStart{})
	root.End()
	kind.Record(context.Background(), nil, 0, kind.Now())
	var open []dispatch.Scope
	for range 12 { // more than rootLanes
		open = append(open, p.ScopeKind("c", "open").Start(context.Background(), nil, dispatch.ScopeStart{}))
	}
	kind.Record(context.Background(), nil, 0, kind.Now())
	for _, s := range open {
		s.End()
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	var after []int64
	lanes := map[int64]bool{}
	for _, ev := range dftest.Events(t, path) {
		switch ev.Name {
		case "after":
			after = append(after, ev.TID)
		case "open":
			lanes[ev.TID] = true
		}
	}
	if first := byName(dftest.Events(t, path))["root"].TID; len(after) != 2 || after[0] != first || first < int64(os.Getpid()) {
		t.Errorf("spans that ended before are on lanes %v, the root on %d; want two, the first on the lane of the root", after, first)
	} else if len(lanes) != len(open) || lanes[after[1]] {
		t.Errorf("second span is on lane %d, open spans are on %v; want a lane of its own each", after[1], lanes)
	}
}

// TestOverlapKeepsItsTimes checks that, after two ambient scopes overlapped below a
// span, no ambient scope is the parent of later records below that span, and that
// ambient scopes without a parent still work.
func TestOverlapKeepsItsTimes(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("x").Start(context.Background(), "span")
	start := func(ctx context.Context, name string) dispatch.Scope {
		return p.ScopeKind("c", name).Start(ctx, nil, dispatch.ScopeStart{Ambient: true})
	}
	record := func(ctx context.Context, name string) {
		kind := p.ScopeKind("c", name)
		kind.Record(ctx, nil, 0, kind.Now())
	}
	a := start(ctx, "a")
	b := start(ctx, "b")
	a.End()
	b.End()
	c := start(ctx, "c")
	record(ctx, "in span")
	d := start(context.Background(), "d")
	record(context.Background(), "in nothing")
	c.End()
	d.End()
	span.End()
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	ev := byName(dftest.Events(t, path))
	for name, parent := range map[string]string{"b": "span", "c": "span", "in span": "span", "in nothing": "d"} {
		if ev[name].Parent != int64(ev[parent].ID) {
			t.Errorf("%s is below %d, not %s: %d", name, ev[name].Parent, parent, ev[parent].ID)
		}
	}
}

// TestCutScopesAreMarked checks that a scope that Shutdown ends is marked as
// truncated, on both paths that write arguments, and that a scope that the program ends
// is not.
func TestCutScopesAreMarked(t *testing.T) {
	for _, key := range []string{"plain", `o"dd`} {
		p, path := newTrace(t, &pfw.Options{NoBegin: true})
		for _, name := range []string{"cut", "whole"} {
			s := p.ScopeKind("c", name).Start(context.Background(), nil, dispatch.ScopeStart{})
			s.Set([]attribute.KeyValue{attribute.Int(key, 1)})
			if name == "whole" {
				s.End()
			}
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		ev := byName(dftest.Events(t, path))
		cut, whole := ev["cut"], ev["whole"]
		if text(t, cut, "truncated") != "1" {
			t.Errorf("%s: scope has %v, want truncated: 1", key, cut.Args)
		}
		if _, ok := whole.Arg("truncated"); ok {
			t.Errorf("%s: scope has %v, want no argument truncated", key, whole.Args)
		}
	}
}

// TestDroppedLinks checks that the number of dropped links is written.
func TestDroppedLinks(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = 1
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithRawSpanLimits(limits))
	link := trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})}
	_, s := tp.Tracer("x").Start(context.Background(), "linked", trace.WithLinks(link, link, link))
	s.End()
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := byName(dftest.Events(t, path))["linked"]; text(t, e, "otel.dropped_links_count") != "2" {
		t.Errorf("span is %+v, want 2 dropped links", e)
	}
}

// TestFlushOfAnExporterAlone checks that an unattached exporter and a nil exporter can
// be flushed.
func TestFlushOfAnExporterAlone(t *testing.T) {
	e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), nil)
	for when, err := range map[string]error{
		"none":   (*pfw.Exporter)(nil).ForceFlush(t.Context()),
		"before": e.ForceFlush(t.Context()),
	} {
		if err != nil {
			t.Errorf("%s: flush: %v", when, err)
		}
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e))
	_, s := tp.Tracer("x").Start(context.Background(), "span", trace.WithTimestamp(time.Now()))
	s.End()
	if err := e.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := dftest.CheckWith(t, e.Path(), &dftracer.ValidateOptions{AllowUnfinished: true})
	if report.Counts["x/span/X"] != 1 {
		t.Errorf("counts %v, want one span", report.Counts)
	}
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestRecordsKeepTheirStart checks that a scope that is recorded after its end keeps its
// start.
func TestRecordsKeepTheirStart(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	kind := p.ScopeKind("c", "after")
	start := kind.Now() - 5_000_000
	kind.Record(context.Background(), nil, 0, start)
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if ev := byName(dftest.Events(t, path))["after"]; ev.TS != start/1000 || ev.Dur < 5000 {
		t.Errorf("it began at %d µs and took %d µs, want %d and 5,000 at least", ev.TS, ev.Dur, start/1000)
	}
}

// TestLevelOfDeepSpans checks that the level of a span counts all open ancestors, for
// any depth.
func TestLevelOfDeepSpans(t *testing.T) {
	const depth = 300
	tp, done := newSDK(t, &pfw.Options{NoBegin: true})
	ctx, tracer := context.Background(), tp.Tracer("t")
	open := make([]trace.Span, depth)
	for i := range open {
		ctx, open[i] = tracer.Start(ctx, strconv.Itoa(i+1))
	}
	for _, s := range slices.Backward(open) {
		s.End()
	}
	events := done()
	for _, level := range []int{1, 2, 256, 257, depth} {
		if ev := events[strconv.Itoa(level)]; ev.Level != level {
			t.Errorf("span %d has level %d, want the same number", level, ev.Level)
		}
	}
}
