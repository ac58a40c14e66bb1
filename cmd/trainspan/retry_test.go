package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/internal/delivery"
)

// awayExporter is a receiver that never answers.
type awayExporter struct{ calls int }

func (e *awayExporter) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	e.calls++
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
	return &delivery.Error{Err: errors.New("nobody is there"), Retry: true}
}

func (e *awayExporter) Shutdown(context.Context) error { return nil }

// All batches of a command share one patience.
func TestRetriesShareOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &awayExporter{}
		r := &retrying{to: away, patience: 2 * time.Second}
		began := time.Now()
		for range 100 {
			if err := r.ExportSpans(t.Context(), nil); err == nil {
				t.Fatal("delivered")
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s for a patience of 2s", took)
		}
		if away.calls == 0 || away.calls > 10 {
			t.Errorf("%d attempts", away.calls)
		}
	})
}

type flakyExporter struct{ fails int }

func (e *flakyExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	if e.fails > 0 {
		e.fails--
		return &delivery.Error{Err: errors.New("busy"), Retry: true}
	}
	return nil
}

func (e *flakyExporter) Shutdown(context.Context) error { return nil }

func TestRetryingDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &retrying{to: &flakyExporter{fails: 2}, patience: time.Minute}
		if err := r.ExportSpans(t.Context(), nil); err != nil || r.spent != 1500*time.Millisecond {
			t.Errorf("%v after %s", err, r.spent)
		}
	})
}
