package pyring

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A recursive function has one cell, so a span that has been open for a while
// is announced at a guessed depth. It is sent once, as it is written once.
func TestRecursionIsSentOnce(t *testing.T) {
	w, err := dftracer.Create(filepath.Join(t.TempDir(), "trace.pfw"), &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // it is not looked at
	sent := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(sent)).Tracer("x")
	tel := new(telemetry.Provider)
	p := emptyProcess(&source{o: &Options{}, told: make(map[string]bool)})
	p.w, p.relay = w, &relay{src: p.source, tel: tel, live: true}
	f := &node{key: dftracer.NewKey("compute", "forward"), epoch: -1, step: -1, asked: 2, sentBy: tel}
	f.sender = func(ctx context.Context, at time.Time, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
		return tracer.Start(ctx, "forward", trace.WithTimestamp(at), trace.WithAttributes(attrs...))
	}
	const at, deepest = int64(1_700_000_000_000_000_000), 3
	th := &thread{tid: 1}
	p.announce(th, []began{{node: f, start: at + deepest*1000}}, at+1e9)
	for depth := deepest; depth > 0; depth-- {
		p.end(th, span{node: f, start: at + int64(depth)*1000, end: at + 1e9 + int64(deepest-depth)*1000, thread: th}, depth, false)
	}
	p.relay.finish(map[uint32]*thread{0: th})
	ids, starts := map[trace.SpanID]int64{}, map[int64]int{}
	for _, s := range sent.GetSpans() {
		depth := (s.StartTime.UnixNano() - at) / 1000
		ids[s.SpanContext.SpanID()] = depth
		starts[depth]++
	}
	parents := map[int64]int64{1: 0, 2: 1, 3: 0} // the last one was started without a parent
	for _, s := range sent.GetSpans() {
		depth := (s.StartTime.UnixNano() - at) / 1000
		if got, want := ids[s.Parent.SpanID()], parents[depth]; starts[depth] != 1 || got != want || len(s.Attributes) > 0 {
			t.Errorf("the span at depth %d is sent %d times, want once; below that at depth %d, want %d; with %v, want nothing", depth, starts[depth], got, want, s.Attributes)
		}
	}
	if len(starts) != deepest {
		t.Errorf("%d spans are sent, want %d", len(starts), deepest)
	}
}
