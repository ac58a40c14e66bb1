package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is an exporter that does what its answer says.
type backend struct {
	answer func(ctx context.Context, call int, batch []sdktrace.ReadOnlySpan) error
	tuning delivery.Options

	mu    sync.Mutex
	calls int
	sizes []int
	names []string // names of the accepted spans
	shut  int
}

func (b *backend) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	b.mu.Lock()
	b.calls++
	call := b.calls
	b.sizes = append(b.sizes, len(batch))
	b.mu.Unlock()
	if b.answer != nil {
		if err := b.answer(ctx, call, batch); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range batch {
		b.names = append(b.names, s.Name())
	}
	return nil
}

func (b *backend) Shutdown(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut++
	return nil
}

func (b *backend) Delivery() delivery.Options { return b.tuning }

// memorySpill is a spill in memory.
type memorySpill struct {
	mu     sync.Mutex
	names  []string
	room   int           // negative means no limit
	slow   time.Duration // the time for one batch
	closed int
}

func (s *memorySpill) Keep(ctx context.Context, batch []sdktrace.ReadOnlySpan) (int, error) {
	time.Sleep(s.slow) // in synthetic time
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := len(batch)
	if s.room >= 0 {
		n = min(n, s.room-len(s.names))
	}
	for _, b := range batch[:n] {
		s.names = append(s.names, b.Name())
	}
	if n < len(batch) {
		return n, errors.New("no room")
	}
	return n, nil
}

func (s *memorySpill) Close() error { s.closed++; return nil }

func span(name string, attrs ...attribute.KeyValue) sdktrace.ReadOnlySpan {
	return tracetest.SpanStub{
		Name: name, Attributes: attrs,
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
		}),
	}.Snapshot()
}

func end(p *delivery.Processor, n int) {
	for i := range n {
		p.OnEnd(span(fmt.Sprint("s", i)))
	}
}

// settled checks that the counts add up and nothing is pending.
func settled(t *testing.T, p *delivery.Processor, want delivery.Stats) {
	t.Helper()
	got := p.Stats()
	if got.Ended != got.Exported+got.Spilled+got.DroppedTotal()+got.Pending {
		t.Errorf("stats %+v: want ended = exported + spilled + dropped + pending", got)
	}
	if got.Ended != want.Ended || got.Exported != want.Exported || got.Spilled != want.Spilled ||
		got.Dropped != want.Dropped || got.Pending != 0 {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func drops(c delivery.Cause, n int64) (d [delivery.Causes]int64) {
	d[c] = n
	return d
}
