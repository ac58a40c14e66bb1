package pyring

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile"
)

type placed struct{ start, end, tid int64 }

// nested fails the test where spans of a lane overlap in part, as they are, longer
// ones first where they begin together.
func nested(t *testing.T, spans []placed) {
	t.Helper()
	slices.SortFunc(spans, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.tid, b.tid), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var open []placed
	for _, s := range spans {
		for len(open) > 0 && (open[len(open)-1].tid != s.tid || open[len(open)-1].end <= s.start) {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && open[n-1].end < s.end {
			t.Fatalf("on lane %d %d to %d overlaps %d to %d", s.tid, s.start, s.end, open[n-1].start, open[n-1].end)
		}
		open = append(open, s)
	}
}

// A span that ends inside of another one that began before, and one that reaches out of
// both.
func TestLaneOfSpansThatReachOut(t *testing.T) {
	th := &thread{tid: 1}
	var spans []placed
	for _, s := range [][2]int64{{128, 151}, {135, 147}, {150, 152}, {140, 149}} {
		tid, alone := th.place(s[0], s[1], false)
		if !alone {
			t.Error("no lane is left")
		}
		spans = append(spans, placed{s[0], s[1], tid})
	}
	if spans[1].tid != 1 || spans[2].tid == 1 || spans[3].tid == 1 {
		t.Errorf("%v", spans)
	}
	nested(t, spans)
}

// Whatever the times and the order of spans, those of a lane nest.
func TestLanesNest(t *testing.T) {
	orders := map[string]func(a, b placed) int{
		"as they end":   func(a, b placed) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start)) },
		"as they begin": func(a, b placed) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) },
		"in any order":  nil,
	}
	for name, order := range orders {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			th := &thread{tid: 1}
			spans := make([]placed, 200)
			longest := 1 + r.Int64N(60)
			for i := range spans {
				start := r.Int64N(600)
				spans[i] = placed{start: start, end: start + r.Int64N(longest)}
			}
			if order != nil {
				slices.SortFunc(spans, order)
			}
			alone := true
			for i := range spans {
				s, one := &spans[i], false
				s.tid, one = th.place(s.start, s.end, false)
				alone = alone && one
			}
			if alone {
				nested(t, spans)
			} else if order != nil {
				t.Errorf("%s: more than %d lanes", name, maxLanes)
			}
		}
	}
}

// Spans that nest stay on one lane, inner ones first or last, and what a lane remembers
// of them is bounded.
func TestLaneOfSpansThatNest(t *testing.T) {
	const steps, phases = 3 * maxTail, 2 * maxTail
	var inner, outer []placed
	for s := range int64(steps) {
		for p := range int64(phases) {
			at := (s*phases + p) * 10
			inner = append(inner, placed{start: at + 1, end: at + 8})
		}
		inner = append(inner, placed{start: s * phases * 10, end: (s + 1) * phases * 10})
		outer = append(outer, inner[len(inner)-1])
		outer = append(outer, inner[len(inner)-1-phases:len(inner)-1]...)
	}
	for name, spans := range map[string][]placed{"inner first": append(inner, placed{start: 0, end: steps * phases * 10}), "outer first": append([]placed{{start: 0, end: steps * phases * 10}}, outer...)} {
		th := &thread{tid: 1}
		for _, s := range spans {
			if tid, alone := th.place(s.start, s.end, false); tid != 1 || !alone {
				t.Fatalf("%s: %v goes to lane %d", name, s, (tid-1)/tracefile.LaneDistance)
			}
			kept := 0
			for _, l := range th.lanes[0].levels {
				kept += len(l)
			}
			if kept > 4*maxTail {
				t.Fatalf("%s: %d are remembered", name, kept)
			}
		}
	}
	th := &thread{tid: 1}
	for i := range int64(10_000) {
		th.place(i, 30_000-i, false)
	}
	for _, l := range th.lanes {
		if len(l.levels) > maxLevels {
			t.Fatalf("%d levels", len(l.levels))
		}
	}
}
