package dispatch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is an output for records.
type sink struct {
	outputs.None
	traits outputs.Traits
	export func(*outputs.Record) error // called before the record is kept; may be nil
	down   func(context.Context) error

	mu   sync.Mutex
	got  []int64 // the times of the records
	gaps []outputs.Event
}

func (s *sink) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	s.traits.Ordered = true
	return s.traits, nil
}

func (s *sink) Write(records []outputs.Record) error {
	r := &records[0]
	if s.export != nil {
		if err := s.export(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Kind == outputs.KindDataError {
		s.gaps = append(s.gaps, r.Event)
		return nil
	}
	s.got = append(s.got, r.Event.Time)
	return nil
}

func (s *sink) Shutdown(ctx context.Context) error {
	if s.down != nil {
		return s.down(ctx)
	}
	return nil
}

func (s *sink) times() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func newHub(t testing.TB, outs ...outputs.Output) *Hub {
	t.Helper()
	h := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, out := range outs {
		if err := h.Attach(context.Background(), out, nil, &Offer{Export: config.Export{Mode: config.ExportAll}}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func record(n int) *outputs.Record {
	return &outputs.Record{Kind: outputs.KindEvent, Span: &outputs.SpanData{}, Event: outputs.Event{Time: int64(n)}}
}

// send pushes records like the recorder.
func send(h *Hub, from, n int) {
	for i := range n {
		h.Push(record(from+i), ^filter.Set(0))
		h.Drain()
	}
}

func end(h *Hub, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return h.End(ctx, func() map[string]int64 { return nil })
}

func upTo(n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// TestOrder checks that records are exported in the order of Push, one at a time, for
// inline outputs and for outputs with a goroutine.
func TestOrder(t *testing.T) {
	for _, inline := range []bool{true, false} {
		busy := make(chan struct{}, 1)
		s := &sink{traits: outputs.Traits{Inline: inline}}
		s.export = func(*outputs.Record) error {
			select {
			case busy <- struct{}{}:
			default:
				t.Error("Write was called while another call of it ran")
			}
			runtime.Gosched()
			<-busy
			return nil
		}
		h := newHub(t, s)
		var order sync.Mutex
		next := 0
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 500 {
					order.Lock()
					h.Push(record(next), ^filter.Set(0))
					next++
					order.Unlock()
					h.Drain()
				}
			})
		}
		wg.Wait()
		if err := h.ForceFlush(context.Background()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(s.times(), upTo(2000)) {
			t.Errorf("inline %v: %d records, want 2000 in order", inline, len(s.times()))
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// TestInlineAtOnce checks that an inline output has a record when the call that recorded
// it returns.
func TestInlineAtOnce(t *testing.T) {
	s := &sink{traits: outputs.Traits{Inline: true}}
	h := newHub(t, s)
	for i := range 3 {
		send(h, i, 1)
		if n := len(s.times()); n != i+1 {
			t.Fatalf("after %d calls the output has %d records, want all", i+1, n)
		}
	}
	if err := end(h, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestHungOutput checks that an output that hangs forever blocks calls no longer than
// the bound, and that End keeps its deadline. Every record that the output did not get
// is counted, including the record that it hangs on, even if the output returns later.
func TestHungOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		down := false
		s := &sink{}
		s.export = func(*outputs.Record) error { <-release; return nil }
		s.down = func(context.Context) error { down = true; return nil }
		other := &sink{traits: outputs.Traits{Inline: true}}
		h := newHub(t, s, other)

		start := time.Now()
		send(h, 0, 1)
		synctest.Wait() // the output hangs on the first record
		send(h, 1, 99)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("calls waited %v, want 0", waited)
		}
		start = time.Now()
		err := end(h, time.Second)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the end took %v, want at most %v", took, time.Second)
		}
		if err == nil || !down {
			t.Errorf("Shutdown() = %v, output shut down: %v; want an error and true", err, down)
		}
		health := h.Health()
		if health[0].Dropped != 100 || health[1].Dropped != 0 || len(other.times()) != 100 {
			t.Errorf("%d and %d records dropped, the other output has %d; want 100, 0, 100", health[0].Dropped, health[1].Dropped, len(other.times()))
		}
		close(release)
		synctest.Wait()
		if n := h.Health()[0].Dropped; n != 100 || len(s.times()) > 1 {
			t.Errorf("afterwards %d records dropped, the output has %d; want 100, at most 1", n, len(s.times()))
		}
	})
}

// TestManyCallsForASlowOutput checks that calls wait for an output that falls behind for a bounded total
// time. Dropped records are counted, and reported to the output when it works again.
func TestManyCallsForASlowOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &sink{}
		s.export = func(*outputs.Record) error { <-release; return nil }
		h := newHub(t, s)
		const n = most + 1000
		start := time.Now()
		send(h, 0, n)
		if waited := time.Since(start); waited != patience {
			t.Errorf("calls waited %v in all, not %v", waited, patience)
		}
		close(release)
		if err := h.ForceFlush(context.Background()); err != nil {
			t.Error(err)
		}
		send(h, n, 1)
		if err := end(h, time.Second); err != nil {
			t.Error(err)
		}
		dropped := h.Health()[0].Dropped
		if dropped != n-most || int64(len(s.times())) != n+1-dropped || !slices.IsSorted(s.times()) {
			t.Errorf("%d dropped, %d of %d written; want %d dropped and the rest in order", dropped, len(s.times()), n+1, n-most)
		}
		if len(s.gaps) != 1 || lost(s.gaps[0]) != dropped {
			t.Errorf("gaps %+v, want one of %d records", s.gaps, dropped)
		}
	})
}

func lost(e outputs.Event) (n int64) {
	for _, a := range e.Attributes {
		if a.Key == onelogger.LostRecords {
			n = a.Value.AsInt64()
		}
	}
	return n
}

// TestSlowInlineOutput checks that an inline output that is slower than the program
// blocks the program and loses nothing.
func TestSlowInlineOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{traits: outputs.Traits{Inline: true}}
		s.export = func(*outputs.Record) error { time.Sleep(time.Microsecond); return nil }
		h := newHub(t, s)
		const writers, each = 4, 25_000
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() { send(h, 0, each) })
		}
		wg.Wait()
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
		if got, dropped := len(s.times()), h.Health()[0].Dropped; got != writers*each || dropped != 0 {
			t.Errorf("%d of %d records, %d dropped; want all", got, writers*each, dropped)
		}
	})
}

// TestFlushUnderLoad checks that a flush waits for earlier records, but not for later
// ones.
func TestFlushUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		var h *Hub
		s.export = func(r *outputs.Record) error {
			time.Sleep(time.Millisecond)
			if r.Event.Time < 10_000 { // for ten seconds, each export pushes another record
				h.Push(record(int(r.Event.Time)+1), ^filter.Set(0))
			}
			return nil
		}
		h = newHub(t, s)
		h.Push(record(0), ^filter.Set(0))
		start := time.Now()
		if err := h.ForceFlush(context.Background()); err != nil || time.Since(start) > time.Second {
			t.Errorf("ForceFlush took %v: %v, want at most 1 s and no error", time.Since(start), err)
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestExportThatRecords checks that an output may record telemetry while it exports: the
// records are queued.
func TestExportThatRecords(t *testing.T) {
	for _, inline := range []bool{true, false} {
		s := &sink{traits: outputs.Traits{Inline: inline}}
		var h *Hub
		s.export = func(r *outputs.Record) error {
			if r.Event.Time == 0 {
				send(h, 1, 2)
				_ = h.Health()
			}
			return nil
		}
		h = newHub(t, s)
		send(h, 0, 1)
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
		if !slices.Equal(s.times(), upTo(3)) {
			t.Errorf("inline %v: records %v, want 3 in order", inline, s.times())
		}
	}
}

// TestPanicsAndFailures checks that a panic is a failed export, that an output that has
// worked once is not given up, and that one that never worked is given up and reported
// to the others.
func TestPanicsAndFailures(t *testing.T) {
	for _, inline := range []bool{true, false} {
		often := &sink{traits: outputs.Traits{Inline: inline}}
		often.export = func(r *outputs.Record) error {
			if r.Kind == outputs.KindEvent && r.Event.Time%10 != 0 {
				panic("broken")
			}
			return nil
		}
		never := &sink{traits: outputs.Traits{Inline: inline}, export: func(*outputs.Record) error { return errors.New("refused") }}
		other := &sink{traits: outputs.Traits{Inline: inline}}
		h := newHub(t, often, never, other)
		send(h, 0, 100)
		for range 2 { // the report about one output must still reach the others
			if err := h.ForceFlush(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
		health := h.Health()
		if got := health[0]; got.GivenUp || got.Failures != 90 || got.Dropped != 0 || len(often.times()) != 10 ||
			!strings.Contains(got.LastError.Error(), "broken") {
			t.Errorf("inline %v: output that fails and works: %+v, %d records; want 90 failures, none dropped, 10 records", inline, got, len(often.times()))
		}
		if got := health[1]; !got.GivenUp || got.Failures != maxFailures || got.Dropped < 90 {
			t.Errorf("inline %v: one that never worked: %+v", inline, got)
		}
		told := 0
		for _, e := range other.gaps {
			if strings.Contains(attributeText(e), "disabled") {
				told++
			}
		}
		if told != 1 || len(other.times()) != 100 {
			t.Errorf("inline %v: the other output got %d reports and %d records, want 1 and 100", inline, told, len(other.times()))
		}
	}
}

func attributeText(e outputs.Event) string {
	for _, a := range e.Attributes {
		if a.Key == onelogger.ErrorMessage {
			return a.Value.AsString()
		}
	}
	return ""
}

// TestGoexitInWrite checks that the queue stays usable if a goroutine ends in Write, as
// in a failed test.
func TestGoexitInWrite(t *testing.T) {
	s := &sink{traits: outputs.Traits{Inline: true}}
	s.export = func(r *outputs.Record) error {
		if r.Event.Time == 0 {
			runtime.Goexit()
		}
		return nil
	}
	h := newHub(t, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		send(h, 0, 1)
	}()
	<-done
	send(h, 1, 3)
	if got := s.times(); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("records %v, want 1, 2, 3", got)
	}
	if err := end(h, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestTurnsOfCalls checks that a call does not export for an inline output as long as other calls
// push more than it can take.
func TestTurnsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took, pushers, each = time.Millisecond, 8, 2000
		s := &sink{traits: outputs.Traits{Inline: true}}
		s.export = func(*outputs.Record) error { time.Sleep(took); return nil }
		h := newHub(t, s)
		var wg sync.WaitGroup
		longest := make([]time.Duration, pushers)
		for p := range pushers {
			wg.Go(func() {
				for range each {
					start := time.Now()
					send(h, 0, 1)
					longest[p] = max(longest[p], time.Since(start))
					time.Sleep(took)
				}
			})
		}
		wg.Wait()
		if got, want := slices.Max(longest), (turn+2)*took; got > want {
			t.Errorf("a call took %v, want at most %v", got, want)
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
		if got := len(s.times()); got != pushers*each {
			t.Errorf("%d of %d records are exported, want all", got, pushers*each)
		}
	})
}
