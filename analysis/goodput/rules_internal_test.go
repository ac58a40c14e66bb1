package goodput

import (
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/run"
)

// A step that turns out to be none is none at all moments that are remembered, the
// first of them too; moments of other steps stay as they are.
func TestDismissedStep(t *testing.T) {
	l, err := NewLive(LiveOptions{Start: 1, Resolution: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w := l.step(3)
	order := l.open.of(w).order
	at := func(order, other, computed int64) entry {
		e := entry{order: order, open: 7, opened: 3, spent: make([]int64, len(l.spent))}
		e.spent[whatOther], e.spent[kindIteration] = other, computed
		return e
	}
	for _, others := range []int{0, 1} {
		l.ring.entries = nil
		for range others {
			l.ring.entries = append(l.ring.entries, at(order+1, 10, 20))
		}
		for range 3 {
			l.ring.entries = append(l.ring.entries, at(order, 10, 20))
		}
		l.dismiss(w)
		for i, e := range l.ring.entries {
			want := entry{order: order + 1, open: 7, opened: 3}
			other, computed := int64(10), int64(20)
			if i >= others {
				want, other, computed = entry{}, 14, 23
			}
			if e.order != want.order || e.open != want.open || e.opened != want.opened || e.spent[whatOther] != other || e.spent[kindIteration] != computed {
				t.Errorf("after %d others, moment %d: %+v", others, i, e)
			}
		}
		w = l.step(3)
		l.open.of(w).order = order
	}
}

// Up to the last sum, and beyond all of them, the time of iterations is exact; between
// two sums it is their part.
func TestHistoryUpTo(t *testing.T) {
	h := history{Lowest: 10, Points: []point{{Through: 13, Sum: 400}, {Through: 17, Sum: 800}}}
	h.Tail = []past{{Number: 18, Own: 100}, {Number: 20, Own: 50}}
	for number, want := range map[int64]struct {
		sum   int64
		exact bool
	}{9: {0, true}, 13: {400, true}, 15: {600, false}, 17: {800, true}, 18: {900, true}, 19: {900, true}, 99: {950, true}} {
		if sum, exact := h.upTo(number); sum != want.sum || exact != want.exact {
			t.Errorf("up to %d: %d, exact %v, want %+v", number, sum, exact, want)
		}
	}
}

// All of few values are kept, and of many every second one or less.
func TestSampleKeepsAllOfFew(t *testing.T) {
	var s sample
	for v := range int64(5) {
		s.add(v)
	}
	if !slices.Equal(s.values, []int64{0, 1, 2, 3, 4}) {
		t.Errorf("it has %v", s.values)
	}
	for v := range int64(3 * maxSample) {
		s.add(v)
	}
	if m, seen := s.median(); seen != 3*maxSample+5 || len(s.values) > maxSample || m < maxSample || m > 2*maxSample {
		t.Errorf("%d of %d, the median is %d", len(s.values), seen, m)
	}
}

// Iterations of one window follow each other in number, in time and in one loop.
func TestFollows(t *testing.T) {
	before := iteration{number: 6, start: 50, end: 60, own: 10, loop: 1}
	for name, c := range map[string]struct {
		change func(*iteration)
		want   bool
	}{
		"next":         {func(*iteration) {}, true},
		"another loop": {func(it *iteration) { it.loop = 2 }, false},
		"one is left":  {func(it *iteration) { it.number++ }, false},
		"overlaps":     {func(it *iteration) { it.start-- }, false},
		"slow":         {func(it *iteration) { it.own = 1000 }, false},
		"open":         {func(it *iteration) { it.end = run.NoEnd }, false},
	} {
		it := iteration{number: 7, start: 60, end: 70, own: 10, loop: 1}
		c.change(&it)
		if got := it.follows(&before, 10); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
