package dispatch

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/internal/spancontext"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// plain is a span processor that is no output: somebody else's, or a decorator
// of an output that shows its OpenTelemetry side only.
type plain struct {
	outputs.None
	sdktrace.SpanProcessor
	offer *outputs.Telemetry
}

// FromProcessor makes an output of a span processor. It gets every span.
func FromProcessor(sp sdktrace.SpanProcessor) outputs.Output {
	if out, ok := sp.(outputs.Output); ok {
		return out
	}
	return &plain{SpanProcessor: sp}
}

// Attach implements outputs.Output.
func (p *plain) Attach(_ context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	p.offer = t
	return outputs.Wants{Spans: true, All: true}, nil
}

// OnStart implements outputs.Output. The context carries what a decorated
// output would have been offered.
func (p *plain) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	p.SpanProcessor.OnStart(spancontext.WithTelemetry(ctx, p.offer), s)
}

// OnEnd implements outputs.Output.
func (p *plain) OnEnd(s sdktrace.ReadOnlySpan) { p.SpanProcessor.OnEnd(s) }

// ForceFlush implements outputs.Output.
func (p *plain) ForceFlush(ctx context.Context) error { return p.SpanProcessor.ForceFlush(ctx) }

// Shutdown implements outputs.Output.
func (p *plain) Shutdown(ctx context.Context) error { return p.SpanProcessor.Shutdown(ctx) }
