package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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
					b, s := &backend{answer: answer}, &memorySpill{room: -1}
					o := delivery.Options{MaxBatch: 100}
					if spilling {
						o.Spill = s
					}
					p := delivery.New(b, &o)
					end(p, 1000)
					time.Sleep(time.Second) // during the first batch
					began := time.Now()
					err := p.Shutdown(context.Background())
					if took := time.Since(began); took > delivery.DefaultShutdownTimeout {
						t.Errorf("took %v, want at most %v", took, delivery.DefaultShutdownTimeout)
					}
					got := p.Stats()
					settled(t, p, delivery.Stats{
						Ended: 1000, Spilled: got.Spilled,
						Dropped: drops(delivery.Shutdown, 1000-got.Spilled),
					})
					if spilling && (got.Spilled != 1000 || len(s.names) != 1000) {
						t.Errorf("spilled %d, file has %d; want 1000 each", got.Spilled, len(s.names))
					}
					if heeds := name != "does not heed its context"; spilling && heeds && s.closed != 1 {
						t.Errorf("spill was closed %d times, want once", s.closed)
					}
					if lost := got.Dropped[delivery.Shutdown]; (err != nil) != (lost > 0) {
						t.Errorf("%d spans lost, error %v; want an error only if spans are lost", lost, err)
					}
					if again := p.Shutdown(context.Background()); again != err {
						t.Errorf("second shutdown: %v, want %v", again, err)
					}
					time.Sleep(time.Hour) // later events change no count
					if later := p.Stats(); later.Exported != got.Exported || later.Dropped != got.Dropped {
						t.Errorf("counts after the shutdown %+v, want %+v as at its end", later, got)
					}
				})
			})
		}
	}
}

// Waiting items go to the spill before the deadline, however slow it is, and
// what counts as lost is not there.
func TestShutdownSpillsInTime(t *testing.T) {
	for _, tc := range []struct {
		slow  time.Duration // for a batch of 100
		least int           // the least number of kept spans
	}{{0, 1000}, {150 * time.Millisecond, 1000}, {250 * time.Millisecond, 900}, {600 * time.Millisecond, 300}, {time.Minute, 0}} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, not heeding %v", tc.slow, busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &backend{answer: func(ctx context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
						if busy && call == 1 {
							time.Sleep(time.Hour)
						}
						<-ctx.Done()
						return ctx.Err()
					}}
					s := &memorySpill{room: -1, slow: tc.slow}
					p := delivery.New(b, &delivery.Options{MaxBatch: 100, Spill: s})
					end(p, 1000)
					began := time.Now()
					_ = p.Shutdown(context.Background())
					if took := time.Since(began); took > delivery.DefaultShutdownTimeout {
						t.Errorf("took %v, want at most %v", took, delivery.DefaultShutdownTimeout)
					}
					got := p.Stats()
					s.mu.Lock()
					kept := len(s.names)
					s.mu.Unlock()
					if int(got.Spilled) != kept || kept < tc.least {
						t.Errorf("spilled %d, kept %d, want %d", got.Spilled, kept, tc.least)
					}
					settled(t, p, delivery.Stats{Ended: 1000, Spilled: got.Spilled, Dropped: drops(delivery.Shutdown, 1000-got.Spilled)})
					time.Sleep(2 * time.Hour)
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
