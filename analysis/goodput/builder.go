package goodput

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/spans"
)

// Builder makes the timeline of one process from its spans. Spans and
// checkpoints may come in any order; a span that comes twice counts once. It
// is not safe for concurrent use.
type Builder struct {
	proc    Process
	rows    []row
	names   map[string]what
	table   []Category
	saves   []save
	loads   []save
	threads []int64 // of the training loops
	hasLoop bool
}

// row is a span as the sweep needs it.
type row struct {
	id, parent uint64
	start, end int64
	number     int64 // step of an iteration, first iteration of a loop
	thread     int64
	what       what
	kind       kind
	role       role
	background bool
	nested     bool
}

type role uint8

const (
	roleNone role = iota
	roleLoop
	rolePhase // initializations and loads, one after the other
	roleIteration
)

// NewBuilder returns a builder for one process.
func NewBuilder(p Process) *Builder {
	b := &Builder{proc: p, names: make(map[string]what)}
	for k := range kindCount {
		b.table = append(b.table, fixed[k])
	}
	return b
}

// Span adds a span. It copies what it needs.
func (b *Builder) Span(s *run.Span) {
	r := row{
		id: s.ID, parent: s.Parent, start: s.Start, end: s.End, thread: s.Thread,
		number: run.Unknown, background: s.Background, nested: s.Nested,
	}
	r.kind = kindOf(s)
	r.what = what(r.kind)
	switch {
	case s.Name == spans.TrainingLoop:
		r.role, r.number = roleLoop, s.First
		b.thread(s, true)
	case r.kind == kindIteration:
		r.role, r.number = roleIteration, s.Step
		b.thread(s, false)
	case r.kind == kindInit, r.kind == kindLoad:
		r.role = rolePhase
		if r.kind == kindLoad && s.Step >= 0 {
			b.loads = append(b.loads, save{time: s.Start, through: s.Step})
		}
	case r.kind == kindCustom:
		r.what = b.custom(s.Name)
	}
	b.rows = append(b.rows, r)
}

// thread remembers the thread of the training: that of the loops or, when no
// loop was recorded, of the iterations.
func (b *Builder) thread(s *run.Span, isLoop bool) {
	if isLoop && !b.hasLoop {
		b.hasLoop, b.threads = true, b.threads[:0]
	}
	if s.Thread == 0 || isLoop != b.hasLoop || slices.Contains(b.threads, s.Thread) || len(b.threads) == 16 {
		return
	}
	b.threads = append(b.threads, s.Thread)
}

// custom gives the category of a span that is not a standard one.
func (b *Builder) custom(name string) what {
	if w, ok := b.names[name]; ok {
		return w
	}
	c := customPrefix + Category(name)
	if len(b.names) >= maxCustom {
		if w, ok := b.names[""]; ok {
			return w
		}
		name, c = "", customRest
	}
	w := what(len(b.table))
	b.table = append(b.table, c)
	b.names[name] = w
	return w
}

// Saved adds a checkpoint that was saved successfully at a time and holds
// every iteration up to and including one.
func (b *Builder) Saved(at, through int64) {
	b.saves = append(b.saves, save{time: at, through: through})
}

// less is an order of rows that depends on nothing but what they say. Where
// files have no parents, what encloses comes first.
func less(a, b *row) int {
	if c := cmp.Compare(a.start, b.start); c != 0 {
		return c
	}
	if a.nested && b.nested && a.end != b.end {
		return cmp.Compare(b.end, a.end)
	}
	if c := cmp.Compare(a.id, b.id); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.parent, b.parent),
		cmp.Compare(a.end, b.end), cmp.Compare(b.number, a.number))
}

// build divides the time. The builder must not be used afterwards.
func (b *Builder) build() *attempt {
	inOrder := slices.IsSortedFunc(b.rows, func(x, y row) int { return less(&x, &y) })
	if !inOrder {
		slices.SortFunc(b.rows, func(x, y row) int { return less(&x, &y) })
	}
	b.rows = unite(b.rows)
	a := &attempt{Process: b.proc, names: b.table}
	if len(b.rows) > 0 {
		a.Start = min(a.Start, b.rows[0].start)
	}
	a.stop = a.End
	if a.stop == run.Open {
		a.stop = a.LastSeen
	}
	a.stop = max(a.stop, a.Start)
	newWalk(a, b.threads).run(b.rows)
	slices.SortFunc(b.saves, func(x, y save) int {
		return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.through, y.through))
	})
	a.saves = slices.Compact(b.saves)
	a.finishLoops(b.loads)
	a.digest = a.sum()
	return a
}

// unite makes one row of those with the same id and start: a span and the
// note of its begin, or a span that was read twice.
func unite(rows []row) []row {
	out := rows[:0]
	for i := range rows {
		r := &rows[i]
		if n := len(out); n > 0 && r.id != 0 && out[n-1].id == r.id && out[n-1].start == r.start {
			last := &out[n-1]
			last.end = min(last.end, r.end) // an end that is known before none
			last.number = max(last.number, r.number)
			last.background = last.background || r.background
			if last.parent == 0 {
				last.parent = r.parent
			}
			continue
		}
		out = append(out, *r)
	}
	return out
}
