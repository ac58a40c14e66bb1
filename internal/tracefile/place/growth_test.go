package place

import (
	"io"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// inputs are the kinds of input that a sender can make large. The size of each is linear
// in n.
var inputs = []struct {
	name string
	n    int
	send func(a *Assembler, n int)
}{
	{"EventsOfAWaitingSpan", 1000, func(a *Assembler, n int) {
		a.Add(node{1, -1, 0, 10}.span(), time.Time{})
		for i := range n {
			a.AddEvent(keyOf(1), Event{Name: "e", Time: int64(i)})
		}
	}},
	{"EventsOfOpenSpans", 1000, func(a *Assembler, n int) {
		for i := range n {
			a.AddEvent(keyOf(i), Event{Name: "e", Time: int64(i)})
		}
	}},
	{"OverlappingSpans", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, -1, int64(i), int64(n + i)}.span(), time.Time{})
		}
	}},
	{"OverlappingChildren", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, n, int64(i), int64(n + i)}.span(), time.Time{})
		}
		a.Add(node{n, -1, 0, int64(2 * n)}.span(), time.Time{})
	}},
	{"OpenParents", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, n + i, int64(i), int64(i + 1)}.span(), time.Time{})
		}
	}},
	{"Depth", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, i - 1, int64(i), int64(4*n - i)}.span(), time.Time{})
		}
	}},
	{"DepthAtOneTime", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, i - 1, 0, 10}.span(), time.Time{})
		}
	}},
	{"DepthOfSpansThatOutlive", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Add(node{i, i - 1, int64(i), int64(2*n + i)}.span(), time.Time{})
		}
	}},
	{"DepthOfOpenSpans", 500, func(a *Assembler, n int) {
		for i := range n {
			a.Begin(keyOf(i), keyOf(i-1), &nodeKey, base+int64(i))
		}
	}},
}

// assembled writes the trace of an input.
func assembled(t testing.TB, send func(a *Assembler, n int), n int) {
	w, err := dftracer.NewWriter(io.Discard, &dftracer.Options{Start: time.UnixMicro(base), Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	a := New(w, Options{TID: 42, MaxWaiting: 8192, MaxParents: 16384, LiveEvents: true})
	send(a, n)
	a.Finish()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGrowth checks that the memory allocated for an input is at most linear in its
// size.
func TestGrowth(t *testing.T) {
	for _, in := range inputs {
		t.Run(in.name, func(t *testing.T) {
			growth.Allocated(t, in.n, func(n int) { assembled(t, in.send, n) })
		})
	}
}

// BenchmarkGrowth measures the time of the inputs, to find nonlinear work that does not
// allocate.
func BenchmarkGrowth(b *testing.B) {
	for _, in := range inputs {
		b.Run(in.name, func(b *testing.B) {
			growth.Bench(b, 40*in.n, func(n int) { assembled(b, in.send, n) })
		})
	}
}

// TestMoreSpansThanLanes checks that, with more concurrent spans than lanes, the excess
// spans share one lane, and that spans on all other lanes still nest, also later.
func TestMoreSpansThanLanes(t *testing.T) {
	h := start(t, Options{})
	const n = 1000
	for i := range n {
		h.add(node{i, -1, int64(i), int64(n + i)}, node{n + i, i, int64(i + 1), int64(n + i)})
		if i%10 == 0 {
			h.WriteAll()
		}
	}
	for i := range n {
		h.add(node{3*n + i, 2*n + i, int64(i), int64(n + i)})
	}
	h.WriteAll()
	h.add(node{9 * n, -1, 3 * n, 3*n + 1})
	h.Begin(keyOf(9*n+1), Key{}, &nodeKey, base)
	report := h.finished()
	if report.Lanes != MaxLanes || report.Counts["torch/n/X"] != 3*n+2 || report.Orphans != 0 {
		t.Errorf("%d lanes, %d orphans, counts %v; want %d, 0, %d spans", report.Lanes, report.Orphans, report.Counts, MaxLanes, 3*n+2)
	}
	if c := h.Counts(); c.SharedLane == 0 {
		t.Errorf("counts %+v, want spans on shared lanes", c)
	}
	told := 0
	for _, ev := range dftest.Events(t, h.path) {
		if key, value := ev.Meta(); ev.Name == tracefile.NameCustom && key == KeySharedLane {
			if told++; value != "256" {
				t.Errorf("there are %s lanes, want \"256\"", value)
			}
		}
		if a, ok := ev.Arg("index"); ok && a.Int64() == 9*n && ev.TID == 0 {
			t.Error("a span is on the shared lane although a lane is free")
		}
	}
	if told != 1 {
		t.Errorf("warned %d times, want 1", told)
	}
}
