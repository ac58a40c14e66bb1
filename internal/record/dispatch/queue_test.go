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
	export func(*outputs.Record) error // before the record is kept; nil: nothing
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

func record(n int) outputs.Record {
	return outputs.Record{Kind: outputs.KindEvent, Span: &outputs.SpanData{}, Event: outputs.Event{Time: int64(n)}}
}

// send records as the recorder does.
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

// Records come in the order in which they were pushed, one at a time, whether
// the output has a goroutine of its own or not.
func TestOrder(t *testing.T) {
	for _, inline := range []bool{true, false} {
		busy := make(chan struct{}, 1)
		s := &sink{traits: outputs.Traits{Inline: inline}}
		s.export = func(*outputs.Record) error {
			select {
			case busy <- struct{}{}:
			default:
				t.Error("two exports at a time")
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
			t.Errorf("inline %v: %d records, out of order", inline, len(s.times()))
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
	}
}

// An inline output has every record when the call that recorded it returns.
func TestInlineAtOnce(t *testing.T) {
	s := &sink{traits: outputs.Traits{Inline: true}}
	h := newHub(t, s)
	for i := range 3 {
		send(h, i, 1)
		if n := len(s.times()); n != i+1 {
			t.Fatalf("after %d calls the output has %d records", i+1, n)
		}
	}
	if err := end(h, time.Minute); err != nil {
		t.Error(err)
	}
}

// An output that hangs forever holds up no call for longer than the bound, and
// the end keeps its deadline. Everything that it did not get is counted, the
// record that it hangs on too, also when it comes back later.
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
		synctest.Wait() // it hangs on the first
		send(h, 1, 99)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("calls waited %v", waited)
		}
		start = time.Now()
		err := end(h, time.Second)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the end took %v", took)
		}
		if err == nil || !down {
			t.Errorf("the end gave %v, shut down: %v", err, down)
		}
		health := h.Health()
		if health[0].Dropped != 100 || health[1].Dropped != 0 || len(other.times()) != 100 {
			t.Errorf("%d dropped, %d; the other has %d", health[0].Dropped, health[1].Dropped, len(other.times()))
		}
		close(release)
		synctest.Wait()
		if n := h.Health()[0].Dropped; n != 100 || len(s.times()) > 1 {
			t.Errorf("afterwards %d are dropped, the output took %d", n, len(s.times()))
		}
	})
}

// A crowd waits for its output for a bounded time in all. What is dropped then
// is counted, and reported to the output when it works again.
func TestCrowd(t *testing.T) {
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
			t.Errorf("%d dropped, %d of %d taken", dropped, len(s.times()), n+1)
		}
		if len(s.gaps) != 1 || lost(s.gaps[0]) != dropped {
			t.Errorf("the output got %+v about %d losses", s.gaps, dropped)
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

// An inline output that is slower than the program holds the program up, and
// loses nothing.
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
			t.Errorf("%d of %d records, %d dropped", got, writers*each, dropped)
		}
	})
}

// A flush waits for what came before it, not for what comes meanwhile.
func TestFlushUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		var h *Hub
		s.export = func(r *outputs.Record) error {
			time.Sleep(time.Millisecond)
			if r.Event.Time < 10_000 { // for ten seconds there is always another one
				h.Push(record(int(r.Event.Time)+1), ^filter.Set(0))
			}
			return nil
		}
		h = newHub(t, s)
		h.Push(record(0), ^filter.Set(0))
		start := time.Now()
		if err := h.ForceFlush(context.Background()); err != nil || time.Since(start) > time.Second {
			t.Errorf("the flush took %v: %v", time.Since(start), err)
		}
		if err := end(h, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// An output may use telemetry from Export: what it records is queued.
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
			t.Errorf("inline %v: %v", inline, s.times())
		}
	}
}

// A panic of Export is a failed export. An output that works again counts as
// working, however often it fails; one that never worked is given up, and the
// others are told.
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
		for range 2 { // what is reported of one is still to reach the others
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
			t.Errorf("inline %v: one that fails and works: %+v, %d records", inline, got, len(often.times()))
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
			t.Errorf("inline %v: the other output got %d reports and %d records", inline, told, len(other.times()))
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

// A goroutine that ends in Export, as one of a failed test does, leaves the
// queue usable.
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
		t.Errorf("got %v", got)
	}
	if err := end(h, time.Minute); err != nil {
		t.Error(err)
	}
}
