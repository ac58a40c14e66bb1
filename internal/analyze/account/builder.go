package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Builder makes the timeline of one process from its spans. Spans and
// checkpoints may be added in any order; a span that is added twice counts once.
// The memory for spans is bounded: if there are too many, they are sorted in a
// temporary file. A Builder is not safe for concurrent use.
type Builder struct {
	categories
	proc    Process
	rows    rowStore
	first   int64 // the earliest start
	steps   *job.Steps
	own     job.Steps // used if the process does not provide steps
	saves   []save
	ops     ops
	spans   Spans
	readers []Reader
	known   bool            // a span of the standard vocabulary was added
	devices bool            // a span of device work or of a launch was added
	spill   *extsort.Blocks // takes what exceeds the memory limit, nil: keep all in memory
	done    *attempt
}

// NewBuilder returns a builder for one process.
func NewBuilder(p Process) *Builder {
	b := &Builder{proc: p, first: job.NoEnd, categories: newCategories()}
	b.steps = &b.own
	return b
}

// NewPacked returns a builder for [Builder.UnmarshalBinary]. Data beyond the memory limit of
// spill goes to its file. If spill is nil, all data stays in memory.
func NewPacked(spill *extsort.Blocks) *Builder { return &Builder{spill: spill} }

// Span adds a span. It copies what it needs.
func (b *Builder) Span(s *job.Span) {
	r := Row{
		ID: s.ID, Parent: s.Parent, Start: s.Start, End: s.End, Thread: s.Thread, Class: s.Class, kind: kindOf[s.Class],
		Background: s.Background, nested: s.Nested, OfDevice: s.Launch != 0, Outside: s.Async || s.Name == spans.CheckpointSaveFinalization,
	}
	r.what = what(r.kind)
	r.Op, r.meet = b.ops.number(s)
	switch {
	case r.OfDevice:
		r.Class, r.Number = s.For, s.Launch
	case s.Class == vocab.ClassCollective:
		r.Number = s.Step
	default:
		r.Number = max(s.Device-s.DeviceComm, 0)
	}
	b.spans.add(s)
	switch {
	case s.Name == spans.TrainingLoop:
		r.role = roleLoop
	case s.StepRule != vocab.StepNone && s.StepRule != vocab.StepOptimizer:
		r.role = roleIteration // a candidate: resolve decides
		if s.StepRule == vocab.StepWord {
			r.what = b.custom(s.Name)
		}
	case r.kind == kindInit, r.kind == kindLoad:
		r.role = rolePhase
	case r.kind == kindCustom:
		r.what = b.custom(s.Name)
	case r.kind == kindStartUp:
		r.what = b.startUp(s.Kind)
	}
	if b.steps == &b.own {
		b.own.Add(s)
	}
	b.known, b.devices = b.known || r.role != roleNone, b.devices || s.Launch != 0 || s.Device > 0
	b.first = min(b.first, r.Start)
	b.rows.add(r)
}

// resolve makes an iteration of a row that is a training step. A candidate that
// is not a step becomes other time, unless it is compute time, a collective or a
// span of the program's own, which keeps its name.
func (b *Builder) resolve(r *Row) {
	if r.role != roleIteration {
		return
	}
	if i := b.steps.Find(r.Start, r.ID); i >= 0 {
		r.kind, r.what = kindIteration, firstIteration+what(i)
		return
	}
	switch r.role = roleNone; r.kind {
	case kindCompute, kindCollective, kindCustom: // these count whether or not they are a step
	default:
		r.kind, r.what = kindOther, whatOther
	}
}

// Saved adds a checkpoint that was saved successfully at time at and holds
// every iteration up to and including through.
func (b *Builder) Saved(at, through int64) {
	b.saves = append(b.saves, save{time: at, through: through})
}

// finish makes the timeline and releases the spans.
func (b *Builder) finish() error {
	if b.done != nil {
		return nil
	}
	a := &attempt{Process: b.proc, names: b.table, meets: b.ops.kinds, role: b.spans.Role, standard: b.known}
	a.Start = min(a.Start, b.first)
	a.stop = a.End
	if a.stop == job.NoEnd {
		a.stop = a.LastSeen
	}
	a.stop = max(a.stop, a.Start)
	steps := b.steps.All()
	joins := b.ops.joins()
	t := newTimeline(b.table, b.spill)
	t.devices, t.joins, t.met.groups, t.iterations = b.devices, joins, groups(b.ops.kinds), make([]iteration, 0, len(steps))
	for i := range steps {
		st := &steps[i]
		t.iterations = append(t.iterations, iteration{number: st.Number, start: st.Start, end: st.End, loop: int32(st.Loop)})
	}
	for _, lp := range b.steps.Loops() {
		a.loops = append(a.loops, loop{lp.Start, lp.From, lp.Given, lp.Inferred, lp.Continues})
	}
	a.unnumbered, a.local = b.steps.Unnumbered, b.steps.Local
	if a.means = b.steps.Rule == vocab.StepUpdate; a.means { // these iterations have no spans
		for i := range steps {
			b.rows.add(Row{ID: steps[i].ID, Start: steps[i].Start, End: steps[i].End, kind: kindIteration, role: roleIteration})
		}
	}
	err := b.read(func(next func() []Row) {
		newWalk(a, t, b.steps).run(func() []Row {
			rows := next()
			for i := range rows {
				b.resolve(&rows[i])
			}
			return rows
		})
	})
	if err != nil {
		return fmt.Errorf("goodput: rank %d, attempt %d: %w", a.Rank, a.Attempt, err)
	}
	slices.SortFunc(b.saves, func(x, y save) int {
		return cmp.Or(cmp.Compare(x.time, y.time), cmp.Compare(x.through, y.through))
	})
	a.saves = slices.Compact(b.saves)
	a.digest = a.sum(t)
	a.packed = t.pack()
	b.done = a
	return nil
}

// read passes the rows to the readers, and those of each start to fn, which need not read all, and
// releases them.
func (b *Builder) read(fn func(next func() []Row)) error {
	b.spans.Ops = b.ops.list
	for _, to := range b.readers {
		to.Begin(&b.spans)
	}
	from := b.rows.all()
	next := func() []Row {
		rows := from()
		for i := range rows {
			for _, to := range b.readers {
				to.Row(&rows[i])
			}
		}
		return rows
	}
	fn(next)
	for len(b.readers) > 0 && next() != nil { // what began after the end of the process
	}
	var failed error
	for _, to := range b.readers {
		failed = errors.Join(failed, to.End())
	}
	return errors.Join(failed, b.rows.close())
}

// OpenSink returns a sink that builds the timeline of a process, for
// [job.Set.Read] and [LedgerOf], and passes its rows to readers. Data beyond the memory limit
// of spill goes to its file. If spill is nil, all data stays in memory.
func OpenSink(p *job.Process, spill *extsort.Blocks, readers ...Reader) (job.Sink, *Builder) {
	s := &sink{Builder: NewBuilder(Process{Start: job.NoEnd}), from: p}
	s.steps, s.spill, s.readers = &p.Steps, spill, readers
	return s, s.Builder
}

// sink passes the records of a file to a builder.
type sink struct {
	*Builder
	from *job.Process
}

func (s *sink) Event(e *job.Event) {
	if e.Name == spans.EventSaveCheckpointSuccess && e.Through >= 0 {
		s.Saved(e.Time, e.Through)
	}
}

func (s *sink) Close() error {
	p := s.from
	s.proc = Process{Start: p.Start, End: p.End, LastSeen: p.LastSeen, Heartbeats: p.Heartbeats, Dropped: p.Dropped}
	s.ops.name(p.Groups)
	return s.finish()
}

// OpenRows returns a sink that only passes the rows of a process to a reader, without those of
// spans that are no part of a step, such as system calls.
func OpenRows(p *job.Process, to Reader) job.Sink {
	s := &rowSink{Builder: NewBuilder(Process{Start: job.NoEnd}), from: p}
	s.steps, s.readers = &p.Steps, []Reader{to}
	return s
}

type rowSink struct {
	*Builder
	from *job.Process
}

func (s *rowSink) Span(sp *job.Span) {
	switch kindOf[sp.Class] {
	case kindDetail, kindOther, kindCustom:
		if sp.Launch == 0 {
			s.spans.add(sp)
			return
		}
	}
	s.Builder.Span(sp)
}

func (s *rowSink) Event(*job.Event) {}

func (s *rowSink) Close() error {
	s.ops.name(s.from.Groups)
	return s.read(func(func() []Row) {})
}
