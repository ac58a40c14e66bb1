package place

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// base is the start of the first span in tests, in microseconds since the epoch.
const base = 1_700_000_000_000_000

var nodeKey = dftracer.NewKey("torch", "n")

// harness is an assembler and its file.
type harness struct {
	*Assembler
	t    testing.TB
	path string
	w    *dftracer.Writer
}

func start(t testing.TB, o Options) *harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, &dftracer.Options{Start: time.UnixMicro(base)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 10_000
	}
	if o.MaxParents == 0 {
		o.MaxParents = 10_000
	}
	o.TID, o.LiveEvents = 42, true
	return &harness{New(w, o), t, path, w}
}

// finished completes the file and checks it.
func (h *harness) finished() dftracer.Report {
	h.t.Helper()
	h.Finish()
	if err := h.w.Close(); err != nil {
		h.t.Fatal(err)
	}
	return dftest.Check(h.t, h.path)
}

// node is a span of a random job. Its times are relative to base.
type node struct {
	index, parent int // parent -1 means no parent
	start, end    int64
}

func keyOf(index int) (k Key) {
	if index >= 0 {
		k.Trace[0] = 1
		binary.BigEndian.PutUint64(k.Span[:], uint64(index)+1<<40)
	}
	return k
}

func (h *harness) add(list ...node) {
	for _, n := range list {
		h.Add(n.span(), time.Time{})
	}
}

func (n node) span() *Span {
	return &Span{
		Key: keyOf(n.index), Parent: keyOf(n.parent), Name: &nodeKey, Start: base + n.start, End: base + n.end,
		Args: []dftracer.Arg{dftracer.Int("index", int64(n.index))},
	}
}

// grow returns nested and concurrent spans, in the order of their ends.
func grow(r *rand.Rand, count int) []node {
	list := []node{{0, -1, 0, 1_000_000_000}}
	for len(list) < count {
		p := list[r.IntN(len(list))]
		if p.end-p.start < 10 {
			continue
		}
		a := p.start + r.Int64N(p.end-p.start)
		b := a + r.Int64N(p.end-a+1)
		list = append(list, node{len(list), p.index, a, b})
	}
	slices.SortStableFunc(list, func(a, b node) int {
		if a.end != b.end {
			return int(a.end - b.end)
		}
		return b.index - a.index
	})
	return list
}

// TestAnyOrder checks that, for any order of arrival, each span is in the file once,
// below its own parent, and that the trace is valid: no lane has partially overlapping
// spans. Suspending the file in between must not change this.
func TestAnyOrder(t *testing.T) {
	orders := map[string]func(*rand.Rand, []node){
		"ends": func(*rand.Rand, []node) {},
		"jitter": func(r *rand.Rand, l []node) {
			for i := range l {
				if j := min(i+r.IntN(20), len(l)-1); j > i {
					l[i], l[j] = l[j], l[i]
				}
			}
		},
		"shuffled": func(r *rand.Rand, l []node) { r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) },
		"reversed": func(_ *rand.Rand, l []node) { slices.Reverse(l) },
	}
	for name, mix := range orders {
		for batches, largest := range map[string]int{"one by one": 1, "in batches": 30} {
			t.Run(name+" "+batches, func(t *testing.T) {
				for seed := range uint64(5) {
					rnd := rand.New(rand.NewPCG(seed, 7))
					list := grow(rnd, 600)
					mix(rnd, list)
					h := start(t, Options{MaxWaiting: 50})
					for from := 0; from < len(list); {
						if largest == 1 && rnd.IntN(2) == 0 {
							h.Write(list[from].span())
							from++
							continue
						}
						n := min(1+rnd.IntN(largest), len(list)-from)
						h.add(list[from : from+n]...)
						from += n
						if rnd.IntN(3) == 0 || largest == 1 {
							h.WriteAll()
						}
						if rnd.IntN(10) == 0 {
							h.Shrink(10_000)
						}
					}
					report := h.finished()
					if report.Events != len(list)+2 {
						t.Errorf("%d events, want %d", report.Events, len(list)+2)
					}
					if c := h.Counts(); c.Spans != int64(len(list)) || c.Unfinished != 0 {
						t.Errorf("counts %+v, want %d spans, none unfinished", c, len(list))
					}
					checkParents(t, h.path, list)
					if t.Failed() {
						t.Fatalf("seed %d fails", seed)
					}
				}
			})
		}
	}
}

func checkParents(t *testing.T, path string, list []node) {
	t.Helper()
	ids := make(map[uint64]int64)
	parents := make(map[int64]int64)
	for _, ev := range dftest.Events(t, path) {
		if a, ok := ev.Arg("index"); ok {
			ids[ev.ID] = a.Int64()
			parents[a.Int64()] = ev.Parent
		}
	}
	for _, n := range list {
		got := int64(-1)
		if p := parents[int64(n.index)]; p != dftracer.NoParent {
			var ok bool
			if got, ok = ids[uint64(p)]; !ok {
				t.Errorf("span %d has the unknown parent %d, want a span of the file", n.index, p)
			}
		}
		if got != int64(n.parent) {
			t.Errorf("span %d is below %d, want %d", n.index, got, n.parent)
		}
	}
}

// TestLongLoopStaysSmall checks that memory and lanes stay constant while a loop with
// many iterations is open.
func TestLongLoopStaysSmall(t *testing.T) {
	for name, single := range map[string]bool{"in batches": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			h := start(t, Options{MaxParents: 500})
			const rounds = 400
			var last int64
			send := func(list ...node) {
				for i, n := range list {
					h.add(n)
					if single || i == len(list)-1 {
						h.WriteAll()
					}
				}
			}
			for i := range rounds {
				var list []node
				for j := range 10 {
					first, begin := 10+(i*10+j)*2, int64(20+(i*10+j)*100)
					list = append(list, node{first, first + 1, begin + 1, begin + 50}, node{first + 1, 2, begin, begin + 90})
					last = begin + 90
				}
				if i%20 == 19 { // a validation that stays open over several batches
					v := 1_000_000 + i
					for k := range 3 {
						list = append(list, node{v*10 + k, v, last + int64(k), last + int64(k) + 1})
					}
					send(list...)
					list = []node{{v, 2, last, last + 5}}
				}
				send(list...)
			}
			if n := len(h.family.known); n > 1001 {
				t.Errorf("%d spans are remembered, want at most 1001", n)
			}
			if h.waiting.n != 0 || h.waiting.bytes != 0 {
				t.Errorf("%d spans and %d bytes wait, want none", h.waiting.n, h.waiting.bytes)
			}
			for i, l := range h.lanes.rows.rows {
				for depth, list := range l.levels {
					if len(list) > maxTail {
						t.Errorf("lane %d has %d intervals at depth %d, want at most %d", i, len(list), depth, maxTail)
					}
				}
			}
			send(node{2, -1, 0, last + 10})
			if report := h.finished(); report.Lanes > 3 {
				t.Errorf("%d lanes, want at most 3", report.Lanes)
			}
		})
	}
}

func TestForgottenParents(t *testing.T) {
	h := start(t, Options{MaxParents: 5})
	for i := range 50 {
		h.add(node{100 + i, 1000 + i, int64(10 * i), int64(10*i + 5)})
		h.WriteAll()
	}
	if report := h.finished(); report.Counts["otel/unfinished/X"] != 50 {
		t.Errorf("counts %v, want 50 unfinished spans", report.Counts)
	}
}

// TestShrink checks that Shrink forgets the oldest spans and keeps the others.
func TestShrink(t *testing.T) {
	h := start(t, Options{})
	for i := range 50 {
		h.add(node{100 + i, 1000 + i, int64(10 * i), int64(10*i + 5)})
	}
	h.Shrink(10)
	if n := len(h.family.known); n != 20 {
		t.Errorf("%d spans are remembered, want 20", n)
	}
	for i := range 50 { // the last ten find their children
		h.add(node{1000 + i, -1, int64(10 * i), int64(10*i + 6)})
	}
	if report := h.finished(); report.Counts["otel/unfinished/X"] != 40 || report.Counts["torch/n/X"] != 100 {
		t.Errorf("counts %v, want 40 unfinished spans of 100", report.Counts)
	}
}

func TestSpansThatAreTheirOwnAncestors(t *testing.T) {
	h := start(t, Options{})
	h.add(node{1, 2, 0, 9}, node{2, 3, 0, 9}, node{3, 1, 0, 9}, node{4, 4, 0, 9}, node{5, 1, 1, 2}, node{6, 7, 0, 9})
	h.WriteAll()
	h.add(node{7, 6, 0, 9})
	if report := h.finished(); report.Counts["torch/n/X"] != 7 {
		t.Errorf("counts %v, want 7 spans", report.Counts)
	}
}

// TestSpansWithoutIDs checks that spans without an id are no duplicates of each other.
func TestSpansWithoutIDs(t *testing.T) {
	h := start(t, Options{})
	h.add(node{1, -1, 0, 100})
	for i := range 3 {
		s := node{-1, 1, int64(10 * i), int64(10*i + 5)}.span()
		s.Args = []dftracer.Arg{dftracer.Int("index", int64(10+i))}
		h.Add(s, time.Time{})
	}
	report := h.finished()
	if c := h.Counts(); report.Counts["torch/n/X"] != 4 || c.Duplicates != 0 || report.Orphans != 0 {
		t.Errorf("%d spans, %d duplicates, %d orphans, want 4, 0, 0", report.Counts["torch/n/X"], c.Duplicates, report.Orphans)
	}
}

// TestEventsComeOnce checks that an event that is sent alone and with its span is in the file
// once, whichever comes first, and that other events of the span are there too.
func TestEventsComeOnce(t *testing.T) {
	event := func(name string) Event { return Event{Name: name, Time: (base + 5) * 1000} }
	span := func(events ...string) *Span {
		s := node{1, -1, 0, 10}.span()
		for _, name := range events {
			s.Events = append(s.Events, event(name))
		}
		return s
	}
	for name, c := range map[string]struct {
		before, with, waiting, after []string // when the events are sent, relative to the span
		want                         int
	}{
		"with the span":            {nil, []string{"a", "b"}, nil, nil, 2},
		"before it":                {[]string{"a"}, []string{"a", "b"}, nil, nil, 2},
		"only before it":           {[]string{"a", "b", "a"}, nil, nil, nil, 2},
		"while it waits":           {nil, []string{"a"}, []string{"a", "b", "b"}, nil, 2},
		"after it was written":     {nil, []string{"a"}, nil, []string{"a", "b", "b"}, 2},
		"at all times":             {[]string{"a", "b"}, []string{"a", "c"}, []string{"b", "c", "d"}, []string{"a", "b", "c", "d", "e"}, 5},
		"before and after it":      {[]string{"a"}, nil, nil, []string{"a"}, 1},
		"while it waits and after": {nil, nil, []string{"a"}, []string{"a"}, 1},
	} {
		h := start(t, Options{})
		send := func(names []string) {
			for _, name := range names {
				h.AddEvent(keyOf(1), event(name))
			}
		}
		send(c.before)
		h.Add(span(c.with...), time.Time{})
		send(c.waiting)
		h.WriteAll()
		send(c.after)
		h.finished()
		if got := h.Counts().Events; int(got) != c.want {
			t.Errorf("%s: %d events, want %d", name, got, c.want)
		}
	}
}

// TestAddReturnsTheID checks that Add and AddEvent return the id that the span has in the file.
func TestAddReturnsTheID(t *testing.T) {
	h := start(t, Options{})
	event := Event{Name: "e", Time: (base + 5) * 1000}
	want := map[int64]uint64{}
	for i := range 3 {
		first := h.AddEvent(keyOf(i), event)
		n := node{i, -1, int64(10 * i), int64(10*i + 9)}
		want[int64(i)] = h.Add(n.span(), time.Time{})
		if again := h.Add(n.span(), time.Time{}); first != want[int64(i)] || again != first {
			t.Errorf("span %d has the ids %d before it arrived, %d, and %d as a duplicate, want the same", i, first, want[int64(i)], again)
		}
	}
	h.finished()
	got := map[int64]uint64{}
	for _, ev := range dftest.Events(t, h.path) {
		if index, ok := ev.Arg("index"); ok && ev.Phase == dftracer.PhaseComplete {
			got[index.Int64()] = ev.ID
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("ids in the file are %v, want %v", got, want)
	}
}

// TestCreateTakesTheNextName checks that a file whose name is taken gets a number, in its name
// and as a further part.
func TestCreateTakesTheNextName(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"t.pfw.gz", "t.1.pfw.gz", "t.2.pfw.gz"} {
		w, err := Create(filepath.Join(dir, "t.pfw.gz"), &dftracer.Options{Start: time.UnixMicro(base)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		part := "0"
		for _, ev := range dftest.Events(t, w.Path()) {
			if key, value := ev.Meta(); key == tracefile.KeyPart {
				part = value
			}
		}
		if got := filepath.Base(w.Path()); got != want || part != strconv.Itoa(i) {
			t.Errorf("file %d is %s, part %s, want %s, part %d", i, got, part, want, i)
		}
	}
}

// TestReservedLanes checks that each open parent keeps one lane, that a lane has one parent,
// and that of too many parents the least recently used loses its lane.
func TestReservedLanes(t *testing.T) {
	var l lanes
	for range maxHomes + 2 {
		l.rows.add()
	}
	check := func(when string, parent uint64, want int) {
		t.Helper()
		if got := l.reservedFor(parent); got != want {
			t.Errorf("%s: parent %d has lane %d, want %d", when, parent, got, want)
		}
	}
	l.settle(1, 10)
	l.settle(2, 11)
	l.settle(1, 12) // it has a lane
	l.settle(3, 11) // the lane of another
	for parent, lane := range map[uint64]int{1: 10, 2: 11, 3: -1} {
		check("two parents", parent, lane)
	}
	l.leave(1)
	l.settle(3, 10)
	check("after one has arrived", 1, -1)
	check("after one has arrived", 3, 10)

	l = lanes{}
	for i := range maxHomes + 2 {
		l.rows.add()
		if i < maxHomes {
			l.settle(uint64(i+1), i)
		}
	}
	l.settle(1, maxHomes) // used again
	l.settle(maxHomes+1, maxHomes)
	l.settle(maxHomes+2, maxHomes+1)
	for parent, lane := range map[uint64]int{1: 0, 2: -1, 3: -1, 4: 3, maxHomes: maxHomes - 1, maxHomes + 1: maxHomes, maxHomes + 2: maxHomes + 1} {
		check("too many parents", parent, lane)
	}
	for i, r := range l.rows.rows {
		if free := i == 1 || i == 2; free != (r.home == 0) {
			t.Errorf("lane %d is reserved for %d, want a parent: %v", i, r.home, !free)
		}
	}
}

// TestDepths checks that the depth of a span is the number of its known ancestors, and that
// spans that are their own ancestors have one too.
func TestDepths(t *testing.T) {
	r := make([]*relative, 6)
	for i := range r {
		r[i] = new(relative)
	}
	for child, parent := range map[int]int{1: 0, 2: 1, 4: 5, 5: 4} {
		r[child].parent = r[parent]
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 1, 3, 0}} {
		var list []*relative
		for _, i := range order {
			list = append(list, r[i])
		}
		depth := depths(list)
		for i, want := range []int{0, 1, 2, 0} {
			if got := depth[r[i]]; got != want {
				t.Errorf("in the order %v span %d has depth %d, want %d", order, i, got, want)
			}
		}
	}
	if depth := depths([]*relative{r[4], r[5]}); len(depth) != 2 {
		t.Errorf("%d spans of a cycle have a depth, want 2", len(depth))
	}
}

// TestLongChain checks that spans with more ancestors than gather visits are all written,
// below their parents.
func TestLongChain(t *testing.T) {
	const spans = maxClimb + 100
	for _, forward := range []bool{true, false} {
		h := start(t, Options{MaxWaiting: 2 * spans})
		for i := range spans {
			if !forward {
				i = spans - 1 - i
			}
			h.add(node{i, i - 1, int64(i), int64(3*spans - i)})
		}
		if report := h.finished(); report.Counts["torch/n/X"] != spans || report.Orphans != 0 {
			t.Errorf("forward %v: %d spans, %d orphans, want %d, 0", forward, report.Counts["torch/n/X"], report.Orphans, spans)
		}
	}
}

// TestParentsInACycle checks that spans that are their own ancestors are not expected to
// arrive once more.
func TestParentsInACycle(t *testing.T) {
	h := start(t, Options{})
	h.add(node{1, 2, 0, 10 * Slack}, node{2, 1, 5 * Slack, 20 * Slack})
	if report := h.finished(); report.Counts["torch/n/X"] != 2 || report.Counts["otel/unfinished/X"] != 0 {
		t.Errorf("counts %v, want 2 spans, none unfinished", report.Counts)
	}
}

// TestParentCoversItsChild checks that a parent that arrives later is extended over its
// child if they differ by at most Slack.
func TestParentCoversItsChild(t *testing.T) {
	h := start(t, Options{})
	h.add(node{1, 2, 95, 203})
	h.WriteAll()
	h.add(node{2, -1, 100, 200})
	if report := h.finished(); report.Orphans != 0 {
		t.Errorf("%d orphans, want 0", report.Orphans)
	}
	for _, ev := range dftest.Events(t, h.path) {
		if a, ok := ev.Arg("index"); ok && a.Int64() == 2 && (ev.TS != base+95 || ev.Dur != 108) {
			t.Errorf("parent starts at %d and lasts %d, want 95, 108", ev.TS-base, ev.Dur)
		}
	}
}

// TestManyEventsOfOneSpan checks that a bounded number of events is remembered to drop
// duplicates.
func TestManyEventsOfOneSpan(t *testing.T) {
	h := start(t, Options{})
	const events = 5000
	event := func(i int) Event { return Event{Name: "tick", Time: (base + int64(i)) * 1000} }
	for i := range events {
		h.AddEvent(keyOf(2), event(i))
	}
	if n := len(h.family.known[keyOf(2)].marks); n > maxMarks {
		t.Errorf("%d events are remembered, want at most %d", n, maxMarks)
	}
	s := &Span{Key: keyOf(2), Name: &nodeKey, Start: base, End: base + events}
	for i := events - 128; i < events; i++ { // the number that an SDK keeps
		s.Events = append(s.Events, event(i))
	}
	// A span may bring two equal events: only events that were written before are
	// dropped.
	s.Events = append(s.Events, Event{Name: "twin", Time: 1}, Event{Name: "twin", Time: 1})
	h.Add(s, time.Time{})
	h.WriteAll()
	h.AddEvent(keyOf(2), event(events-1))
	h.finished()
	if c := h.Counts(); c.Events != events+2 {
		t.Errorf("%d events, want %d", c.Events, events+2)
	}
}

func TestBeginKnowsTheName(t *testing.T) {
	h := start(t, Options{})
	name := dftracer.NewKey("pipeline", "train")
	h.Begin(keyOf(2), keyOf(1), &name, base+5, dftracer.Int("epochs", 3))
	h.Begin(keyOf(2), Key{}, &name, base+5) // a second begin
	h.add(node{3, 2, 10, 20})
	report := h.finished()
	if report.Counts["pipeline/train/X"] != 1 || report.Counts["otel/unfinished/X"] != 1 || report.Open != 0 {
		t.Errorf("counts %v, %d open; want 1 train, 1 unfinished, 0 open", report.Counts, report.Open)
	}
	if c := h.Counts(); c.Begins != 1 || c.Unfinished != 2 {
		t.Errorf("counts %+v, want 1 begin, 2 unfinished", c)
	}
}

// TestBeginKnowsTheParent checks that the record of an open span has its parent: one that
// has not ended, or one that ended after the span began.
func TestBeginKnowsTheParent(t *testing.T) {
	h := start(t, Options{})
	begin := func(index, parent int, at int64) {
		name := dftracer.NewKey("torch", fmt.Sprint("b", index))
		h.Begin(keyOf(index), keyOf(parent), &name, base+at)
	}
	begin(1, -1, 0)
	begin(2, 1, 10) // the parent is open
	h.add(node{3, -1, 0, 100})
	h.WriteAll()
	begin(4, 3, 50)
	begin(5, 3, 150) // the parent has ended
	begin(6, 7, 10)  // the parent has not come
	begin(8, 8, 10)
	h.add(node{7, -1, 0, 100})
	h.finished()
	ids, names, got := map[int64]string{}, map[string]int64{}, map[string]string{}
	for _, ev := range dftest.Events(t, h.path) {
		if key, value := ev.Meta(); key == tracefile.KeySpanBegin {
			id, _ := ev.Arg("begin_id")
			ids[id.Int64()], names[value] = value, ev.Parent
		} else if index, ok := ev.Arg("index"); ok && ev.Phase == dftracer.PhaseComplete {
			ids[int64(ev.ID)] = fmt.Sprint("b", index.Int64())
		}
	}
	for name, parent := range names {
		got[name] = "none"
		if parent != dftracer.NoParent {
			got[name] = ids[parent]
		}
	}
	want := map[string]string{"b1": "none", "b2": "b1", "b4": "b3", "b5": "none", "b6": "b7", "b8": "none"}
	if !maps.Equal(got, want) {
		t.Errorf("parents of open spans are %v, want %v", got, want)
	}
}

// TestRecoverFindsParents checks that Recover completes the file of a killed process:
// every parent that a span refers to is in the recovered trace.
func TestRecoverFindsParents(t *testing.T) {
	h := start(t, Options{})
	for i := range 20 {
		h.add(node{100 + i, 2, int64(20 + 10*i), int64(25 + 10*i)})
		h.WriteAll()
	}
	h.add(node{200, 2, 5, 15})
	h.WriteAll()
	if err := h.w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(h.path)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "copy.pfw.gz")
	if err := os.WriteFile(out, text, 0o600); err != nil {
		t.Fatal(err)
	}
	dftest.CheckWith(t, out, &dftracer.ValidateOptions{AllowUnfinished: true})
	if _, err := recovery.File(out, nil); err != nil {
		t.Fatal(err)
	}
	if report := dftest.Check(t, out); report.Orphans != 0 || report.Counts["dftracer/unfinished/X"] != 1 {
		t.Errorf("%d orphans, counts %v; want 0, 1 unfinished", report.Orphans, report.Counts)
	}
}

// TestAllocations checks that writing single spans allocates only the remembered entry.
func TestAllocations(t *testing.T) {
	h := start(t, Options{MaxParents: 100})
	s := Span{Name: &nodeKey, Args: []dftracer.Arg{dftracer.Int("step", 1)}}
	i := 0
	per := testing.AllocsPerRun(2000, func() {
		s.Key, s.Parent, s.Start, s.End = keyOf(10+i), keyOf(1), base+int64(10*i), base+int64(10*i+5)
		i++
		h.Write(&s)
	})
	if per > 1 {
		t.Errorf("%v allocations a span, want at most 1", per)
	}
	h.finished()
}

// TestLanesShowParents checks that the innermost span around a span on its lane is its
// parent, for spans that arrive alone, in batches, children first or parents first.
func TestLanesShowParents(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		h := start(t, Options{})
		list := slices.DeleteFunc(grow(r, 120), func(n node) bool { return n.end == n.start })
		known := map[int]bool{-1: true}
		for _, n := range list {
			known[n.index] = true
		}
		list = slices.DeleteFunc(list, func(n node) bool { return !known[n.parent] })
		switch seed % 4 {
		case 1:
			slices.SortStableFunc(list, func(a, b node) int { return int(a.start - b.start) })
		case 2:
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		case 3:
			slices.Reverse(list)
		}
		most := 1 + int(seed)%9
		for len(list) > 0 {
			n := min(len(list), 1+r.IntN(most))
			h.add(list[:n]...)
			h.WriteAll()
			list = list[n:]
		}
		h.finished()
		events := slices.DeleteFunc(dftest.Events(t, h.path), func(ev dftracer.Event) bool {
			return ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer && ev.Name != "unfinished"
		})
		for i := range events {
			var around *dftracer.Event
			for j := range events {
				e := &events[j]
				if i == j || e.TID != events[i].TID || e.TS > events[i].TS || e.End() < events[i].End() || e.TS == events[i].TS && e.Dur == events[i].Dur {
					continue
				}
				if around == nil || e.Dur < around.Dur {
					around = e
				}
			}
			if around != nil && events[i].Parent != int64(around.ID) {
				t.Fatalf("seed %d: span %d is inside %d on lane %d, but its parent is %d, want the span around it", seed, events[i].ID, around.ID, events[i].TID, events[i].Parent)
			}
		}
	}
}

// TestFacts checks that the attributes of a process are limited in number and in bytes, and
// that the file has the number of those that are cut.
func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		limit, size, want int // want of ten attributes
	}{
		"few":                    {100, 10, 10},
		"too many":               {7, 10, 7},
		"as many as allowed":     {10, 10, 10},
		"too large":              {100, maxFacts / 4, 4},
		"longer than one may be": {100, maxFacts, 4},
	} {
		h := start(t, Options{})
		f := Facts{Writer: h.w, Limit: c.limit}
		got := 0
		for i := range 10 {
			if f.Room() {
				f.Add(fmt.Sprint("key", i), strings.Repeat("x", c.size))
				got++
			}
		}
		cut := f.End()
		h.finished()
		written, told := 0, int64(0)
		for _, ev := range dftest.Events(t, h.path) {
			key, value := ev.Meta()
			switch {
			case key == ArgDroppedAttributes:
				told, _ = strconv.ParseInt(value, 10, 64)
			case strings.HasPrefix(key, "key"):
				written++
			}
		}
		if got != c.want || written != c.want || cut.Attributes != int64(10-c.want) || told != cut.Attributes {
			t.Errorf("%s: %d attributes were taken and %d are in the file; %d were cut, and the file counts %d; want %d taken", name, got, written, cut.Attributes, told, c.want)
		}
	}
}

// All lanes are lanes of one thread. A parent that is still to come has no record.
func TestLanesAreOfOneThread(t *testing.T) {
	h := start(t, Options{})
	h.add(node{1, 9, 0, 10}, node{2, 9, 5, 15}, node{3, 9, 5, 20})
	h.WriteAll()
	if c := h.counts; c.Begins != 0 {
		t.Errorf("%d begins, want none", c.Begins)
	}
	h.add(node{9, -1, 0, 30})
	h.finished()
	var tids []int64
	for _, ev := range dftest.Events(t, h.path) {
		if _, ok := ev.Arg("index"); ok {
			tids = append(tids, ev.TID)
		}
	}
	slices.Sort(tids)
	if want := []int64{42, 42, 42 + tracefile.LaneDistance, 42 + 2*tracefile.LaneDistance}; !slices.Equal(tids, want) {
		t.Errorf("lanes %v, want %v", tids, want)
	}
}

// A parent that does not arrive is written also for children and events without a time.
func TestParentOfTimelessChildren(t *testing.T) {
	h := start(t, Options{})
	timeless := int64(-base)
	h.add(node{1, 2, timeless, timeless}, node{3, 4, timeless, timeless})
	h.WriteAll()
	h.add(node{5, 4, 10, 20})
	h.AddEvent(keyOf(6), Event{Name: "e"})
	h.AddEvent(keyOf(6), Event{Name: "f"})
	h.WriteAll()
	report := h.finished()
	if report.Orphans != 0 || report.Counts["otel/unfinished/X"] != 3 {
		t.Errorf("%d orphans, counts %v; want none, 3 unfinished spans", report.Orphans, report.Counts)
	}
	spans := 0
	_, err := dftracer.Scan(h.path, nil, func(ev *dftracer.Event) error {
		if ev.Phase == dftracer.PhaseComplete && ev.Name == "unfinished" {
			if spans++; ev.TS != 0 || ev.Dur != 0 && ev.Dur != base+20 {
				t.Errorf("unfinished span of %d µs at %d, want one at 0 over the children", ev.Dur, ev.TS)
			}
		}
		return nil
	})
	if err != nil || spans != 3 {
		t.Errorf("%d unfinished spans, %v; want 3", spans, err)
	}
}

// An event that arrives after its span is on the span's lane, and the shared lane counts
// only spans.
func TestLaneOfLateEvents(t *testing.T) {
	for lanes, shared := range map[int]int64{MaxLanes: 0, 1: 1} {
		h := start(t, Options{})
		h.lanes.rows.Max = lanes
		h.add(node{1, -1, 0, 100}, node{2, -1, 50, 150})
		h.WriteAll()
		for i := range 3 {
			h.AddEvent(keyOf(2), Event{Name: "e", Time: (base + int64(i)) * 1000})
		}
		h.Begin(keyOf(3), Key{}, &nodeKey, base+60)
		if h.counts.SharedLane != shared {
			t.Errorf("%d lanes: %d spans on the shared lane, want %d", lanes, h.counts.SharedLane, shared)
		}
		h.finished()
		tids, events := make(map[int64]int64), 0
		all := dftest.Events(t, h.path)
		for i := range all {
			if index, ok := all[i].Arg("index"); ok && index.Int64() == 2 {
				tids[int64(all[i].ID)] = all[i].TID
			}
		}
		for i := range all {
			if of, ok := all[i].Arg(ArgSpan); ok {
				if tid, known := tids[of.Int64()]; !known || all[i].TID != tid {
					t.Errorf("%d lanes: an event of thread %d, want that of its span, %v", lanes, all[i].TID, tids)
				}
				events++
			}
		}
		if events != 3 {
			t.Errorf("%d events, want 3", events)
		}
	}
}

// Equal events of a span are all written; those that AddEvent repeats are not.
func TestEqualEvents(t *testing.T) {
	h := start(t, Options{})
	s := node{1, -1, 0, 100}.span()
	e := Event{Name: "e", Time: (base + 5) * 1000}
	s.Events = []Event{e, e}
	h.Add(s, time.Time{})
	h.AddEvent(keyOf(1), e)
	h.WriteAll()
	h.AddEvent(keyOf(1), e)
	h.Add(node{1, -1, 0, 100}.span(), time.Time{})
	h.finished()
	events := 0
	for _, ev := range dftest.Events(t, h.path) {
		if _, ok := ev.Arg(ArgSpan); ok {
			events++
		}
	}
	if events != 2 {
		t.Errorf("%d events, want 2", events)
	}
}
