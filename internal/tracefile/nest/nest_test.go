package nest_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

type span struct{ start, end, level int64 }

// spansOf returns random spans of one thread. They nest, overlap without
// nesting, begin together, are equal, or have no length.
func spansOf(rng *rand.Rand, n int, until int64) []span {
	out := make([]span, n)
	for i := range out {
		at := rng.Int64N(until)
		out[i] = span{at, at + rng.Int64N(1+rng.Int64N(until-at)), 0}
	}
	return out
}

// inOrder returns the order by package nest of spans that were written one
// after the other.
func inOrder(spans []span) []int {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = len(order) - 1 - i // the outer span is written later
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := spans[i], spans[j]
		return nest.KeyOf(a.start, a.end, a.level).Compare(nest.KeyOf(b.start, b.end, b.level))
	})
	return order
}

// owners returns for each instant the index of the open span that began last,
// or -1.
func owners(spans []span, until int64) []int {
	out := slices.Repeat([]int{-1}, int(until))
	for _, i := range inOrder(spans) {
		for t := spans[i].start; t < spans[i].end; t++ {
			out[t] = i
		}
	}
	return out
}

func own(spans []span, until int64) []int64 {
	out := make([]int64, len(spans))
	for _, i := range owners(spans, until) {
		if i >= 0 {
			out[i]++
		}
	}
	return out
}

func TestKey(t *testing.T) {
	ordered := []span{{1, 9, 0}, {1, 9, 1}, {1, 9, 2}, {1, 8, 0}, {1, 1, 0}, {2, 1 << 62, 1}, {2, 30, 9}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := nest.KeyOf(a.start, a.end, a.level).Compare(nest.KeyOf(b.start, b.end, b.level)); got != cmp.Compare(i, j) {
				t.Errorf("Compare of %v and %v = %d, want %d", a, b, got, cmp.Compare(i, j))
			}
		}
	}
}

func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const until = 40
		spans := spansOf(rng, 1+rng.IntN(12), until)
		got := slices.Repeat([]int{-1}, until)
		var s nest.Stack[int]
		at := int64(0)
		piece := func(i int, from, to int64) {
			for t := from; t < to; t++ {
				got[t] = i
			}
		}
		for _, i := range inOrder(spans) {
			s.Pieces(at, spans[i].start, piece)
			at = spans[i].start
			s.Push(spans[i].end, i)
		}
		s.Pieces(at, until, piece)
		if want := owners(spans, until); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", spans, got, want)
		}
	}
}

// The time that a span takes from its parent and from spans that it outlasts is
// subtracted from theirs.
func TestLeave(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		const until = 40
		spans := spansOf(rng, 1+rng.IntN(12), until)
		got := make([]int64, len(spans))
		var s nest.Stack[int]
		for _, i := range inOrder(spans) {
			at, end := spans[i].start, spans[i].end
			outlasted := s.Leave(at, end)
			for _, o := range slices.Backward(outlasted) {
				if o.End >= end || o.End < at {
					t.Fatalf("%v outlasts %v, want only spans that end in it", spans[i], o)
				}
				got[o.Of] -= o.End - at
				at = o.End
			}
			if top := s.Top(); top != nil {
				if top.End < end {
					t.Fatalf("%v is in %v, want one that contains it", spans[i], top)
				}
				got[top.Of] -= end - at
			}
			got[i] += end - spans[i].start
			s.Push(end, i)
		}
		if want := own(spans, until); !slices.Equal(got, want) {
			t.Fatalf("%v: %v, want %v", spans, got, want)
		}
	}
}

// The order in which spans are added does not change the result.
func TestTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		const until = 40
		spans := spansOf(rng, 1+rng.IntN(12), until)
		slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start)) })
		for i := range spans {
			spans[i].level = int64(len(spans) - i)
		}
		want := own(spans, until)
		for name, order := range map[string][]int{"as they end": nil, "as they begin": inOrder(spans), "in any order": rng.Perm(len(spans))} {
			tree, got := nest.NewTree(nil, 100), make([]int64, len(spans))
			for i := range spans {
				if order != nil {
					i = order[i]
				}
				tree.Add(spans[i].start, spans[i].end, int32(i), int32(spans[i].level), got)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s %v: %v, want %v", name, spans, got, want)
			}
		}
	}
}

// With little memory the own times still add up to the time that spans cover,
// even if the spans overlap.
func TestTreeWithLittleMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const until = 200_000
	spans := []span{{0, until, 0}}
	for at := int64(0); at < until-300; at += rng.Int64N(20) {
		spans = append(spans, span{at, at + rng.Int64N(200), 0})
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.end, b.end) })
	for name, order := range map[string][]int{"as they end": nil, "as they begin": inOrder(spans)} {
		tree, got := nest.NewTree(nil, 64), make([]int64, 2)
		for i := range spans {
			if order != nil {
				i = order[i]
			}
			name := int32(0)
			if spans[i].end == until {
				name = 1
			}
			tree.Add(spans[i].start, spans[i].end, name, 0, got)
		}
		around := own(spans, until)[slices.IndexFunc(spans, func(s span) bool { return s.end == until })]
		if sum := got[0] + got[1]; sum < until*99/100 || sum > until*101/100 {
			t.Errorf("%s: self times %d and %d, want about %d together", name, got[0], got[1], until)
		}
		if off := got[1] - around; max(off, -off) > until/50 {
			t.Errorf("%s: the span around all has %d, want %d", name, got[1], around)
		}
	}
}

func TestUnion(t *testing.T) {
	type list = []nest.Interval
	for _, c := range []struct{ dst, a, b, want list }{
		{nil, nil, nil, nil},
		{nil, list{{1, 2}, {4, 6}}, list{{2, 3}, {5, 9}}, list{{1, 3}, {4, 9}}},
		{list{{1, 5}}, list{{3, 4}}, list{{4, 7}, {8, 9}}, list{{1, 7}, {8, 9}}},
		{nil, list{{1, 9}, {2, 3}, {4, 12}}, nil, list{{1, 12}}},
	} {
		if got := nest.Union(c.dst, c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%v with %v and %v is %v, want %v", c.dst, c.a, c.b, got, c.want)
		}
	}
	same := list{{1, 9}, {2, 3}, {10, 12}, {12, 13}}
	if got := nest.Union(same[:0], same, nil); !slices.Equal(got, list{{1, 9}, {10, 13}}) {
		t.Errorf("in its own memory: %v, want %v", got, list{{1, 9}, {10, 13}})
	}
}

// overlapping adds n spans. Each ends after the previous one and holds a short
// span that the next one outlasts.
func overlapping(n int) {
	tree, own := nest.NewTree(nil, 4096), make([]int64, 2)
	for i := range int64(n) {
		tree.Add(10*i+8, 10*i+9, 1, 0, own)
		tree.Add(10*i, 10*i+1000, 0, 0, own)
	}
}

func BenchmarkGrowthOverlapping(b *testing.B) { growth.Bench(b, 1<<14, overlapping) }

// TestTreeForgets checks that a tree remembers a bounded number of spans, and
// that the own times stay exact, for steps whose spans are written in several
// orders.
func TestTreeForgets(t *testing.T) {
	const steps, limit = 20_000, 64
	step := []span{{10, 40, 2}, {50, 90, 2}, {60, 80, 3}, {0, 100, 1}, {100, 110, 1}}
	for name, order := range map[string][]int{"written at the end": {0, 2, 1, 3, 4}, "sorted": {3, 0, 1, 2, 4}, "without nesting": {0, 4}} {
		t.Run(name, func(t *testing.T) {
			own, want := make([]int64, len(step)), []int64{30, 20, 20, 30, 10}
			tree := nest.NewTree(nil, limit)
			for i := range int64(steps) {
				for _, k := range order {
					tree.Add(i*110+step[k].start, i*110+step[k].end, int32(k), int32(step[k].level), own)
				}
			}
			for k := range want {
				if want[k] *= steps; !slices.Contains(order, k) {
					want[k] = 0
				}
			}
			if used := len(tree.Rest()); !slices.Equal(own, want) || used > 2*limit {
				t.Errorf("own times %v, want %v; memory of %d spans, want at most %d", own, want, used, 2*limit)
			}
		})
	}
}
