package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/internal/otlpform"
)

// transform makes protocol messages of spans, as OpenTelemetry's own exporter
// does, with valid text only.
func transform(batch []sdktrace.ReadOnlySpan) []*tracepb.ResourceSpans {
	var c catcher
	_ = otlptrace.NewUnstarted(&c).ExportSpans(context.Background(), batch) // the catcher never fails
	otlpform.RepairSpans(c.spans)
	return c.spans
}

// catcher is a client that keeps what it is given.
type catcher struct{ spans []*tracepb.ResourceSpans }

var _ otlptrace.Client = (*catcher)(nil)

// Start implements otlptrace.Client.
func (*catcher) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (*catcher) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (c *catcher) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	c.spans = spans
	return nil
}
