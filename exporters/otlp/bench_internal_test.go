package otlp

import (
	"fmt"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func benchBatch(n int) []sdktrace.ReadOnlySpan {
	r := resource.NewSchemaless(attribute.String("service.name", "bench"))
	batch := make([]sdktrace.ReadOnlySpan, n)
	for i := range batch {
		batch[i] = tracetest.SpanStub{
			Name: fmt.Sprint("span", i), Resource: r, StartTime: time.Now(), EndTime: time.Now(),
			SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3, byte(i)}}),
			Attributes: []attribute.KeyValue{
				attribute.String("phase", "forward"), attribute.Int("step", i), attribute.Int("epoch", 1), attribute.Float64("loss", 0.25),
			},
		}.Snapshot()
	}
	return batch
}

func BenchmarkTransform(b *testing.B) {
	batch := benchBatch(512)
	b.ReportAllocs()
	for b.Loop() {
		transform(batch)
	}
}

func BenchmarkSpillLine(b *testing.B) {
	batch := benchBatch(512)
	b.ReportAllocs()
	for b.Loop() {
		line, err := otlpform.AppendJSON(nil, transform(batch))
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(line)))
	}
}
