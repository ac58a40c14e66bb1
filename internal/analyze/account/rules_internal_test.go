package account

import (
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// A step that turns out to be none is none at all moments that are remembered, the
// first of them too; moments of other steps stay as they are.
func TestDismissedStep(t *testing.T) {
	l, err := NewLive(LiveOptions{Start: 1, Resolution: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w := l.step(3)
	order := l.open.stepFor(w).order
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
		l.open.stepFor(w).order = order
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
		"open":         {func(it *iteration) { it.end = job.NoEnd }, false},
	} {
		it := iteration{number: 7, start: 60, end: 70, own: 10, loop: 1}
		c.change(&it)
		if got := it.follows(&before, 10); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Spans that begin at one moment come by their ids; where no file says parents, what
// encloses comes first, and of two that are alike the one that was written later.
func TestRowsOfOneMoment(t *testing.T) {
	of := func(id uint64, end int64, nested bool) row { return row{id: id, start: 1, end: end, nested: nested} }
	for name, c := range map[string]struct {
		a, b row
		want int
	}{
		"parents are said":           {of(1, 5, false), of(2, 9, false), -1},
		"none is":                    {of(1, 5, true), of(2, 9, true), 1},
		"none is, and both are one":  {of(1, 9, true), of(2, 9, true), 1},
		"one file says them":         {of(1, 5, true), of(2, 9, false), -1},
		"the other does":             {of(1, 5, false), of(2, 9, true), -1},
		"a begin and its span":       {of(1, 5, true), of(1, 9, true), 1},
		"a span that was read twice": {of(1, 5, false), of(1, 5, false), 0},
	} {
		if got := compare(&c.a, &c.b); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if back := compare(&c.b, &c.a); back != -c.want {
			t.Errorf("%s, the other way round: %d, want %d", name, back, -c.want)
		}
	}
}

// Rows of one id become one, with the end that is known and the least parent that is.
func TestUnitedRows(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want row }{
		"a begin and its span":  {row{id: 1, parent: 7, end: job.NoEnd}, row{id: 1, parent: 7, end: 5, thread: 3, background: true}, row{id: 1, parent: 7, end: 5, thread: 3, background: true}},
		"a parent is missing":   {row{id: 1, end: 5}, row{id: 1, parent: 7, end: 5}, row{id: 1, parent: 7, end: 5}},
		"it is in the first":    {row{id: 1, parent: 7, end: 5}, row{id: 1, end: 5}, row{id: 1, parent: 7, end: 5}},
		"two parents":           {row{id: 1, parent: 7, end: 5}, row{id: 1, parent: 4, end: 5}, row{id: 1, parent: 4, end: 5}},
		"two, the lesser first": {row{id: 1, parent: 4, end: 5}, row{id: 1, parent: 7, end: 5}, row{id: 1, parent: 4, end: 5}},
	} {
		if got := unite([]row{c.a, c.b}); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := unite([]row{{end: 5}, {end: 5}, {id: 1}, {id: 2}}); len(got) != 4 {
		t.Errorf("of no id and of others: %+v", got)
	}
}

// A span ran beside the training if it ran on none of its threads, whatever their lanes.
func TestBeside(t *testing.T) {
	const far = 5*tracefile.LaneDistance + 4
	for name, c := range map[string]struct {
		threads       []int64
		r             row
		beside, known bool
	}{
		"the training's thread":   {[]int64{3, 4}, row{kind: kindCompute, thread: 4}, false, true},
		"a lane of it":            {[]int64{3, 4}, row{kind: kindCompute, thread: far}, false, true},
		"the training has a lane": {[]int64{far}, row{kind: kindCompute, thread: far}, false, true},
		"another thread":          {[]int64{3, 4}, row{kind: kindCompute, thread: 5}, true, true},
		"another, of no meaning":  {[]int64{3, 4}, row{kind: kindOther, thread: 5}, false, true},
		"no thread is known":      {nil, row{kind: kindCompute, thread: 5}, false, false},
		"that of the span is not": {[]int64{3}, row{kind: kindCompute}, false, false},
	} {
		w := &walk{threads: c.threads}
		if beside, known := w.onOtherThread(&c.r); beside != c.beside || known != c.known {
			t.Errorf("%s: %v, %v", name, beside, known)
		}
	}
}
