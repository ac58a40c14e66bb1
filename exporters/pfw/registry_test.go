package pfw_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestMoreOpenThanPlaces checks that spans and scopes find their parents, get begin
// records and are written if more of them are open than the registry has slots.
func TestMoreOpenThanPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const width, depth = 1500, 40
		p, path := newTrace(t, &pfw.Options{BeginAfter: time.Millisecond})
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
		tracer := tp.Tracer("example.com/wide")
		parents := make([]trace.Span, width)
		children := make([]trace.Span, width)
		for i := range parents {
			ctx, s := tracer.Start(context.Background(), "parent "+strconv.Itoa(i))
			parents[i] = s
			_, children[i] = tracer.Start(ctx, "child "+strconv.Itoa(i))
		}
		kind := p.ScopeKind("compute", "deep")
		ctx := context.Background()
		scopes := make([]dispatch.Scope, depth)
		for i := range scopes {
			scopes[i] = kind.Start(ctx, nil, dispatch.ScopeStart{})
			ctx = scopes[i].Context()
		}
		time.Sleep(100 * time.Millisecond) // until all begin records are written
		if err := tp.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if report := dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowUnfinished: true}); report.Open != 2*width+depth {
			t.Errorf("%d are begun, want %d", report.Open, 2*width+depth)
		}
		for i := range width / 2 { // the rest is left to Shutdown
			children[i].End()
			parents[i].End()
		}
		for i := depth - 1; i >= depth/2; i-- {
			scopes[i].End()
		}
		if err := tp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		report := dftest.Check(t, path)
		if report.Open != 0 || report.Counts["compute/deep/X"] != depth || report.Counts["dftracer/CM/M"] != 2*width+depth {
			t.Errorf("%d open, %d deep, %d begun; want 0, %d, %d", report.Open, report.Counts["compute/deep/X"], report.Counts["dftracer/CM/M"], depth, 2*width+depth)
		}
		events := byName(dftest.Events(t, path))
		for i := range width {
			parent, child := events["parent "+strconv.Itoa(i)], events["child "+strconv.Itoa(i)]
			if parent.ID == 0 || child.Parent != int64(parent.ID) {
				t.Fatalf("child %d is below %d, want %d", i, child.Parent, parent.ID)
			}
		}
		if n := text(t, events["end"], "spans_truncated"); n != strconv.Itoa(width+depth/2) {
			t.Errorf("%s spans are truncated, want %d", n, width+depth/2)
		}
		for _, ev := range dftest.Events(t, path) {
			if ev.Name == "deep" && ev.Phase == dftracer.PhaseComplete && ev.Level == depth {
				return
			}
		}
		t.Errorf("no scope at level %d", depth)
	})
}
