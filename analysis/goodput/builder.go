package goodput

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/spans"
)

// Builder makes the timeline of one process from its spans. Spans and
// checkpoints may come in any order; a span that comes twice counts once. Its
// memory is bounded: very many spans are sorted in a temporary file. It is not
// safe for concurrent use.
type Builder struct {
	categories
	proc    Process
	rows    rowStore
	first   int64 // the earliest start
	count   int   // of iterations, copies included
	saves   []save
	loads   []save
	threads []int64 // of the training loops
	hasLoop bool
	known   bool // a span of the standard vocabulary was added
	done    *attempt
}

// NewBuilder returns a builder for one process.
func NewBuilder(p Process) *Builder {
	return &Builder{proc: p, first: run.NoEnd, categories: newCategories()}
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
		b.count++
		b.thread(s, false)
	case r.kind == kindInit, r.kind == kindLoad:
		r.role = rolePhase
		if r.kind == kindLoad && s.Step >= 0 {
			b.loads = append(b.loads, save{time: s.Start, through: s.Step})
		}
	case r.kind == kindCustom:
		r.what = b.custom(s.Name)
	}
	b.known = b.known || r.role != roleNone
	b.first = min(b.first, r.start)
	b.rows.add(r)
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

// Saved adds a checkpoint that was saved successfully at a time and holds
// every iteration up to and including one.
func (b *Builder) Saved(at, through int64) {
	b.saves = append(b.saves, save{time: at, through: through})
}

// finish divides the time and gives up the spans.
func (b *Builder) finish() error {
	if b.done != nil {
		return nil
	}
	a := &attempt{Process: b.proc, names: b.table, standard: b.known}
	a.Start = min(a.Start, b.first)
	a.stop = a.End
	if a.stop == run.NoEnd {
		a.stop = a.LastSeen
	}
	a.stop = max(a.stop, a.Start)
	t := &timeline{names: b.table, hash: newHash(), iterations: make([]iteration, 0, b.count)}
	newWalk(a, t, b.threads).run(b.rows.all())
	if err := b.rows.close(); err != nil {
		return fmt.Errorf("goodput: rank %d, attempt %d: %w", a.Rank, a.Attempt, err)
	}
	slices.SortFunc(b.saves, func(x, y save) int {
		return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.through, y.through))
	})
	a.saves = slices.Compact(b.saves)
	a.finishLoops(t.iterations, b.loads)
	a.digest = a.sum(t)
	a.packed = t.pack()
	b.done = a
	return nil
}
