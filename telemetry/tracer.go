package telemetry

import (
	"context"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/trainspan/trainspan/attributes"
)

// tracerProvider is the SDK's tracer provider, with the rule of parents and
// the native exporters in front of it.
type tracerProvider struct {
	embedded.TracerProvider
	rec *Recorder
	sdk *sdktrace.TracerProvider
}

// Tracer implements trace.TracerProvider.
func (t *tracerProvider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{rec: t.rec, inner: t.sdk.Tracer(name, options...)}
}

type tracer struct {
	embedded.Tracer
	rec   *Recorder
	inner trace.Tracer
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if ctx == nil {
		ctx = context.Background()
	}
	if len(t.rec.sinks) == 0 && t.rec.traces == nil { // never changes after the provider was made
		return t.inner.Start(t.rec.adopt(ctx), name, options...)
	}
	cfg := trace.NewSpanStartConfig(options...)
	p := &startParams{
		name: name, index: -1, at: cfg.Timestamp(), anyTime: true, root: cfg.NewRoot(),
		tracer: t.inner, options: options, attrs: t.rec.cleanCopy(attrsOf(&cfg)),
	}
	ctx, s, err := t.rec.begin(ctx, p)
	if err != nil {
		return t.inner.Start(ctx, name, options...)
	}
	return ctx, (*contextSpan)(s)
}

// adopt gives a context without a span the latest span of a callback.
func (r *Recorder) adopt(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	s := r.current.Load()
	if s == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, (*contextSpan)(s))
}

// withTime adds the start time that the recorder took.
func withTime(options []trace.SpanStartOption, ns int64) []trace.SpanStartOption {
	all := make([]trace.SpanStartOption, 0, len(options)+1)
	return append(append(all, options...), trace.WithTimestamp(time.Unix(0, ns)))
}

// attrsOf are the attributes that a span of the plain API starts with.
func attrsOf(cfg *trace.SpanConfig) []attributes.Attr {
	return attributes.From(cfg.Attributes()...)
}
