package exporters

import (
	"context"
	"errors"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry"
)

// finisher closes logs and metrics as a part of the provider's shutdown. It is a
// span processor because those are shut down at the right moment: after the
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
	return errors.Join(f.logs.ForceFlush(ctx), f.metrics.ForceFlush(ctx))
}

// Shutdown implements sdktrace.SpanProcessor. By now every span has ended, and
// what became of them has been told to the native exporters, so the logs are
// complete. Metrics come last, so that they tell what became of the logs; half
// of the time that is left is kept for them.
func (f *finisher) Shutdown(ctx context.Context) error {
	half, cancel := halfOf(ctx)
	err := f.logs.Shutdown(half)
	cancel()
	return errors.Join(err, f.metrics.Shutdown(ctx))
}

// halfOf gives a context that has half of the time left.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	left := telemetry.DefaultShutdownTimeout
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	return context.WithTimeout(ctx, left/2)
}

// openLogs are logs whose shutdown as a native exporter keeps nobody waiting:
// at the end of the application, and when telemetry switches itself off, that
// happens on the goroutine of the training and before the spans are delivered.
// The finisher waits for them.
type openLogs struct{ *otlp.Logs }

// Shutdown implements telemetry.Exporter.
func (l openLogs) Shutdown(context.Context) error {
	l.StartShutdown()
	return nil
}
