package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func TestClean(t *testing.T) {
	b := &backend{}
	var mu sync.Mutex
	var cleaned []string
	p := delivery.New(b, &delivery.Options{
		MaxQueueBytes: 100 << 10,
		Clean: func(s sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int) {
			mu.Lock()
			defer mu.Unlock()
			cleaned = append(cleaned, s.Name())
			if len(s.Attributes()) == 0 {
				return s, 0
			}
			return span("short"), 1
		},
	})
	p.OnEnd(span("plain"))
	for range 10 { // 1 MB each: they fit only because they are cut at once
		p.OnEnd(span("long", attribute.String("k", strings.Repeat("x", 1<<20))))
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{Ended: 11, Exported: 11})
	if got := p.Stats().Repaired; got != 10 || !slices.Contains(cleaned, "plain") {
		t.Errorf("repaired %d, cleaned %v; want 10 and plain unchanged", got, cleaned)
	}
}

func TestPanicsOfOthersHarmNobody(t *testing.T) {
	b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return errors.New("refused") }}
	p := delivery.New(b, &delivery.Options{
		Clean:  func(sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int) { panic("clean") },
		OnLoss: func(delivery.Cause, int64, error) { panic("on loss") },
		Spill:  brokenSpill{},
	})
	p.OnEnd(span("large", attribute.String("k", strings.Repeat("x", 1<<20))))
	p.OnEnd(span("small"))
	_ = p.ForceFlush(t.Context()) // returns the loss
	if err := p.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "close") {
		t.Errorf("Shutdown() = %v, want an error of close", err)
	}
	settled(t, p, delivery.Stats{Ended: 2, Dropped: drops(delivery.Refused, 2)})
}

type brokenSpill struct{}

func (brokenSpill) Keep(context.Context, []sdktrace.ReadOnlySpan) (int, error) { panic("keep") }
func (brokenSpill) Close() error                                               { panic("close") }

func TestConcurrentUse(t *testing.T) {
	b := &backend{answer: func(_ context.Context, call int, batch []sdktrace.ReadOnlySpan) error {
		switch {
		case call%7 == 0:
			return errors.New("refused")
		case call%5 == 0:
			return &delivery.Error{Err: errors.New("partial"), Rejected: 1 + call%len(batch)}
		}
		return nil
	}}
	var reported atomic.Int64
	p := delivery.New(b, &delivery.Options{
		MaxQueue: 256, MaxBatch: 16, Delay: time.Millisecond,
		OnLoss: func(_ delivery.Cause, n int64, _ error) { reported.Add(n) },
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				p.OnEnd(span("x"))
				if i%500 == 0 {
					_ = p.ForceFlush(context.Background()) // losses are expected
					s := p.Stats()
					if s.Pending < 0 || s.PendingBytes < 0 {
						t.Errorf("stats %+v, want no negative number of pending spans", s)
					}
				}
			}
		})
	}
	wg.Wait()
	for range 3 {
		wg.Go(func() { _ = p.Shutdown(context.Background()) })
	}
	wg.Wait()
	s := p.Stats()
	if s.Ended != 16000 || s.Pending != 0 || s.Exported+s.DroppedTotal() != s.Ended {
		t.Errorf("stats %+v, want 16000 ended, all exported or dropped", s)
	}
	if reported.Load() != s.DroppedTotal() {
		t.Errorf("reported %d dropped spans, want %d as in the stats", reported.Load(), s.DroppedTotal())
	}
}

func TestNilProcessor(t *testing.T) {
	var p *delivery.Processor
	p.OnStart(t.Context(), nil)
	p.OnEnd(span("x"))
	if p.ForceFlush(t.Context()) != nil || p.Shutdown(t.Context()) != nil || p.Stats() != (delivery.Stats{}) {
		t.Error("a nil processor returned values, want a no-op")
	}
}
