package delivery_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/trainspan/trainspan/internal/export/delivery"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestOptionsOfExporterAndEnvironment(t *testing.T) {
	env := map[string]string{
		"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
		"OTEL_BSP_SCHEDULE_DELAY": "250", "OTEL_BSP_EXPORT_TIMEOUT": "nonsense",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	type plain struct{ sdktrace.SpanExporter }
	for _, tc := range []struct {
		name  string
		wrap  func(*backend) sdktrace.SpanExporter
		o     delivery.Options
		batch int
	}{
		{"code wins", func(b *backend) sdktrace.SpanExporter { return b }, delivery.Options{MaxBatch: 5, LookupEnv: lookup}, 5},
		{"then the exporter", func(b *backend) sdktrace.SpanExporter { return b }, delivery.Options{LookupEnv: lookup}, 3},
		{"then the environment", func(b *backend) sdktrace.SpanExporter { return plain{b} }, delivery.Options{LookupEnv: lookup}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{tuning: delivery.Options{MaxBatch: 3, MaxQueue: 30}}
				tc.o.MaxQueue = 100
				p := delivery.New(tc.wrap(b), &tc.o)
				end(p, 4*tc.batch)
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				if slices.Max(b.sizes) != tc.batch {
					t.Errorf("batches %v, want at most %d", b.sizes, tc.batch)
				}
			})
		})
	}
}
