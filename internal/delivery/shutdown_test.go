package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/internal/delivery"
)

func TestShutdownKeepsItsDeadline(t *testing.T) {
	down := &delivery.Error{Err: errors.New("connection refused"), Retry: true}
	asks := &delivery.Error{Err: errors.New("busy"), Retry: true, After: 40 * time.Second}
	answers := map[string]func(ctx context.Context, call int, batch []sdktrace.ReadOnlySpan) error{
		"never answers":         func(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() },
		"dead":                  func(context.Context, int, []sdktrace.ReadOnlySpan) error { return down },
		"asks for a long pause": func(context.Context, int, []sdktrace.ReadOnlySpan) error { return asks },
		"does not heed its context": func(context.Context, int, []sdktrace.ReadOnlySpan) error {
			time.Sleep(time.Minute)
			return nil
		},
	}
	for name, answer := range answers {
		for _, spilling := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, spill %v", name, spilling), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, s := &backend{answer: answer}, &shelf{room: -1}
					o := delivery.Options{MaxBatch: 100}
					if spilling {
						o.Spill = s
					}
					p := delivery.New(b, &o)
					end(p, 1000)
					time.Sleep(time.Second) // in the middle of the first batch
					began := time.Now()
					err := p.Shutdown(context.Background())
					if took := time.Since(began); took > delivery.DefaultShutdownTimeout {
						t.Errorf("took %v", took)
					}
					got := p.Stats()
					settled(t, p, delivery.Stats{
						Ended: 1000, Spilled: got.Spilled,
						Dropped: drops(delivery.Shutdown, 1000-got.Spilled),
					})
					heeds := name != "does not heed its context"
					if spilling && heeds && (got.Spilled != 1000 || len(s.names) != 1000 || s.closed != 1) {
						t.Errorf("spilled %d, kept %d, closed %d", got.Spilled, len(s.names), s.closed)
					}
					if lost := got.Dropped[delivery.Shutdown]; (err != nil) != (lost > 0) {
						t.Errorf("lost %d, error %v", lost, err)
					}
					if again := p.Shutdown(context.Background()); again != err {
						t.Errorf("second shutdown: %v", again)
					}
					time.Sleep(time.Hour) // what comes later changes no count
					if later := p.Stats(); later.Exported != got.Exported || later.Dropped != got.Dropped {
						t.Errorf("counts changed after shutdown: %+v", later)
					}
				})
			})
		}
	}
}

func TestShutdownTriesOnceMoreWithoutASpill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error {
			if up.Load() {
				return nil
			}
			return &delivery.Error{Err: errors.New("busy"), Retry: true, After: 40 * time.Second}
		}}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10})
		end(p, 10)
		time.Sleep(time.Second)
		up.Store(true)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled(t, p, delivery.Stats{Ended: 10, Exported: 10})
	})
}

func TestNearlyFullQueueSpillsInsteadOfDropping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() }}
		s := &shelf{room: -1}
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
			t.Errorf("kept %d", len(s.names))
		}
	})
}

// A burst that outruns the goroutine that moves spans to the spill is kept, as
// far as the bytes go.
func TestBurstOutrunsTheSpill(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bytes int
		kept  int64 // at least
	}{
		{"many spans", 0, 1000},
		{"many bytes", 20_000, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{answer: func(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() }}
				s := &shelf{room: -1}
				p := delivery.New(b, &delivery.Options{MaxQueue: 100, MaxQueueBytes: tc.bytes, MaxBatch: 10, Spill: s})
				s.mu.Lock() // the spill stands still
				for range 1000 {
					p.OnEnd(span("x"))
				}
				most := p.Stats().PendingBytes
				s.mu.Unlock()
				if tc.bytes > 0 && most > int64(tc.bytes) {
					t.Errorf("%d bytes wait, want at most %d", most, tc.bytes)
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				got := p.Stats()
				if got.Spilled < tc.kept || int(got.Spilled) != len(s.names) || (got.DroppedTotal() > 0) != (tc.bytes > 0) {
					t.Errorf("kept %d, %+v", len(s.names), got)
				}
				settled(t, p, delivery.Stats{Ended: 1000, Spilled: got.Spilled, Dropped: drops(delivery.QueueFull, 1000-got.Spilled)})
			})
		})
	}
}

func TestFullSpillDrops(t *testing.T) {
	b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return errors.New("forbidden") }}
	s := &shelf{room: 7}
	p := delivery.New(b, &delivery.Options{MaxBatch: 5, Spill: s})
	end(p, 20)
	if err := p.ForceFlush(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("flush: %v", err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{Ended: 20, Spilled: 7, Dropped: drops(delivery.Refused, 13)})
	st := p.Stats()
	if got := st.Summary(); got != "lost 13 of 20 spans: 13 refused by the backend; 7 more wait in the spill directory (last error: no room)" {
		t.Error(got)
	}
}
