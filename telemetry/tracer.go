package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/trainspan/trainspan/attributes"
)

// tracerProvider is another tracer provider with the rule of parents and the
// records in front of it.
type tracerProvider struct {
	embedded.TracerProvider
	rec   *recorder
	inner trace.TracerProvider
}

// Tracer implements trace.TracerProvider.
func (t *tracerProvider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{rec: t.rec, inner: t.inner.Tracer(name, options...)}
}

type tracer struct {
	embedded.Tracer
	rec   *recorder
	inner trace.Tracer
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if ctx == nil {
		ctx = context.Background()
	}
	cfg := trace.NewSpanStartConfig(options...)
	p := &startParams{
		name: name, index: -1, at: cfg.Timestamp(), anyTime: true, root: cfg.NewRoot(),
		tracer: t.inner, options: options, attrs: t.rec.repairs.cleanCopy(attributes.From(cfg.Attributes()...)),
	}
	ctx, s, err := t.rec.begin(ctx, p)
	if err != nil {
		return t.inner.Start(ctx, name, options...)
	}
	return ctx, (*contextSpan)(s)
}
