package exporters

import (
	"context"
	"errors"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/exporters/otlp"
)

// finisher flushes logs and metrics as a part of the provider's shutdown. It is
// a span processor because those are shut down at the right moment: after the
// spans have been delivered, so that the metrics tell what became of them; and
// before the native exporters are closed, which happens under the recorder's
// lock, and before the instruments are unregistered.
type finisher struct {
	logs    *otlp.Logs
	metrics *Metrics
}

// OnStart implements sdktrace.SpanProcessor.
func (f *finisher) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (f *finisher) OnEnd(sdktrace.ReadOnlySpan) {}

// ForceFlush implements sdktrace.SpanProcessor.
func (f *finisher) ForceFlush(ctx context.Context) error {
	return both(func() error { return f.logs.ForceFlush(ctx) }, func() error { return f.metrics.ForceFlush(ctx) })
}

// Shutdown implements sdktrace.SpanProcessor. Logs stay open for what the rest
// of the shutdown has to tell. A shutdown of theirs that goes on since the end
// of the application is waited for.
func (f *finisher) Shutdown(ctx context.Context) error {
	return both(func() error {
		_ = f.logs.ForceFlush(ctx) // what is left is told by the shutdown of the logs
		return f.logs.Wait(ctx)
	}, func() error { return f.metrics.Shutdown(ctx) })
}

// both runs two functions at once: neither uses up the deadline of the other.
func both(a, b func() error) error {
	other := make(chan error, 1)
	go func() { other <- b() }()
	return errors.Join(a(), <-other)
}
