package main

import (
	"context"
	"errors"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/internal/delivery"
)

// retrying gives a batch to an exporter again while its receiver is away, and
// in halves while it is too large. All batches together may spend patience on
// attempts that fail and on waiting; after that they fail at once.
type retrying struct {
	to       sdktrace.SpanExporter
	patience time.Duration
	spent    time.Duration
	last     error // of the attempt that used up the patience
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *retrying) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		if r.last != nil {
			return r.last
		}
		began := time.Now()
		err := r.attempt(ctx, batch)
		if err == nil {
			return nil
		}
		var failure *delivery.Error
		if !errors.As(err, &failure) {
			return err
		}
		if failure.TooLarge && len(batch) > 1 {
			half := len(batch) / 2
			return errors.Join(r.ExportSpans(ctx, batch[:half]), r.ExportSpans(ctx, batch[half:]))
		}
		r.spent += time.Since(began)
		if failure.After > 0 {
			pause = failure.After
		}
		if !failure.Retry {
			return err
		}
		if r.spent+pause > r.patience {
			r.last = err
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			r.spent += pause
		}
	}
}

// attempt sends a batch once, for no longer than is left of the patience.
func (r *retrying) attempt(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if r.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.patience-r.spent)
		defer cancel()
	}
	return r.to.ExportSpans(ctx, batch)
}

// Shutdown implements sdktrace.SpanExporter.
func (r *retrying) Shutdown(ctx context.Context) error { return r.to.Shutdown(ctx) }
