package telemetry_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
)

// All outputs get the same attributes of a span, those of its start and later ones.
func TestManyAttributesInEveryOutput(t *testing.T) {
	const n = 300
	for _, atStart := range []int{0, n} {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		j := newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithExporter(pfw.New(path, nil)) })
		var kvs []attribute.KeyValue
		for i := range n {
			kvs = append(kvs, attribute.Int(fmt.Sprintf("key-%d", i), i))
		}
		_, s := j.tel.StartSpan(j.ctx, "many", kvs[:atStart]...)
		s.SetAttributes(kvs[atStart:]...)
		s.End()
		check(t, j.tel.Shutdown(j.ctx))
		inRecord, inTrace := 0, 0
		for _, r := range j.mem.all() {
			if r.Kind == outputs.KindStop {
				for _, a := range r.Span.Attributes {
					if strings.HasPrefix(string(a.Key), "key-") {
						inRecord++
					}
				}
			}
		}
		for _, e := range dftest.Events(t, path) {
			for _, a := range e.Args {
				if strings.HasPrefix(a.Key, "key-") {
					inTrace++
				}
			}
		}
		if sent := len(j.spans.GetSpans()[0].Attributes); inRecord != n || inTrace != n || sent != n {
			t.Errorf("%d attributes at the start: %d in the record, %d in the trace, %d sent; want %d", atStart, inRecord, inTrace, sent, n)
		}
	}
}

// SetAttrs repairs its own copy of the values.
func TestSetAttrsKeepsTheCallersSlice(t *testing.T) {
	j := newJob(t)
	_, s := j.tel.StartSpan(j.ctx, "span")
	attrs := attributes.From(attribute.String("key", "\xff"))
	s.SetAttrs(attrs...)
	s.End()
	if got := attrs[0].Value.AsString(); got != "\xff" {
		t.Errorf("the caller's value is %q, want it unchanged", got)
	}
	check(t, j.tel.Shutdown(j.ctx))
}
