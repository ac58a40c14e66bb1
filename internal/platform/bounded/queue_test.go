package bounded_test

import (
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/bounded"
)

// Items are accepted only while they fit.
func TestBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		items, bytes int   // bounds
		put          []int // sizes
		fit          []bool
	}{
		"none":                {put: []int{1 << 30, 0, 1 << 30}, fit: []bool{true, true, true}},
		"items":               {items: 2, put: []int{9, 9, 0}, fit: []bool{true, true, false}},
		"bytes":               {bytes: 10, put: []int{4, 6, 1, 0}, fit: []bool{true, true, false, true}},
		"one of any size":     {bytes: 10, put: []int{100, 1}, fit: []bool{true, false}},
		"what fits after one": {bytes: 10, put: []int{4, 7, 6}, fit: []bool{true, false, true}},
		"both":                {items: 3, bytes: 10, put: []int{5, 6, 5, 0, 0}, fit: []bool{true, false, true, true, false}},
	} {
		q := bounded.Queue[int]{MaxItems: tc.items, MaxBytes: tc.bytes}
		n, size := 0, 0
		for i, bytes := range tc.put {
			if got := q.Put(i, bytes); got != tc.fit[i] {
				t.Errorf("%s: item %d fits: %v, want %v", name, i, got, tc.fit[i])
			}
			if tc.fit[i] {
				n, size = n+1, size+bytes
			}
		}
		if q.Len() != n || q.Bytes() != size {
			t.Errorf("%s: %d items of %d bytes, want %d of %d", name, q.Len(), q.Bytes(), n, size)
		}
	}
}

// For random operations the items come out in order with their sizes, and the
// sums agree.
func TestOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q bounded.Queue[int]
	var want []int // the sizes of the queued items
	next, first := 0, 0
	for range 200_000 {
		if rng.IntN(5) < 3 || rng.IntN(1000) == 0 {
			for range 1 + rng.IntN(20) {
				if !q.Put(next, next%100) {
					t.Fatal("Put = false without a bound, want true")
				}
				want = append(want, next%100)
				next++
			}
			continue
		}
		for range min(rng.IntN(60), len(want)) {
			if size, ok := q.First(); !ok || size != want[0] {
				t.Fatalf("the first has %d bytes, want %d", size, want[0])
			}
			if v, size := q.Take(); v != first || size != want[0] {
				t.Fatalf("item %d of %d bytes, want %d of %d", v, size, first, want[0])
			}
			want = want[1:]
			first++
		}
		sum := 0
		for _, size := range want {
			sum += size
		}
		if q.Len() != len(want) || q.Bytes() != sum {
			t.Fatalf("%d items of %d bytes, want %d of %d", q.Len(), q.Bytes(), len(want), sum)
		}
	}
	for q.Len() > 0 {
		q.Take()
	}
	if _, ok := q.First(); ok || q.Bytes() != 0 {
		t.Errorf("an empty queue has an entry or %d bytes, want neither", q.Bytes())
	}
}

// A queue that is filled and emptied repeatedly reuses its memory.
func TestMemory(t *testing.T) {
	q := bounded.Queue[*int]{MaxItems: 100}
	turn := func() {
		for range 100 {
			q.Put(nil, 1)
		}
		for range 60 { // the rest moves to the front as more arrives
			q.Take()
		}
		for range 60 {
			q.Put(nil, 1)
		}
		for q.Len() > 0 {
			q.Take()
		}
	}
	turn()
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("a turn allocates %v times, want 0", n)
	}
}
