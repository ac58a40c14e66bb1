package account

import (
	"slices"
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
	of := func(id uint64, end int64, nested bool) Row { return Row{ID: id, Start: 1, End: end, nested: nested} }
	for name, c := range map[string]struct {
		a, b Row
		want []Row
	}{
		"parents are said":           {of(1, 5, false), of(2, 9, false), []Row{of(1, 5, false), of(2, 9, false)}},
		"none is":                    {of(1, 5, true), of(2, 9, true), []Row{of(2, 9, true), of(1, 5, true)}},
		"none is, and both are one":  {of(1, 9, true), of(2, 9, true), []Row{of(2, 9, true), of(1, 9, true)}},
		"one file says them":         {of(1, 5, true), of(2, 9, false), []Row{of(1, 5, true), of(2, 9, false)}},
		"the other does":             {of(1, 5, false), of(2, 9, true), []Row{of(1, 5, false), of(2, 9, true)}},
		"two ends of one span":       {of(1, 5, true), of(1, 9, true), []Row{of(1, 5, true)}},
		"a span that was read twice": {of(1, 5, false), of(1, 5, false), []Row{of(1, 5, false)}},
	} {
		if got := order([]Row{c.a, c.b}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if got := order([]Row{c.b, c.a}); !slices.Equal(got, c.want) {
			t.Errorf("%s, the other way round: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Rows with the same id become one row, with the known end, what its record says, and the smallest
// known parent.
func TestUnitedRows(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want Row }{
		"a begin and its span":  {Row{ID: 1, Parent: 7, End: job.NoEnd}, Row{ID: 1, Parent: 7, End: 5, Thread: 3, Background: true}, Row{ID: 1, Parent: 7, End: 5, Thread: 3, Background: true, Long: true}},
		"only its end says all": {Row{ID: 1, End: job.NoEnd, Number: job.Unknown}, Row{ID: 1, End: 5, Op: 2, Number: 3}, Row{ID: 1, End: 5, Op: 2, Number: 3, Long: true}},
		"a parent is missing":   {Row{ID: 1, End: 5}, Row{ID: 1, Parent: 7, End: 5}, Row{ID: 1, Parent: 7, End: 5}},
		"it is in the first":    {Row{ID: 1, Parent: 7, End: 5}, Row{ID: 1, End: 5}, Row{ID: 1, Parent: 7, End: 5}},
		"two parents":           {Row{ID: 1, Parent: 7, End: 5}, Row{ID: 1, Parent: 4, End: 5}, Row{ID: 1, Parent: 4, End: 5}},
		"two, the lesser first": {Row{ID: 1, Parent: 4, End: 5}, Row{ID: 1, Parent: 7, End: 5}, Row{ID: 1, Parent: 4, End: 5}},
	} {
		if got := order([]Row{c.a, c.b}); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := order([]Row{{End: 5}, {End: 5}, {ID: 1}, {ID: 2}}); len(got) != 4 {
		t.Errorf("of no id and of others: %+v, want 4", got)
	}
}

// A span ran beside the training if its thread is not a training thread, in any lane.
func TestBeside(t *testing.T) {
	const far = 5*tracefile.LaneDistance + 4
	for name, c := range map[string]struct {
		threads       []int64
		r             Row
		beside, known bool
	}{
		"the training's thread":   {[]int64{3, 4}, Row{kind: kindCompute, Thread: 4}, false, true},
		"a lane of it":            {[]int64{3, 4}, Row{kind: kindCompute, Thread: far}, false, true},
		"the training has a lane": {[]int64{far}, Row{kind: kindCompute, Thread: far}, false, true},
		"another thread":          {[]int64{3, 4}, Row{kind: kindCompute, Thread: 5}, true, true},
		"another, of no meaning":  {[]int64{3, 4}, Row{kind: kindOther, Thread: 5}, false, true},
		"no thread is known":      {nil, Row{kind: kindCompute, Thread: 5}, false, false},
		"that of the span is not": {[]int64{3}, Row{kind: kindCompute}, false, false},
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
