package account

import (
	"cmp"
	"fmt"
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
		"the thread of the lane":  {[]int64{far}, Row{kind: kindCompute, Thread: 4}, false, true},
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

// Spans with the same name share a category, and names beyond the limit share one.
func TestCustomCategories(t *testing.T) {
	c := newCategories()
	first := len(c.table)
	for i := range maxCustom + 3 {
		for range 2 {
			want := customPrefix + Category(fmt.Sprint("n", i))
			if i >= maxCustom {
				want = customRest
			}
			if got := c.table[c.custom(fmt.Sprint("n", i))]; got != want {
				t.Errorf("name %d has category %s, want %s", i, got, want)
			}
		}
	}
	if got := len(c.table) - first; got != maxCustom+1 {
		t.Errorf("%d categories for %d names, want %d", got, maxCustom+3, maxCustom+1)
	}
}

// The messages of an iteration are added up by their senders.
func TestSenders(t *testing.T) {
	m := messages{}
	for _, r := range []struct {
		iteration, peer int
		before          vocab.Class
	}{{3, 8, 0}, {3, 5, 0}, {3, 8, 0}, {3, 0, vocab.ClassBackward}, {3, 0, vocab.ClassForward}, {4, 8, 0}, {4, 0, vocab.ClassOther}} {
		m.receive(r.iteration, int64(10*r.iteration), int64(r.iteration+r.peer), r.peer, r.before)
	}
	m.end()
	var got []received
	(&packed{messages: m.rows.done()}).received(func(r *received) { got = append(got, *r) })
	want := []received{
		{3, 30, 7, 2, 22, 3}, {3, 30, 4, 1, 8, 3}, {3, 30, fromAfter, 1, 3, 3}, {3, 30, fromBefore, 1, 3, 3},
		{4, 40, 7, 1, 12, 4}, {4, 40, fromUnknown, 1, 4, 4},
	}
	if !slices.Equal(got, want) {
		t.Errorf("messages %+v, want %+v", got, want)
	}
}

// Consecutive intervals of one owner are one, and time in no span is other time.
func TestIntervals(t *testing.T) {
	tl := newTimeline(newCategories().table, nil)
	for _, s := range []seg{{5, gap}, {6, whatOther}, {8, what(kindSave)}, {9, what(kindSave)}, {12, gap}} {
		tl.extend(s.start, s.what)
	}
	tl.close(20)
	rows := tl.segs.done()
	var starts []int64
	for cols, n := range rows.blocks(3) {
		starts = append(starts, cols[2][:n]...)
	}
	if want := []int64{5, 8, 12}; !slices.Equal(starts, want) {
		t.Errorf("intervals begin at %v, want %v", starts, want)
	}
}

// Rows of a file that refer to what is not there, or have impossible values, are not sound.
func TestSoundRows(t *testing.T) {
	const names, loops, meets = 3, 2, 2
	type table struct{ segs, overlaps, iterations, inside, outside, messages []int64 }
	sound := func(change func(*table)) bool {
		of := table{
			segs: []int64{1, 0, 5}, overlaps: []int64{names, 0, 5, 6}, iterations: make([]int64, iterationColumns),
			inside: []int64{0, 5, meets, 0, 7}, outside: []int64{0, meets, 0, 5, 7}, messages: []int64{0, 5, fromUnknown, 1, 7, 7},
		}
		change(&of)
		rows := func(values []int64) rows {
			var p rowPacker
			p.add(values...)
			return p.done()
		}
		p := packed{segs: rows(of.segs), overlaps: rows(of.overlaps), iterations: rows(of.iterations), inside: rows(of.inside), outside: rows(of.outside), messages: rows(of.messages)}
		return p.sound(names, loops, meets)
	}
	for name, c := range map[string]struct {
		change func(*table)
		want   bool
	}{
		"all are":                          {func(*table) {}, true},
		"an iteration":                     {func(t *table) { t.segs[0], t.segs[1] = 0, 0 }, true},
		"an iteration that is not there":   {func(t *table) { t.segs[0], t.segs[1] = 0, 1 }, false},
		"an iteration below 0":             {func(t *table) { t.segs[0], t.segs[1] = 0, -1 }, false},
		"a category below 0":               {func(t *table) { t.segs[0] = -1 }, false},
		"a category that is not there":     {func(t *table) { t.overlaps[0] = names + 1 }, false},
		"the last loop":                    {func(t *table) { t.iterations[4] = loops - 1 }, true},
		"a loop that is not there":         {func(t *table) { t.iterations[4] = loops }, false},
		"a loop below 0":                   {func(t *table) { t.iterations[4] = -1 }, false},
		"more steps than a window has":     {func(t *table) { t.iterations[5] = windowSteps }, false},
		"meetings of no iteration":         {func(t *table) { t.inside[0] = 1 }, false},
		"meetings of an iteration below 0": {func(t *table) { t.inside[0] = -1 }, false},
		"a kind that is not there":         {func(t *table) { t.inside[2] = meets + 1 }, false},
		"no kind":                          {func(t *table) { t.inside[2] = 0 }, false},
		"a duration below 0":               {func(t *table) { t.inside[4] = -1 }, false},
		"no kind, outside":                 {func(t *table) { t.outside[1] = 0 }, false},
		"a duration below 0, outside":      {func(t *table) { t.outside[4] = -1 }, false},
		"messages of no iteration":         {func(t *table) { t.messages[0] = 1 }, false},
		"messages below 0":                 {func(t *table) { t.messages[3] = -1 }, false},
		"a sender below the constants":     {func(t *table) { t.messages[2] = fromUnknown - 1 }, false},
	} {
		if got := sound(c.change); got != c.want {
			t.Errorf("%s: sound() = %v, want %v", name, got, c.want)
		}
	}
}

// Rows beyond the limit are sorted in a file, in the same order as in memory.
func TestRowsBeyondTheLimit(t *testing.T) {
	const limit = 10
	for _, n := range []int{0, 1, limit, limit + 1, 5 * limit} {
		s := rowStore{limit: limit}
		for i := range n {
			s.add(Row{ID: uint64(i + 1), Start: int64((i * 7) % (n + 1))})
		}
		if inFile := s.sorter != nil; inFile != (n > limit) || inFile && s.blocks != nil {
			t.Errorf("%d rows are in a file: %v, with %d blocks in memory, want a file only above %d", n, inFile, len(s.blocks), limit)
		}
		var got []Row
		next := s.all()
		for rows := next(); rows != nil; rows = next() {
			got = append(got, rows...)
		}
		if s.err != nil || len(got) != n || !slices.IsSortedFunc(got, func(a, b Row) int { return cmp.Compare(a.Start, b.Start) }) {
			t.Errorf("%d rows (%v), sorted by their starts, are %+v", len(got), s.err, got)
		}
	}
}
