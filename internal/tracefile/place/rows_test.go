package place

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type placed struct {
	start, end int64
	row        int
}

// checkNested fails the test if spans of a row partially overlap. It checks them in
// order of start, longer ones first.
func checkNested(t *testing.T, spans []placed) {
	t.Helper()
	slices.SortFunc(spans, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var open []placed
	for _, s := range spans {
		for len(open) > 0 && (open[len(open)-1].row != s.row || open[len(open)-1].end <= s.start) {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 && open[n-1].end < s.end {
			t.Fatalf("on row %d %d to %d overlaps %d to %d in part, want nesting only", s.row, s.start, s.end, open[n-1].start, open[n-1].end)
		}
		open = append(open, s)
	}
}

// TestRowOfSpansThatReachOut checks that two spans that each partially overlap a span on
// the first row go to other rows.
func TestRowOfSpansThatReachOut(t *testing.T) {
	var rows Rows
	var spans []placed
	for _, s := range [][2]int64{{128, 151}, {135, 147}, {150, 152}, {140, 149}} {
		spans = append(spans, placed{s[0], s[1], rows.Place(0, 0, s[0], s[1])})
	}
	if spans[1].row != 0 || spans[2].row == 0 || spans[3].row == 0 {
		t.Errorf("the rows are %v, want the first for the first two alone", spans)
	}
	checkNested(t, spans)
}

// TestRowsNest checks that the spans of a row nest, for any times and order of spans.
func TestRowsNest(t *testing.T) {
	orders := map[string]func(a, b placed) int{
		"as they end":   func(a, b placed) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start)) },
		"as they begin": func(a, b placed) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) },
		"in any order":  nil,
	}
	for name, order := range orders {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			var rows Rows
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
				s := &spans[i]
				s.row = rows.Place(0, 0, s.start, s.end)
				alone = alone && s.row != Shared
			}
			if alone {
				checkNested(t, spans)
			} else if order != nil {
				t.Errorf("%s: more than %d lanes are needed, want at most that", name, MaxLanes)
			}
		}
	}
}

// TestRowOfSpansThatNest checks that nested spans stay on one row, with inner ones first
// or last, and that the memory of a row is bounded.
func TestRowOfSpansThatNest(t *testing.T) {
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
		var rows Rows
		for _, s := range spans {
			if row := rows.Place(0, 0, s.start, s.end); row != 0 {
				t.Fatalf("%s: %v goes to row %d, want 0", name, s, row)
			}
			kept := 0
			for _, l := range rows.rows[0].levels {
				kept += len(l)
			}
			if kept > 4*maxTail {
				t.Fatalf("%s: %d are remembered, want at most %d", name, kept, 4*maxTail)
			}
		}
	}
	var rows Rows
	for i := range int64(10_000) {
		rows.Place(0, 0, i, 30_000-i)
	}
	for _, l := range rows.rows {
		if len(l.levels) > maxLevels {
			t.Fatalf("%d levels, want at most %d", len(l.levels), maxLevels)
		}
	}
}

// TestRowsOfKnownParents checks that, with known parents, a span is only inside its own
// parent and only around its own children, in any order of arrival.
func TestRowsOfKnownParents(t *testing.T) {
	type block struct {
		id, parent uint64
		start, end int64
		row        int
	}
	for name, blocks := range map[string][]block{
		"children after their parent": {{1, 0, 0, 100, 0}, {2, 1, 10, 40, 0}, {3, 2, 20, 30, 0}, {4, 1, 50, 60, 0}},
		"children before":             {{3, 2, 20, 30, 0}, {2, 1, 10, 40, 0}, {4, 1, 50, 60, 0}, {1, 0, 0, 100, 0}},
		"a sibling around another":    {{1, 0, 0, 100, 0}, {2, 1, 10, 40, 0}, {3, 1, 20, 30, 1}},
		"a sibling before a longer":   {{3, 1, 20, 30, 0}, {2, 1, 10, 40, 1}, {1, 0, 0, 100, 0}},
		"around an unrelated span":    {{7, 0, 20, 30, 0}, {1, 0, 0, 100, 1}},
		"inside an unrelated span":    {{1, 0, 0, 100, 0}, {7, 0, 20, 30, 1}},
		"a grandchild without":        {{1, 0, 0, 100, 0}, {3, 2, 20, 30, 1}}, // its parent 2 is not on the row
		"of one time, parent first":   {{1, 0, 0, 100, 0}, {2, 1, 0, 100, 0}, {3, 2, 0, 100, 0}},
		"of one time, parent last":    {{3, 2, 0, 100, 0}, {2, 1, 0, 100, 0}, {1, 0, 0, 100, 0}},
		"without a length":            {{1, 0, 0, 100, 0}, {2, 1, 50, 50, 0}, {7, 0, 50, 50, 1}, {3, 1, 20, 80, 0}},
	} {
		var rows Rows
		for _, b := range blocks {
			if got := rows.place(-1, 0, interval{start: b.start, end: b.end, id: b.id, parent: b.parent}); got != b.row {
				t.Errorf("%s: %d is on row %d, want %d", name, b.id, got, b.row)
			}
		}
	}
}
