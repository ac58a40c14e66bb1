package delivery_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
)

// The error of a flush that is too late is that of its context: the backend asked for no pause.
func TestFlushAfterTheDeadline(t *testing.T) {
	q := delivery.NewQueue(delivery.Sink[int]{Unit: "items", Export: func(context.Context, []int) error { return nil }}, nil)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := q.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush: %v, want %v", err, context.DeadlineExceeded)
	}
	if err := q.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
