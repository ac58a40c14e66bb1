package main

import (
	"context"
	"errors"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/exporters/otlp"
)

// retrying gives a batch to an exporter again while its receiver is away, and
// in halves while it is too large.
type retrying struct {
	to       sdktrace.SpanExporter
	patience time.Duration
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *retrying) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	deadline := time.Now().Add(r.patience)
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := r.to.ExportSpans(ctx, batch)
		var failure *otlp.Failure
		if !errors.As(err, &failure) {
			return err
		}
		if failure.TooLarge && len(batch) > 1 {
			half := len(batch) / 2
			return errors.Join(r.ExportSpans(ctx, batch[:half]), r.ExportSpans(ctx, batch[half:]))
		}
		if failure.After > 0 {
			pause = failure.After
		}
		if !failure.Retry || time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Shutdown implements sdktrace.SpanExporter.
func (r *retrying) Shutdown(ctx context.Context) error { return r.to.Shutdown(ctx) }
