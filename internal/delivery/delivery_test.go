package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/trainspan/trainspan/internal/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is an exporter that does what its answer says.
type backend struct {
	answer func(ctx context.Context, call int, batch []sdktrace.ReadOnlySpan) error
	tuning delivery.Options

	mu    sync.Mutex
	calls int
	sizes []int
	names []string // of spans taken
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

// shelf is a spill in memory.
type shelf struct {
	mu     sync.Mutex
	names  []string
	room   int // negative: without end
	closed int
}

func (s *shelf) Keep(batch []sdktrace.ReadOnlySpan) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (s *shelf) Close() error { s.closed++; return nil }

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
		t.Errorf("counts do not add up: %+v", got)
	}
	if got.Ended != want.Ended || got.Exported != want.Exported || got.Spilled != want.Spilled ||
		got.Dropped != want.Dropped || got.Pending != 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func drops(c delivery.Cause, n int64) (d [delivery.Causes]int64) {
	d[c] = n
	return d
}

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
			t.Fatalf("span %d is %s", i, name)
		}
	}
	if slices.Max(b.sizes) > 64 || b.shut != 1 {
		t.Errorf("batches %v, %d shutdowns", b.sizes, b.shut)
	}
	p.OnEnd(span("late"))
	settled(t, p, delivery.Stats{Ended: 1001, Exported: 1000, Dropped: drops(delivery.Shutdown, 1)})
}

func TestUnsampledSpansAreNobodysBusiness(t *testing.T) {
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
			t.Errorf("full batches first: %+v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := p.Stats(); got.Exported != 25 {
			t.Errorf("the rest after the delay: %+v", got)
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
				var told int64
				tc.o.OnLoss = func(c delivery.Cause, n int64, err error) {
					if c != delivery.QueueFull || err != nil {
						t.Errorf("told %v %v", c, err)
					}
					told += n
				}
				p := delivery.New(b, &tc.o)
				p.OnEnd(span("first")) // occupies the sender
				flushed := make(chan error)
				go func() { flushed <- p.ForceFlush(context.Background()) }()
				synctest.Wait()
				end(p, tc.n)
				close(open)
				if err := <-flushed; err == nil {
					t.Error("a flush in which spans were lost said nothing")
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				lost := int64(tc.n) - tc.kept
				settled(t, p, delivery.Stats{Ended: int64(tc.n) + 1, Exported: 1 + tc.kept, Dropped: drops(delivery.QueueFull, lost)})
				if told != lost {
					t.Errorf("told of %d, lost %d", told, lost)
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
		least   time.Duration // of fake time
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
			name:   "never, if told so",
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
					return errors.New("stream reset") // says nothing of time
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
				var told delivery.Stats
				tc.o.OnLoss = func(c delivery.Cause, n int64, err error) {
					if err == nil {
						t.Error("a loss without a reason")
					}
					told.Dropped[c] += n
				}
				p := delivery.New(b, &tc.o)
				end(p, 10)
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := p.ForceFlush(ctx); (err != nil) != (tc.want.DroppedTotal() > 0) {
					t.Errorf("flush: %v", err)
				}
				took := time.Since(began)
				if took < tc.least || took > tc.most {
					t.Errorf("took %v, want between %v and %v", took, tc.least, tc.most)
				}
				settled(t, p, tc.want)
				if got := p.Stats().Retries; tc.retries >= 0 && got != tc.retries {
					t.Errorf("%d retries, want %d", got, tc.retries)
				}
				if told.Dropped != tc.want.Dropped {
					t.Errorf("told %v, dropped %v", told.Dropped, tc.want.Dropped)
				}
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				settled(t, p, tc.want)
			})
		})
	}
}

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
		t.Errorf("repaired %d, cleaned %v", got, cleaned)
	}
}

func TestPanicsOfOthersHarmNobody(t *testing.T) {
	b := &backend{answer: func(context.Context, int, []sdktrace.ReadOnlySpan) error { return errors.New("refused") }}
	p := delivery.New(b, &delivery.Options{
		Clean:  func(sdktrace.ReadOnlySpan) (sdktrace.ReadOnlySpan, int) { panic("clean") },
		OnLoss: func(delivery.Cause, int64, error) { panic("on loss") },
		Spill:  brokenShelf{},
	})
	p.OnEnd(span("large", attribute.String("k", strings.Repeat("x", 1<<20))))
	p.OnEnd(span("small"))
	_ = p.ForceFlush(t.Context()) // tells of the loss
	if err := p.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "close") {
		t.Errorf("shutdown: %v", err)
	}
	settled(t, p, delivery.Stats{Ended: 2, Dropped: drops(delivery.Refused, 2)})
}

type brokenShelf struct{}

func (brokenShelf) Keep([]sdktrace.ReadOnlySpan) (int, error) { panic("keep") }
func (brokenShelf) Close() error                              { panic("close") }

func TestOptionsOfExporterAndEnvironment(t *testing.T) {
	env := map[string]string{
		"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
		"OTEL_BSP_SCHEDULE_DELAY": "250", "OTEL_BSP_EXPORT_TIMEOUT": "nonsense",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	type plain struct{ sdktrace.SpanExporter }
	for _, tc := range []struct {
		name  string
		wrap  func(*backend) sdktrace.SpanExporter
		o     delivery.Options
		batch int
	}{
		{"code wins", func(b *backend) sdktrace.SpanExporter { return b }, delivery.Options{MaxBatch: 5, LookupEnv: lookup}, 5},
		{"then the exporter", func(b *backend) sdktrace.SpanExporter { return b }, delivery.Options{LookupEnv: lookup}, 3},
		{"then the environment", func(b *backend) sdktrace.SpanExporter { return plain{b} }, delivery.Options{LookupEnv: lookup}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{tuning: delivery.Options{MaxBatch: 3, MaxQueue: 30}}
				tc.o.MaxQueue = 100
				p := delivery.New(tc.wrap(b), &tc.o)
				end(p, 4*tc.batch)
				if err := p.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				if slices.Max(b.sizes) != tc.batch {
					t.Errorf("batches %v, want at most %d", b.sizes, tc.batch)
				}
			})
		})
	}
}

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
	var told atomic.Int64
	p := delivery.New(b, &delivery.Options{
		MaxQueue: 256, MaxBatch: 16, Delay: time.Millisecond,
		OnLoss: func(_ delivery.Cause, n int64, _ error) { told.Add(n) },
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
						t.Errorf("%+v", s)
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
		t.Errorf("%+v", s)
	}
	if told.Load() != s.DroppedTotal() {
		t.Errorf("told %d, dropped %d", told.Load(), s.DroppedTotal())
	}
}

func TestNilProcessor(t *testing.T) {
	var p *delivery.Processor
	p.OnStart(t.Context(), nil)
	p.OnEnd(span("x"))
	if p.ForceFlush(t.Context()) != nil || p.Shutdown(t.Context()) != nil || p.Stats() != (delivery.Stats{}) {
		t.Error("a nil processor did something")
	}
}

func TestOnEndAllocatesNothing(t *testing.T) {
	b := &backend{}
	p := delivery.New(b, &delivery.Options{MaxQueue: 4096, MaxBatch: 4096, Delay: time.Hour})
	s := span("x", attribute.String("k", "v"), attribute.Int("n", 1))
	for range 4096 { // the queue grows to its size
		p.OnEnd(s)
	}
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(2000, func() { p.OnEnd(s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOnEnd(b *testing.B) {
	p := delivery.New(&backend{}, nil)
	s := span("x", attribute.String("k", "v"), attribute.Int("n", 1))
	b.ReportAllocs()
	for b.Loop() {
		p.OnEnd(s)
	}
	if err := p.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
}
