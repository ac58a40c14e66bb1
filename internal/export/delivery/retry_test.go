package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestRetry(t *testing.T) {
	unavailable := errors.New("unavailable")
	retry := func(after time.Duration) error {
		return fmt.Errorf("wrapped: %w", &delivery.Error{Err: unavailable, Retry: true, After: after})
	}
	for _, tc := range []struct {
		name    string
		o       delivery.Options
		answer  func(ctx context.Context, call int, batch []sdktrace.ReadOnlySpan) error
		want    delivery.Stats
		retries int64
		least   time.Duration // of synthetic time
		most    time.Duration
	}{
		{
			name: "twice, then taken",
			answer: func(_ context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
				if call <= 2 {
					return retry(0)
				}
				return nil
			},
			want: delivery.Stats{Ended: 10, Exported: 10}, retries: 2,
			least: 500 * time.Millisecond, most: 3 * time.Second,
		},
		{
			name: "the pause that the backend asks for",
			answer: func(_ context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
				if call == 1 {
					return retry(20 * time.Second)
				}
				return nil
			},
			want: delivery.Stats{Ended: 10, Exported: 10}, retries: 1,
			least: 20 * time.Second, most: 20 * time.Second,
		},
		{
			name:    "until the time is over",
			answer:  func(context.Context, int, []sdktrace.ReadOnlySpan) error { return retry(0) },
			want:    delivery.Stats{Ended: 10, Dropped: drops(delivery.TimedOut, 10)},
			retries: -1, least: 30 * time.Second, most: time.Minute,
		},
		{
			name:   "never, if the error says so",
			o:      delivery.Options{RetryFor: -1},
			answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return retry(0) },
			want:   delivery.Stats{Ended: 10, Dropped: drops(delivery.TimedOut, 10)},
		},
		{
			name:   "never after a refusal",
			answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return errors.New("bad request") },
			want:   delivery.Stats{Ended: 10, Dropped: drops(delivery.Refused, 10)},
		},
		{
			name:   "never after a panic",
			answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { panic("broken exporter") },
			want:   delivery.Stats{Ended: 10, Dropped: drops(delivery.Refused, 10)},
		},
		{
			name: "after an attempt without an answer",
			o:    delivery.Options{ExportTimeout: 3 * time.Second},
			answer: func(ctx context.Context, call int, _ []sdktrace.ReadOnlySpan) error {
				if call == 1 {
					<-ctx.Done()
					return errors.New("stream reset") // it does not mention the time
				}
				return nil
			},
			want: delivery.Stats{Ended: 10, Exported: 10}, retries: 1,
			least: 3 * time.Second, most: 5 * time.Second,
		},
		{
			name: "not for what a taken batch lacks",
			answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error {
				return &delivery.Error{Err: errors.New("3 rejected"), Rejected: 3}
			},
			want: delivery.Stats{Ended: 10, Exported: 7, Dropped: drops(delivery.Refused, 3)},
		},
		{
			name: "in halves",
			answer: func(_ context.Context, _ int, batch []sdktrace.ReadOnlySpan) error {
				if len(batch) > 3 || slices.ContainsFunc(batch, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "s4" }) {
					return &delivery.Error{Err: errors.New("too large"), TooLarge: true}
				}
				return nil
			},
			want: delivery.Stats{Ended: 10, Exported: 9, Dropped: drops(delivery.Refused, 1)},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{answer: tc.answer}
				var reported delivery.Stats
				tc.o.OnLoss = func(c delivery.Cause, n int64, err error) {
					if err == nil {
						t.Error("a loss was reported without a reason")
					}
					reported.Dropped[c] += n
				}
				p := delivery.New(b, &tc.o)
				end(p, 10)
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := p.ForceFlush(ctx); (err != nil) != (tc.want.DroppedTotal() > 0) {
					t.Errorf("ForceFlush() = %v, want an error: %v", err, tc.want.DroppedTotal() > 0)
				}
				took := time.Since(began)
				if took < tc.least || took > tc.most {
					t.Errorf("took %v, want between %v and %v", took, tc.least, tc.most)
				}
				settled(t, p, tc.want)
				if got := p.Stats().Retries; tc.retries >= 0 && got != tc.retries {
					t.Errorf("%d retries, want %d", got, tc.retries)
				}
				if reported.Dropped != tc.want.Dropped {
					t.Errorf("reported %v, want %v as dropped", reported.Dropped, tc.want.Dropped)
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				settled(t, p, tc.want)
			})
		})
	}
}

// waited is an exporter whose caller waits, with an answer for each call.
type waited struct {
	o      delivery.Options
	sizes  []int
	answer func(call, n int) error
}

func (w *waited) Delivery() delivery.Options { return w.o }

func (w *waited) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	w.sizes = append(w.sizes, len(batch))
	return w.answer(len(w.sizes), len(batch))
}

func (w *waited) Shutdown(context.Context) error { return nil }

// All batches share the time in which a backend may be unreachable.
func TestPatientGivesUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &waited{o: delivery.Options{RetryFor: 2 * time.Second}, answer: func(int, int) error {
			return &delivery.Error{Err: errors.New("nobody is there"), Retry: true}
		}}
		exp := delivery.Patient(to)
		began := time.Now()
		for range 100 {
			if err := exp.ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 1)); err == nil {
				t.Fatal("the spans were delivered, want an error")
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s for a patience of 2s, want at most %s", took, 2*time.Second)
		}
		if n := len(to.sizes); n < 2 || n > 10 {
			t.Errorf("%d attempts, want 2 to 10", n)
		}
	})
}

// A batch is retried, and in halves if it is too large.
func TestPatientDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &waited{answer: func(call, n int) error {
			if call <= 2 {
				return &delivery.Error{Err: errors.New("busy"), Retry: true}
			}
			if n > 2 {
				return &delivery.Error{Err: errors.New("too large"), TooLarge: true}
			}
			return nil
		}}
		if err := delivery.Patient(to).ExportSpans(t.Context(), make([]sdktrace.ReadOnlySpan, 5)); err != nil {
			t.Error(err)
		}
		if want := []int{5, 5, 5, 2, 3, 1, 2}; !slices.Equal(to.sizes, want) {
			t.Errorf("sent %v, want %v", to.sizes, want)
		}
	})
}
