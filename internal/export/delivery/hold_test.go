package delivery_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A pause that a backend asks for holds for everything sent to it, however long
// it is; waiting items are kept, within the bounds of the queue, and the rest
// is counted.
func TestABackendThatAsksForAPauseIsLeftAlone(t *testing.T) {
	for _, tc := range []struct {
		name        string
		after, want time.Duration // the pause asked for, and the pause kept
	}{
		{"a minute and a half", 90 * time.Second, 90 * time.Second},
		{"an hour", time.Hour, time.Hour},
		{"a year", 365 * 24 * time.Hour, delivery.MaxHold},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls []time.Time
				b := &backend{answer: func(_ context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
					calls = append(calls, time.Now())
					if call == 1 {
						return &delivery.Error{Err: errors.New("busy"), Retry: true, After: tc.after}
					}
					return nil
				}}
				p := delivery.New(b, &delivery.Options{MaxQueue: 20, MaxBatch: 10})
				for range 100 { // the whole pause
					end(p, 1)
					time.Sleep(tc.want / 50)
				}
				if err := p.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if rest := calls[1].Sub(calls[0]); rest != tc.want {
					t.Errorf("the next request came after %v, want %v", rest, tc.want)
				}
				s := p.Stats()
				if s.Exported+s.Dropped[delivery.QueueFull] != 100 || s.Exported < 30 || s.Dropped[delivery.QueueFull] == 0 {
					t.Errorf("stats %+v, want 30 exported or more, the rest of 100 dropped for a full queue", s)
				}
			})
		})
	}
}

// A backend that asks again and again costs one request per pause.
func TestABackendThatAlwaysAsksForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: always(&delivery.Error{Err: errors.New("busy"), Retry: true, After: time.Hour})}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10})
		end(p, 100)
		time.Sleep(10*time.Hour + time.Minute)
		s := p.Stats()
		if s.Attempts > 11 || s.Dropped[delivery.TimedOut] != 50 || s.Pending != 50 {
			t.Errorf("stats %+v, want at most 11 attempts, 50 timed out, 50 pending", s)
		}
		began := time.Now()
		if err := p.ForceFlush(context.Background()); err == nil {
			t.Error("ForceFlush returned no error, want one")
		}
		if err := p.Shutdown(context.Background()); err == nil {
			t.Error("Shutdown returned no error, want one with the spans that were not sent")
		}
		if time.Since(began) != 0 || p.Stats().Attempts != s.Attempts+1 {
			t.Errorf("shutdown took %v and %d requests, want 0 s and 1", time.Since(began), p.Stats().Attempts-s.Attempts)
		}
	})
}

// A shutdown before the end of a pause waits for it, if it can.
func TestShutdownWaitsForTheEndOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: func(_ context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
			if call == 1 {
				return &delivery.Error{Err: errors.New("busy"), Retry: true, After: 10 * time.Second}
			}
			return nil
		}}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10})
		end(p, 10)
		time.Sleep(7 * time.Second)
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		settled(t, p, delivery.Stats{Ended: 10, Exported: 10})
	})
}

// If a backend finds everything too large, halving ends soon.
func TestEverythingIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answer: always(&delivery.Error{Err: errors.New("too large"), TooLarge: true})}
		p := delivery.New(b, &delivery.Options{MaxQueue: 20_000})
		end(p, 10_036)
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		settled(t, p, delivery.Stats{Ended: 10_036, Dropped: drops(delivery.Refused, 10_036)})
		if n := p.Stats().Attempts; n > 40 {
			t.Errorf("%d requests for 20 batches, want at most 40", n)
		}
	})
}

// Only the huge spans themselves are lost, and an answer is forgotten once the
// backend takes something.
func TestHugeSpansAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		huge := map[string]bool{"s0": true, "s1": true, "s77": true, "s511": true}
		b := &backend{answer: func(_ context.Context, _ int, batch []sdktrace.ReadOnlySpan) error {
			for _, s := range batch {
				if huge[s.Name()] {
					return &delivery.Error{Err: errors.New("too large"), TooLarge: true}
				}
			}
			return nil
		}}
		p := delivery.New(b, &delivery.Options{MaxQueue: 20_000})
		for range 3 {
			end(p, 512)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		settled(t, p, delivery.Stats{Ended: 3 * 512, Exported: 3 * 508, Dropped: drops(delivery.Refused, 12)})
	})
}

// With a spill nothing waits in memory for an hour.
func TestAPauseFillsTheSpill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, kept := &backend{answer: always(&delivery.Error{Err: errors.New("busy"), Retry: true, After: time.Hour})}, &memorySpill{room: -1}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10, Spill: kept})
		end(p, 100)
		time.Sleep(time.Minute)
		if s := p.Stats(); s.Spilled != 100 || s.Attempts != 1 {
			t.Errorf("stats %+v, want 100 spilled after 1 attempt", s)
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
