package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestEverySpanArrivesInOrder(t *testing.T) {
	b := &backend{}
	p := delivery.New(b, &delivery.Options{MaxQueue: 10000, MaxBatch: 64})
	end(p, 1000)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{Ended: 1000, Exported: 1000})
	for i, name := range b.names {
		if name != fmt.Sprint("s", i) {
			t.Fatalf("span %d is %s, want it in order", i, name)
		}
	}
	if slices.Max(b.sizes) > 64 || b.shut != 1 {
		t.Errorf("batches %v, %d shutdowns; want at most 64 spans each, 1", b.sizes, b.shut)
	}
	p.OnEnd(span("late"))
	settled(t, p, delivery.Stats{Ended: 1001, Exported: 1000, Dropped: drops(delivery.Shutdown, 1)})
}

func TestUnsampledSpansAreIgnored(t *testing.T) {
	b := &backend{}
	p := delivery.New(b, nil)
	p.OnEnd(tracetest.SpanStub{Name: "unsampled"}.Snapshot())
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{})
}

func TestBatchGoesOutWhenFullOrLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		p := delivery.New(b, &delivery.Options{MaxBatch: 10, Delay: time.Second})
		end(p, 25)
		synctest.Wait()
		if got := p.Stats(); got.Exported != 20 || got.Pending != 5 {
			t.Errorf("stats after full batches: %+v, want 20 exported, 5 pending", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := p.Stats(); got.Exported != 25 {
			t.Errorf("stats after the delay: %+v, want 25 exported", got)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFullQueueDropsAndCounts(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    delivery.Options
		n    int
		kept int64
	}{
		{"by number", delivery.Options{MaxQueue: 8, MaxBatch: 8}, 20, 8},
		{"by bytes", delivery.Options{MaxQueueBytes: 1000}, 20, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := make(chan struct{})
				b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { <-open; return nil }}
				var reported int64
				tc.o.OnLoss = func(c delivery.Cause, n int64, err error) {
					if c != delivery.QueueFull || err != nil {
						t.Errorf("reported %v, %v; want %v, no error", c, err, delivery.QueueFull)
					}
					reported += n
				}
				p := delivery.New(b, &tc.o)
				p.OnEnd(span("first")) // occupies the sender
				flushed := make(chan error)
				go func() { flushed <- p.ForceFlush(context.Background()) }()
				synctest.Wait()
				end(p, tc.n)
				close(open)
				if err := <-flushed; err == nil {
					t.Error("ForceFlush returned no error, want one with the lost spans")
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				lost := int64(tc.n) - tc.kept
				settled(t, p, delivery.Stats{Ended: int64(tc.n) + 1, Exported: 1 + tc.kept, Dropped: drops(delivery.QueueFull, lost)})
				if reported != lost {
					t.Errorf("reported %d dropped spans, want %d", reported, lost)
				}
			})
		})
	}
}

func TestOneHugeSpanIsLetIntoAnEmptyQueue(t *testing.T) {
	b := &backend{}
	p := delivery.New(b, &delivery.Options{MaxQueueBytes: 1000})
	p.OnEnd(span("huge", attribute.String("k", strings.Repeat("x", 5000))))
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled(t, p, delivery.Stats{Ended: 1, Exported: 1})
}
