package pfw_test

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// iterations returns the spans of a training loop that stays open, in the order of their
// ends.
func iterations(count int) []sdktrace.ReadOnlySpan {
	var all tracetest.SpanStubs
	base := time.Unix(1_700_000_000, 0)
	id := func(n int) trace.SpanContext {
		var sid trace.SpanID
		binary.BigEndian.PutUint64(sid[:], uint64(n)*0x9e3779b97f4a7c15)
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: sid, TraceFlags: 1})
	}
	add := func(n, parent int, name string, start, end int) {
		all = append(all, tracetest.SpanStub{
			Name: name, SpanContext: id(n), Parent: id(parent),
			StartTime: base.Add(time.Duration(start) * time.Microsecond), EndTime: base.Add(time.Duration(end) * time.Microsecond),
			Attributes: []attribute.KeyValue{attribute.Int("step", n)},
		})
	}
	for i := range count {
		n, at := 10+10*i, 1000*i
		add(n+1, n, "data_loading", at+1, at+100)
		add(n+2, n, "model_forward", at+100, at+400)
		add(n+3, n, "model_backward", at+400, at+800)
		add(n+4, n, "optimizer_update", at+800, at+900)
		add(n, 1, "training_single_iteration", at, at+950)
	}
	return all.Snapshots()
}

func BenchmarkExporter(b *testing.B) {
	for name, size := range map[string]int{"one by one": 1, "batches of 500": 500} {
		b.Run(name, func(b *testing.B) {
			w, err := dftracer.NewWriter(io.Discard, &dftracer.Options{Compression: dftracer.CompressNone})
			if err != nil {
				b.Fatal(err)
			}
			e := pfw.New("", &pfw.Options{Writer: w, OwnWriter: true})
			list := iterations(200_000)
			next := 0
			b.ReportAllocs()
			for b.Loop() {
				if next+size > len(list) {
					next = 0
				}
				_ = e.ExportSpans(context.Background(), list[next:next+size])
				next += size
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/span")
			_ = e.Shutdown(context.Background())
		})
	}
}
