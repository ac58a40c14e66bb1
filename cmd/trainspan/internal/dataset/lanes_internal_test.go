package dataset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// enclosing is a simple begin: of the spans that contain the row, it returns
// the last one.
func enclosing(rows []row, at int) (name uint32) {
	r := &rows[at]
	for i := range rows[:at] {
		if o := &rows[i]; o.tid == r.tid && o.ts+o.dur > r.ts && o.ts+o.dur >= r.ts+r.dur {
			name = o.name
		}
	}
	return name
}

func TestBegin(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		rows := make([]row, 60)
		for i := range rows {
			rows[i] = row{ts: rng.Int64N(40), dur: rng.Int64N(1 + rng.Int64N(20)), tid: rng.Int64N(2), level: rng.Int64N(3), name: uint32(i + 1)}
		}
		slices.SortStableFunc(rows, func(a, b row) int { return a.compare(&b) })
		var l lanes
		for i := range rows {
			if got, _ := l.begin(&rows[i]); got != enclosing(rows, i) {
				t.Fatalf("begin(%+v) = %d, want %d as the enclosing row of\n%+v", rows[i], got, enclosing(rows, i), rows[:i])
			}
		}
	}
}

// overlap opens n spans; each ends after the previous one.
func overlap(n int) {
	var l lanes
	for i := range int64(n) {
		l.begin(&row{ts: i, dur: int64(2 * n), name: 1})
	}
}

func TestOverlappingSpansAreNotKept(t *testing.T) {
	var l lanes
	for i := range int64(1000) {
		l.begin(&row{ts: i, dur: 5000, name: 1})
	}
	if n := len(*l.open[0]); n != 1 {
		t.Errorf("%d spans are open, and the last one holds what the others hold, want 1", n)
	}
}

func BenchmarkGrowthOverlapping(b *testing.B) { growth.Bench(b, 1<<16, overlap) }
