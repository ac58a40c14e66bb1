package account

import (
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// The iterations of a window are consecutive in number and time, and in the same loop.
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
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Spans with the same start are ordered by their ids. In files without parents, the enclosing
// span comes first, and of two equal spans the one that was written later.
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

// Rows with the same id become one row, with the known end and the smallest known parent.
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
		t.Errorf("of no id and of others: %+v, want 4", got)
	}
}

// A span ran beside the training if its thread is not a training thread, in any lane.
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
		var steps job.Steps
		for _, thread := range c.threads {
			steps.Add(&job.Span{Name: spans.TrainingLoop, Class: vocab.ClassFrame, Thread: thread})
		}
		w := &walk{train: steps.Training()}
		if beside, known := w.onOtherThread(&c.r); beside != c.beside || known != c.known {
			t.Errorf("%s: onOtherThread() = %v, %v; want %v, %v", name, beside, known, c.beside, c.known)
		}
	}
}
