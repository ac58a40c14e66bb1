package pfw_test

import (
	"context"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestScopeArguments checks that a scope's own arguments take precedence over those of
// its kind, and these over the progress of the training. Each key is written once, on
// both paths that write arguments.
func TestScopeArguments(t *testing.T) {
	attrs := func(kvs ...attribute.KeyValue) []attribute.KeyValue { return kvs }
	for _, c := range []struct {
		kind  dispatch.ScopeArgs
		count int64
		own   []attribute.KeyValue
		want  map[string]string
	}{
		{want: map[string]string{}},
		{count: 3, want: map[string]string{"count": "3"}},
		{count: 3, own: attrs(attribute.Int("count", 9)), want: map[string]string{"count": "9"}},
		{count: 3, kind: dispatch.ScopeArgs{Attrs: attrs(attribute.Int("count", 5))}, want: map[string]string{"count": "3"}},
		{kind: dispatch.ScopeArgs{Attrs: attrs(attribute.Int("count", 5))}, want: map[string]string{"count": "5"}},
		{kind: dispatch.ScopeArgs{Attrs: attrs(attribute.Int("a", 1), attribute.Int("b", 2))}, own: attrs(attribute.Int("b", 3)), want: map[string]string{"a": "1", "b": "3"}},
		{kind: dispatch.ScopeArgs{Epoch: config.Value(int64(0)), Step: config.Value(int64(0))}, want: map[string]string{"epoch": "0", "step": "0"}},
		{kind: dispatch.ScopeArgs{Epoch: config.Value(int64(0)), Step: config.Value(int64(0))}, own: attrs(attribute.Int("epoch", 5), attribute.Int("step", 6)), want: map[string]string{"epoch": "5", "step": "6"}},
		{kind: dispatch.ScopeArgs{Epoch: config.Value(int64(1)), Attrs: attrs(attribute.Int("step", 7))}, want: map[string]string{"epoch": "1", "step": "7"}},
		{kind: dispatch.ScopeArgs{Epoch: config.Value(int64(1)), Step: config.Value(int64(2)), Attrs: attrs(attribute.Int("step", 7))}, want: map[string]string{"epoch": "1", "step": "7"}},
	} {
		for _, odd := range []bool{false, true} { // a key that needs escaping
			p, path := newTrace(t, &pfw.Options{NoBegin: true})
			own, want := c.own, maps.Clone(c.want)
			if odd {
				own = append(attrs(attribute.Int(`o"dd`, 1)), own...)
				want[`o"dd`] = "1"
			}
			var live dispatch.LiveArgs
			live.Store(&c.kind)
			s := p.ScopeKind("compute", "scope").Start(context.Background(), &live, dispatch.ScopeStart{Count: c.count})
			s.Set(own)
			s.End()
			if err := p.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, ev := range dftest.Events(t, path) {
				if ev.Name != "scope" {
					continue
				}
				got := map[string]string{}
				for _, a := range ev.Args {
					if _, twice := got[a.Key]; twice {
						t.Errorf("%+v: argument %s is there twice, want once", c, a.Key)
					}
					if a.Key != "p_idx" {
						got[a.Key] = a.Text()
					}
				}
				for key, text := range want {
					if got[key] != text {
						t.Errorf("%+v: %s is %q, want %q", c, key, got[key], text)
					}
				}
				for _, key := range []string{"count", "epoch", "step"} {
					if _, ok := got[key]; ok && want[key] == "" {
						t.Errorf("%+v: argument %s is there, want it absent", c, key)
					}
				}
			}
		}
	}
}

// TestRootsThatOverlap checks that overlapping roots are on different lanes.
func TestRootsThatOverlap(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("x")
	base := time.Now().Add(-time.Hour)
	var open []trace.Span
	for i := range 20 {
		_, s := tracer.Start(context.Background(), "root", trace.WithNewRoot(), trace.WithTimestamp(base.Add(time.Duration(i)*time.Second)))
		open = append(open, s)
	}
	for i, s := range open {
		s.End(trace.WithTimestamp(base.Add(time.Duration(30+i) * time.Second)))
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if report := dftest.Check(t, path); report.Counts["x/root/X"] != 20 || report.Lanes < 20 {
		t.Errorf("%d lanes, counts %v; want 20 roots on 20 lanes or more", report.Lanes, report.Counts)
	}
}

// TestTotalsOfCalls checks that the calls of a kind on a file in one second are one
// record with their number, bytes, durations and failures.
func TestTotalsOfCalls(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true, Files: pfw.FileOptions{Aggregate: true}})
	f := p.FileLog().File("/data")
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	call := func(op dispatch.FileOp, after time.Duration, ret int64) {
		f.Record(context.Background(), dispatch.FileCall{Op: op, Start: at.Add(after).UnixNano(), Ret: ret, Size: -1, Offset: -1})
	}
	call(dispatch.FileRead, 0, 7)
	call(dispatch.FileRead, time.Second/2, 5)
	call(dispatch.FileRead, time.Second-time.Microsecond, -1)
	call(dispatch.FileRead, time.Second, 9)
	call(dispatch.FileClose, time.Second, 0)
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]int64{
		{tracefile.ArgCalls: 3, "size_sum": 12, "size_min": 0, "size_max": 7, "failed": 1},
		{tracefile.ArgCalls: 1, "size_sum": -1, "failed": -1},
		{tracefile.ArgCalls: 1, "size_sum": 9, "size_min": 9, "size_max": 9, "failed": -1},
	}
	n := 0
	for _, ev := range dftest.Events(t, path) {
		if ev.Cat != "POSIX" && ev.Cat != "STDIO" {
			continue
		}
		if n == len(want) {
			t.Fatalf("event %+v is one more than the %d wanted", ev, len(want))
		}
		second := at.Unix() + int64(min(n, 1))
		if ev.Phase != dftracer.PhaseCounter || ev.TS != second*1e6 {
			t.Errorf("record %d is %+v, want a counter at %d s", n, ev, second)
		}
		for key, v := range want[n] {
			if a, ok := ev.Arg(key); ok != (v >= 0) || ok && a.Int64() != v {
				t.Errorf("record %d: %s is %v, want %d (-1: absent)", n, key, a.Text(), v)
			}
		}
		sum, _ := ev.Arg("dur_sum")
		if most, _ := ev.Arg("dur_max"); sum.Int64() < most.Int64() || most.Int64() < time.Hour.Microseconds()-2e6 {
			t.Errorf("record %d: durations sum to %d, the longest is %d; want about an hour, at most the sum", n, sum.Int64(), most.Int64())
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d records, want %d", n, len(want))
	}
}

// TestScopesAndSpansNest checks that scopes nest in spans, spans in scopes, and file
// calls in the innermost open span or scope.
func TestScopesAndSpansNest(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("x")
	ctx, outer := tracer.Start(context.Background(), "outer")
	a := p.ScopeKind("c", "a").Start(ctx, nil, dispatch.ScopeStart{})
	b := p.ScopeKind("c", "b").Start(a.Context(), nil, dispatch.ScopeStart{})
	_, inner := tracer.Start(b.Context(), "inner")
	inner.End()
	loose := p.ScopeKind("c", "loose").Start(b.Context(), nil, dispatch.ScopeStart{Ambient: true})
	log := p.FileLog()
	log.File("/data").Record(b.Context(), dispatch.FileCall{Op: dispatch.FileRead, Start: log.Now(), Ret: 1, Size: 1, Offset: -1})
	for _, s := range []interface{ End() }{loose, b, a} {
		s.End()
	}
	outer.End()
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	ev := byName(dftest.Events(t, path))
	chain := []string{"outer", "a", "b", "inner"}
	for i := 1; i < len(chain); i++ {
		if e := ev[chain[i]]; e.Parent != int64(ev[chain[i-1]].ID) || e.Level != i+1 {
			t.Errorf("%s: want parent %s on level %d, got %+v", chain[i], chain[i-1], i+1, e)
		}
	}
	if e := ev["read"]; e.Parent != int64(ev["loose"].ID) || e.Parent == 0 {
		t.Errorf("the parent of the call is %d, want the ambient scope %d", e.Parent, ev["loose"].ID)
	}
}

// TestDroppedAttributes checks that the number of attributes that the SDK dropped is
// written.
func TestDroppedAttributes(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit = 1
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p), sdktrace.WithRawSpanLimits(limits))
	_, s := tp.Tracer("x").Start(context.Background(), "full", trace.WithAttributes(attribute.Int("a", 1), attribute.Int("b", 2), attribute.Int("c", 3)))
	s.End()
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := byName(dftest.Events(t, path))["full"]; text(t, e, "a") != "1" || text(t, e, "otel.dropped_attributes_count") != "2" {
		t.Errorf("span is %+v, want a 1 and 2 dropped attributes", e)
	}
}

// TestFilesOfAnExporter checks that an exporter uses the clock of its telemetry, that a
// flush writes the totals of the current second, and that calls of a disabled category
// are not recorded.
func TestFilesOfAnExporter(t *testing.T) {
	for _, c := range []struct {
		o    pfw.FileOptions
		want map[string]int
	}{
		{pfw.FileOptions{Aggregate: true}, map[string]int{"read": 1, "fread": 1}},
		{pfw.FileOptions{Aggregate: true, NoPOSIX: true}, map[string]int{"fread": 1}},
		{pfw.FileOptions{NoSTDIO: true}, map[string]int{"read": 1}},
		{pfw.FileOptions{NoSTDIO: true, NoPOSIX: true}, nil},
	} {
		e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), &pfw.Options{NoBegin: true, Files: c.o})
		now := time.Now().Add(-time.Hour).UnixNano()
		if _, err := e.Open(t.Context(), &outputs.Telemetry{Now: func() int64 { return now }}); err != nil {
			t.Fatal(err)
		}
		if log := e.FileLog(); (log != nil) != (c.want != nil) {
			t.Errorf("%+v: FileLog() = %v, want one: %v", c.o, log, c.want != nil)
		} else if log != nil {
			if log.Now() != now {
				t.Errorf("it is %d, not %d", log.Now(), now)
			}
			for _, op := range []dispatch.FileOp{dispatch.FileRead, dispatch.FileStdRead} {
				if f := log.File("/data"); f != nil {
					f.Record(t.Context(), dispatch.FileCall{Op: op, Start: now, Ret: 1, Size: 1, Offset: -1})
				}
			}
		}
		for when, write := range []func(context.Context) error{e.ForceFlush, e.Shutdown} { // the second call has nothing more to write
			if err := write(context.Background()); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, ev := range dftest.Events(t, e.Path()) {
				if ev.Cat == "POSIX" || ev.Cat == "STDIO" {
					got[ev.Name]++
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%+v, write %d: %v, want %v", c.o, when, got, c.want)
			}
		}
	}
}
