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

var (
	gone = &delivery.Error{Err: errors.New("connection refused"), Retry: true, NoAnswer: true}
	busy = &delivery.Error{Err: errors.New("busy"), Retry: true}
)

func always(e *delivery.Error) func(context.Context, int, []sdktrace.ReadOnlySpan) error {
	return func(context.Context, int, []sdktrace.ReadOnlySpan) error { return e }
}

func silent(ctx context.Context, _ int, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

// What a backend costs the end of a job depends on how long it has been
// unreachable.
func TestShutdownWaitsForABackendThatMayComeBack(t *testing.T) {
	type answer = func(context.Context, int, []sdktrace.ReadOnlySpan) error
	const quick, fifth, whole = delivery.DefaultRetryFirst, 950 * time.Millisecond, 4750 * time.Millisecond
	for _, tc := range []struct {
		name     string
		o        delivery.Options
		before   answer        // how the backend answers at first; nil takes everything
		then     answer        // and from one second later on
		after    time.Duration // how long the job continues then
		most     time.Duration // the most synthetic time for the shutdown
		attempts int64         // the most attempts after the shutdown began, including one in progress; zero means any number
	}{
		{name: "never tried, not there", then: always(gone), most: quick, attempts: 3},
		{name: "never there", before: always(gone), then: always(gone), after: 20 * time.Second, most: quick, attempts: 3},
		{name: "never answered", before: silent, then: silent, after: 40 * time.Second, most: fifth, attempts: 3},
		{name: "gone for an hour", then: always(gone), after: time.Hour, most: quick, attempts: 3},
		{name: "silent for an hour", then: silent, after: time.Hour, most: fifth, attempts: 3},
		{name: "busy for an hour", then: always(busy), after: time.Hour, most: quick, attempts: 3},
		{name: "gone just now", then: always(gone), after: 20 * time.Second, most: whole},
		{name: "silent just now", then: silent, after: 10 * time.Second, most: whole},
		{name: "busy just now", then: always(busy), after: 10 * time.Second, most: whole},
		{name: "asks for more time than there is", then: always(&delivery.Error{Err: busy.Err, Retry: true, After: 40 * time.Second}), after: 10 * time.Second, most: 0, attempts: 1},
		{name: "one attempt only, gone", o: delivery.Options{RetryFor: -1}, then: always(gone), after: time.Hour, most: 0, attempts: 4},
		{name: "one attempt only, busy", o: delivery.Options{RetryFor: -1}, then: always(busy), after: time.Second, most: 0, attempts: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := tc.after > 0 // otherwise the job ends before it sends anything
				began := time.Now()
				b := &backend{answer: func(ctx context.Context, call int, batch []sdktrace.ReadOnlySpan) error {
					do := tc.then
					if tried && time.Since(began) < time.Second {
						do = tc.before
					}
					if do == nil {
						return nil
					}
					return do(ctx, call, batch)
				}}
				tc.o.MaxBatch = 10
				p := delivery.New(b, &tc.o)
				if tried {
					end(p, 10)
					time.Sleep(time.Second)
					end(p, 20)
					time.Sleep(tc.after)
				}
				end(p, 40)
				before := p.Stats()
				left := time.Now()
				err := p.Shutdown(context.Background())
				took := time.Since(left)
				if took > tc.most || tc.most == whole && took < whole-whole/20-1 {
					t.Errorf("took %v, want %v at most", took, tc.most)
				}
				after := p.Stats()
				if (err == nil) != (after.Dropped[delivery.Shutdown] == 0) || after.Pending != 0 || after.Exported != before.Exported || after.DroppedTotal()+after.Exported != after.Ended {
					t.Errorf("Shutdown() = %v, stats %+v; want an error only if spans were dropped, nothing pending", err, after)
				}
				if n := after.Attempts - before.Attempts; tc.attempts > 0 && n > tc.attempts || n == 0 && !tried {
					t.Errorf("%d attempts, want 1 to %d", n, tc.attempts)
				}
			})
		})
	}
}

// A backend that starts again while the job ends gets everything, whether it
// was unreachable for a moment or for an hour.
func TestShutdownFindsABackendThatIsBack(t *testing.T) {
	for _, tc := range []struct {
		name       string
		away, back time.Duration // before the shutdown, and after it began
	}{
		{"after three seconds", 10 * time.Second, 3 * time.Second},
		{"at the second look", time.Hour, delivery.DefaultRetryFirst / 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error {
					if d := time.Since(began); d > time.Second && d < time.Second+tc.away+tc.back {
						return gone
					}
					return nil
				}}
				p := delivery.New(b, &delivery.Options{MaxBatch: 10, Delay: time.Hour})
				end(p, 10)
				time.Sleep(time.Second)
				synctest.Wait()
				time.Sleep(time.Nanosecond)
				end(p, 10)
				time.Sleep(tc.away)
				end(p, 40)
				before := p.Stats()
				lost := before.DroppedTotal() // during the hour
				if err := p.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				settled(t, p, delivery.Stats{Ended: 60, Exported: 60 - lost, Dropped: drops(delivery.TimedOut, lost)})
			})
		})
	}
}

// An attempt in progress when the job ends is not one of the two attempts,
// because it may have an outdated result.
func TestShutdownLooksTwiceAfterAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := &backend{answer: func(_ context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
			switch call {
			case 1:
				<-release
				return gone
			case 2:
				return gone
			}
			return nil
		}}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10})
		end(p, 10)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- p.Shutdown(context.Background()) }()
		synctest.Wait()
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		settled(t, p, delivery.Stats{Ended: 10, Exported: 10})
	})
}

// With a spill nothing waits: what an unreachable backend does not take is
// kept.
func TestShutdownSpillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := &backend{answer: always(gone)}, &memorySpill{room: -1}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10, Spill: s})
		end(p, 50)
		began := time.Now()
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v, want 0", took)
		}
		settled(t, p, delivery.Stats{Ended: 50, Spilled: 50})
		if n := p.Stats().Attempts; n > 2 {
			t.Errorf("%d attempts, want at most 2", n)
		}
	})
}

// Any answer shows that the backend is reachable.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h delivery.Health
		expect := func(what string, want bool) {
			t.Helper()
			if got := h.Unreachable(time.Minute); got != want {
				t.Errorf("%s: unreachable is %v, want %v", what, got, want)
			}
		}
		expect("never tried", false)
		h.Note(gone)
		expect("tried in vain", true)
		h.Note(busy)
		expect("busy", false)
		time.Sleep(time.Hour)
		expect("busy for an hour", true)
		h.Note(&delivery.Error{Err: errors.New("refused")})
		expect("refused", false)
		h.Note(gone)
		expect("gone since a moment", false)
		time.Sleep(time.Hour)
		expect("gone for an hour", true)
		h.Note(nil)
		expect("back", false)
	})
}
