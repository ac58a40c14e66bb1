package dftracer_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// laneSpan is a finished span in the lane tests.
type laneSpan struct {
	tid        int64
	start, end int64
}

// partialOverlaps counts the pairs of spans on one lane that overlap without
// one containing the other.
func partialOverlaps(spans []laneSpan) (bad int) {
	lanes := make(map[int64][]laneSpan)
	for _, s := range spans {
		lanes[s.tid] = append(lanes[s.tid], s)
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b laneSpan) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
		})
		var stack []int64
		for _, s := range lane {
			for len(stack) > 0 && stack[len(stack)-1] <= s.start {
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 && s.end > stack[len(stack)-1] {
				bad++
			}
			stack = append(stack, s.end)
		}
	}
	return bad
}

func TestLanesNestProperly(t *testing.T) {
	l := dftracer.NewLanes(100)
	root, rootTID := l.Begin(dftracer.Lane{}, 1)
	a, aTID := l.Begin(root, 2)
	b, bTID := l.Begin(root, 3) // concurrent with a
	if rootTID != 100 || aTID != 100 || bTID != 101 {
		t.Fatalf("lanes %d %d %d, want 100 100 101", rootTID, aTID, bTID)
	}
	if got := l.End(a, 5); got != 100 {
		t.Errorf("first child ended on %d, want 100", got)
	}
	if got := l.End(b, 6); got != 101 {
		t.Errorf("second child ended on %d, want 101", got)
	}
	c, cTID := l.Begin(root, 7)
	if cTID != 100 {
		t.Errorf("third child on %d, want its parent's lane", cTID)
	}
	// The parent ends before its child, so the child must leave the lane.
	if got := l.End(root, 8); got != 100 {
		t.Errorf("root ended on %d, want 100", got)
	}
	_, dTID := l.Begin(c, 9) // the moved child takes its own children to its new lane
	if got := tracefile.LaneOf(l, c); got != 101 || dTID != got {
		t.Errorf("outliving child on %d with its child on %d, want both on 101", got, dTID)
	}
}

func TestLanesIgnoreDeadHandles(t *testing.T) {
	l := dftracer.NewLanes(0)
	a, _ := l.Begin(dftracer.Lane{}, 1)
	l.End(a, 2)
	l.End(a, 3)
	b, tid := l.Begin(a, 4)
	if tid != 0 {
		t.Errorf("child of a dead span on lane %d, want the free lane 0", tid)
	}
	l.End(dftracer.Lane{}, 4)
	l.End(b, 5)
	if l.Count() != 1 {
		t.Errorf("%d lanes, want 1", l.Count())
	}
	var none *dftracer.Lanes
	if h, tid := none.Begin(a, 1); h != (dftracer.Lane{}) || tid != 0 || none.End(h, 2) != 0 || tracefile.LaneOf(none, a) != 0 || none.Count() != 0 {
		t.Error("a nil Lanes returned values, want a no-op")
	}
}

// TestLanesNeverOverlapPartially opens and closes random trees from 64
// goroutines, ending spans in any order and starting children in other goroutines.
func TestLanesNeverOverlapPartially(t *testing.T) {
	const goroutines, rounds = 64, 300
	l := dftracer.NewLanes(1)
	var clock atomic.Int64
	var mu sync.Mutex
	var spans []laneSpan
	var wg sync.WaitGroup
	shared, _ := l.Begin(dftracer.Lane{}, clock.Add(1))
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			type open struct {
				lane  dftracer.Lane
				start int64
			}
			var live []open
			var done []laneSpan
			for range rounds {
				if len(live) == 0 || len(live) < 8 && rng.IntN(2) == 0 {
					parent := dftracer.Lane{}
					switch {
					case len(live) > 0 && rng.IntN(4) > 0:
						parent = live[rng.IntN(len(live))].lane
					case rng.IntN(2) == 0:
						parent = shared
					}
					start := clock.Load() // many spans share a microsecond
					if rng.IntN(2) == 0 {
						start = clock.Add(1)
					}
					lane, _ := l.Begin(parent, start)
					live = append(live, open{lane, start})
					continue
				}
				i := rng.IntN(len(live))
				if rng.IntN(2) == 0 {
					i = len(live) - 1
				}
				end := clock.Add(int64(rng.IntN(2)))
				done = append(done, laneSpan{tid: l.End(live[i].lane, end), start: live[i].start, end: max(end, live[i].start)})
				live = slices.Delete(live, i, i+1)
			}
			for _, o := range live {
				end := clock.Add(1)
				done = append(done, laneSpan{tid: l.End(o.lane, end), start: o.start, end: end})
			}
			mu.Lock()
			spans = append(spans, done...)
			mu.Unlock()
		})
	}
	wg.Wait()
	l.End(shared, clock.Add(1))
	if bad := partialOverlaps(spans); bad > 0 {
		t.Errorf("%d of %d spans overlap partially on their lane, want none", bad, len(spans))
	}
	if n := l.Count(); n > goroutines*8+1 {
		t.Errorf("%d lanes for at most %d open spans, want at most one more", n, goroutines*8)
	}
	before := l.Count()
	for range 1000 {
		lane, _ := l.Begin(dftracer.Lane{}, clock.Add(1))
		l.End(lane, clock.Add(1))
	}
	if l.Count() != before {
		t.Errorf("lanes grew from %d to %d, want no new one: one span was open at a time", before, l.Count())
	}
}

func TestAssignLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var events []dftracer.Event
	for i := range 3000 {
		ts := int64(rng.IntN(5000))
		ev := dftracer.Event{Phase: dftracer.PhaseComplete, ID: uint64(i + 1), PID: int64(1 + i%2), TS: ts, Dur: int64(rng.IntN(60)), Parent: dftracer.NoParent}
		if i > 0 && rng.IntN(3) > 0 {
			p := &events[rng.IntN(len(events))]
			ev.PID, ev.Parent = p.PID, int64(p.ID)
			if rng.IntN(2) == 0 { // a child inside its parent
				ev.TS = p.TS + int64(rng.IntN(int(p.Dur)+1))
				ev.Dur = int64(rng.IntN(int(p.End()-ev.TS) + 1))
			}
		}
		events = append(events, ev)
	}
	tracefile.AssignLanes(events, 10)
	for pid := int64(1); pid <= 2; pid++ {
		var spans []laneSpan
		for _, ev := range events {
			if ev.PID == pid {
				spans = append(spans, laneSpan{tid: ev.TID, start: ev.TS, end: ev.End()})
			}
		}
		if bad := partialOverlaps(spans); bad > 0 {
			t.Errorf("process %d: %d of %d events overlap partially, want none", pid, bad, len(spans))
		}
	}

	tree := []dftracer.Event{
		{ID: 3, Parent: 1, TS: 20, Dur: 10, PID: 5},
		{ID: 1, TS: 10, Dur: 50, PID: 5},
		{ID: 2, Parent: 1, TS: 15, Dur: 10, PID: 5},
	}
	tracefile.AssignLanes(tree, 5)
	if tree[1].TID != 5 || tree[2].TID != 5 || tree[0].TID != 6 {
		t.Errorf("lanes %d %d %d, want 6 5 5", tree[0].TID, tree[1].TID, tree[2].TID)
	}
}

func TestLanesDoNotAllocate(t *testing.T) {
	l := dftracer.NewLanes(0)
	root, _ := l.Begin(dftracer.Lane{}, 0)
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now++
		a, _ := l.Begin(root, now)
		b, _ := l.Begin(a, now)
		l.End(b, now)
		l.End(a, now)
	}); n != 0 {
		t.Errorf("%v allocations per pair of nested spans, want 0", n)
	}
}

func BenchmarkLanesNested(b *testing.B) {
	l := dftracer.NewLanes(0)
	root, _ := l.Begin(dftracer.Lane{}, 0)
	now := int64(0)
	for b.Loop() {
		now++
		lane, _ := l.Begin(root, now)
		l.End(lane, now)
	}
}

func BenchmarkLanesRoot(b *testing.B) {
	l := dftracer.NewLanes(0)
	now := int64(0)
	for b.Loop() {
		now++
		lane, _ := l.Begin(dftracer.Lane{}, now)
		l.End(lane, now)
	}
}
