package pfw_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func TestEndRecordCountsDrops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	p, err := pfw.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	records := []outputs.Record{{Kind: outputs.KindLosses, Event: outputs.Event{Attributes: attributes.From(
		attribute.Int("logs queue full", 5), attribute.Int("metric exports", 1), attribute.Int("queue full", 3), attribute.Int("refused by the backend", 4),
	)}}}
	if err := p.Write(records); err != nil {
		t.Fatal(err)
	}
	records[0] = outputs.Record{} // the slice is reused
	p.OnEnd(tracetest.SpanStub{Name: "began elsewhere", SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})}.Snapshot())
	if err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "began elsewhere" {
			got["written"]++
		}
		if e.Name == "end" {
			for _, a := range e.Args {
				got[a.Key] = a.Int64()
			}
		}
	}
	if got["otlp_dropped_queue_full"] != 3 || got["otlp_dropped_refused_by_the_backend"] != 4 ||
		got["otlp_dropped_logs_queue_full"] != 5 || got["otlp_dropped_metric_exports"] != 1 || got["written"] != 1 {
		t.Errorf("end record has %v, want 3, 4, 5 and 1 dropped by cause, 1 written", got)
	}
}
