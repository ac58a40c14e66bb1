package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trainspan/trainspan/internal/export/delivery"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestNearlyFullQueueSpillsInsteadOfDropping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() }}
		s := &memorySpill{room: -1}
		p := delivery.New(b, &delivery.Options{MaxQueue: 100, MaxBatch: 10, Spill: s})
		for range 1000 {
			p.OnEnd(span("x"))
			synctest.Wait() // the other goroutines keep up
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled(t, p, delivery.Stats{Ended: 1000, Spilled: 1000})
		if len(s.names) != 1000 {
			t.Errorf("kept %d, want 1000", len(s.names))
		}
	})
}

// A burst that is faster than the goroutine that moves spans to the spill is
// kept, within the memory bound.
func TestBurstOutrunsTheSpill(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spans  int64
		bytes  int
		atMost int64 // waiting spans, without batches in progress
	}{
		{"ten queues", 1000, 0, 1000},
		{"twenty queues", 2000, 0, 1600},
		{"many bytes", 1000, 20_000, 124},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{answer: func(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() }}
				s := &memorySpill{room: -1}
				p := delivery.New(b, &delivery.Options{MaxQueue: 100, MaxQueueBytes: tc.bytes, MaxBatch: 10, Spill: s})
				s.mu.Lock() // the spill is blocked
				for range tc.spans {
					p.OnEnd(span("x"))
				}
				st := p.Stats()
				s.mu.Unlock()
				if tc.bytes > 0 && st.PendingBytes > int64(tc.bytes) {
					t.Errorf("%d bytes wait, want at most %d", st.PendingBytes, tc.bytes)
				}
				if st.Pending > tc.atMost+2*10 || st.Pending < tc.atMost {
					t.Errorf("%d spans wait, want %d", st.Pending, tc.atMost)
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				got := p.Stats()
				if got.Spilled != st.Pending || int(got.Spilled) != len(s.names) {
					t.Errorf("file has %d spans, stats %+v; want all pending ones spilled", len(s.names), got)
				}
				settled(t, p, delivery.Stats{Ended: tc.spans, Spilled: got.Spilled, Dropped: drops(delivery.QueueFull, tc.spans-got.Spilled)})
			})
		})
	}
}

func TestFullSpillDrops(t *testing.T) {
	b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return errors.New("forbidden") }}
	s := &memorySpill{room: 7}
	p := delivery.New(b, &delivery.Options{MaxBatch: 50, Spill: s}) // nothing is sent before the flush
	end(p, 20)
	if err := p.ForceFlush(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf(`ForceFlush() = %v, want "no room"`, err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{Ended: 20, Spilled: 7, Dropped: drops(delivery.Refused, 13)})
	st := p.Stats()
	if got := st.Summary(); got != "lost 13 of 20 spans: 13 refused by the backend; 7 more are in the spill directory (last error: no room)" {
		t.Errorf("Summary() = %q, want 13 of 20 spans lost, 7 spilled", got)
	}
}
