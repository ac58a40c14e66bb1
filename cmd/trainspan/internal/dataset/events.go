package dataset

import (
	"cmp"
	"context"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/parquetfile"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

const (
	pageRows = 1 << 15 // rows of a page, at most
	pageText = 1 << 20 // bytes of arguments from which on a page ends
)

// page holds rows of events by column. Columns that depend on the process, the
// name, the process group or the file share their numbers.
type page struct {
	processes, names, outer, groups, files []uint32
	tid, ts, dur, id, parent, epoch, step  []int64
	hasEpoch, hasStep, hasArgs             []byte
	args                                   []byte
	argEnds                                []uint32 // after a 0
	outlasted                              []uint32 // names
	outlastedTimes                         []int64
	outlasts                               parquetfile.Levels
}

func (p *page) full() bool { return len(p.ts) == pageRows || len(p.args) >= pageText }

func (p *page) reset() {
	for _, column := range []*[]uint32{&p.processes, &p.names, &p.outer, &p.groups, &p.files, &p.argEnds, &p.outlasted} {
		*column = (*column)[:0]
	}
	for _, column := range []*[]int64{&p.tid, &p.ts, &p.dur, &p.id, &p.parent, &p.epoch, &p.step, &p.outlastedTimes} {
		*column = (*column)[:0]
	}
	for _, column := range []*[]byte{&p.hasEpoch, &p.hasStep, &p.hasArgs, &p.args, &p.outlasts.Repetition, &p.outlasts.Definition} {
		*column = (*column)[:0]
	}
	p.argEnds = append(p.argEnds, 0)
}

// add adds a row of a process.
func (p *page) add(process uint32, r *row, outer uint32, outlasted []taken) {
	p.processes, p.names, p.outer = append(p.processes, process), append(p.names, r.name), append(p.outer, outer)
	p.groups, p.files = append(p.groups, r.group), append(p.files, r.file)
	p.tid, p.ts, p.dur = append(p.tid, r.tid), append(p.ts, r.ts), append(p.dur, r.dur)
	p.id, p.parent = append(p.id, int64(r.id)), append(p.parent, r.parent)
	p.epoch, p.hasEpoch = r.epoch.append(p.epoch, p.hasEpoch)
	p.step, p.hasStep = r.step.append(p.step, p.hasStep)
	if len(r.args) > 0 {
		p.args = append(p.args, r.args...)
		p.argEnds = append(p.argEnds, uint32(len(p.args)))
	}
	p.hasArgs = append(p.hasArgs, byte(min(len(r.args), 1)))
	if len(outlasted) == 0 {
		p.outlasts.Repetition, p.outlasts.Definition = append(p.outlasts.Repetition, 0), append(p.outlasts.Definition, 0)
	}
	for i, o := range outlasted {
		p.outlasted, p.outlastedTimes = append(p.outlasted, o.name), append(p.outlastedTimes, o.us)
		p.outlasts.Repetition, p.outlasts.Definition = append(p.outlasts.Repetition, byte(min(i, 1))), append(p.outlasts.Definition, 1)
	}
}

// append adds the value, if it is known, to a column.
func (n number) append(values []int64, known []byte) ([]int64, []byte) {
	if !n.known {
		return values, append(known, 0)
	}
	return append(values, n.value), append(known, 1)
}

// eventFile is a file of events of some processes.
type eventFile struct {
	from *Builder
	to   *parquetfile.Writer
	page
	processes []*Process
	rows      int64
}

// flush writes the page, unless it is empty.
func (f *eventFile) flush() error {
	p := &f.page
	if len(p.ts) == 0 {
		return nil
	}
	ints := func(column string, values []int64, known []byte) {
		f.to.Column(column).Ints(values, parquetfile.Levels{Definition: known})
	}
	numbered := func(column string, numbers []uint32, value func(number uint32) parquetfile.Value) {
		f.to.Column(column).Numbered(numbers, parquetfile.Levels{}, value)
	}
	numbered("rank", p.processes, func(n uint32) parquetfile.Value {
		return parquetfile.Value{Int: int64(f.processes[n].Rank), Null: !f.processes[n].RankKnown}
	})
	numbered("attempt", p.processes, func(n uint32) parquetfile.Value {
		return parquetfile.Value{Int: int64(f.processes[n].Attempt), Null: f.processes[n].Attempt <= 0}
	})
	numbered("host", p.processes, func(n uint32) parquetfile.Value { return optionalText(f.processes[n].Host) })
	numbered("pid", p.processes, func(n uint32) parquetfile.Value { return parquetfile.Value{Int: f.processes[n].PID} })
	ints("tid", p.tid, nil)
	numbered("ph", p.names, func(n uint32) parquetfile.Value { return parquetfile.Value{Text: f.name(n).phase.String()} })
	numbered("cat", p.names, f.category)
	numbered("name", p.names, f.event)
	numbered("class", p.names, func(n uint32) parquetfile.Value {
		return parquetfile.Value{Text: vocab.Of(f.name(n).cat, f.name(n).name).Class.String()}
	})
	ints("ts", p.ts, nil)
	ints("dur_us", p.dur, nil)
	ints("epoch", p.epoch, p.hasEpoch)
	ints("step", p.step, p.hasStep)
	ints("id", p.id, nil)
	ints("parent", p.parent, nil)
	numbered("outer_cat", p.outer, f.category)
	numbered("outer_name", p.outer, f.event)
	f.to.Column("outlasts.list.element.cat").Numbered(p.outlasted, p.outlasts, f.category)
	f.to.Column("outlasts.list.element.name").Numbered(p.outlasted, p.outlasts, f.event)
	f.to.Column("outlasts.list.element.us").Ints(p.outlastedTimes, p.outlasts)
	numbered("pg", p.groups, func(n uint32) parquetfile.Value {
		if n == 0 {
			return parquetfile.Value{Null: true}
		}
		return parquetfile.Value{Text: *f.from.groups.value(n)}
	})
	numbered("file", p.files, func(n uint32) parquetfile.Value {
		if n == 0 {
			return parquetfile.Value{Null: true}
		}
		return parquetfile.Value{Text: f.from.fileName(n)}
	})
	f.to.Column("args").Texts(p.args, p.argEnds, parquetfile.Levels{Definition: p.hasArgs})
	f.rows += int64(len(p.ts))
	err := f.to.EndPage(len(p.ts))
	p.reset()
	return err
}

func (f *eventFile) name(number uint32) *spanName { return f.from.names.value(number) }

// category returns the category of a name, which is null for number 0.
func (f *eventFile) category(number uint32) parquetfile.Value {
	if number == 0 {
		return parquetfile.Value{Null: true}
	}
	return parquetfile.Value{Text: f.name(number).cat}
}

// event returns the name of an event, which is null for number 0.
func (f *eventFile) event(number uint32) parquetfile.Value {
	if number == 0 {
		return parquetfile.Value{Null: true}
	}
	return parquetfile.Value{Text: f.name(number).name}
}

func optionalText(text string) parquetfile.Value {
	return parquetfile.Value{Text: text, Null: text == ""}
}

// events writes a file with the rows of some processes in an hour, rank by
// rank.
func (b *Builder) events(ctx context.Context, out *output, name string, hour int64, procs []*Process) error {
	t, err := out.create(name)
	if err != nil {
		return err
	}
	f, _ := out.events.Get().(*eventFile)
	if f == nil {
		schema, err := schemaOf[event](out, "rank", "ts")
		if err != nil {
			t.draft.Discard()
			return err
		}
		f = &eventFile{from: b, to: parquetfile.New(schema, groupRows)}
	}
	f.to.Reset(t)
	f.processes, f.rows = procs, 0
	f.page.reset()
	byRank := func(x, y *Process) int { return cmp.Compare(x.Rank, y.Rank) }
	slices.SortStableFunc(procs, byRank)
	for from := 0; from < len(procs) && err == nil; {
		to := from + 1
		for to < len(procs) && byRank(procs[from], procs[to]) == 0 {
			to++
		}
		err = f.rank(ctx, from, to, hour)
		from = to
	}
	if err == nil {
		err = cmp.Or(f.flush(), f.to.Close())
	}
	if err = t.close(&out.written.Events, f.rows, err); err == nil {
		out.events.Put(f)
	}
	return err
}

// rank adds the rows of one rank in an hour: those of the processes in a range.
func (f *eventFile) rank(ctx context.Context, from, to int, hour int64) error {
	rows := mergeOf(f.processes, from, to, hour)
	for r := rows.next(); r != nil; r = rows.next() {
		outer, outlasted := uint32(0), []taken(nil)
		if f.name(r.name).phase == dftracer.PhaseComplete {
			outer, outlasted = f.processes[r.process].lanes.begin(&r.row)
		}
		if f.add(uint32(r.process), &r.row, outer, outlasted); f.full() {
			if err := cmp.Or(f.flush(), ctx.Err()); err != nil {
				return err
			}
		}
	}
	return cmp.Or(f.from.rows.Err(), rows.err)
}
