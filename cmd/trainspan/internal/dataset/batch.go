package dataset

import (
	"github.com/trainspan/trainspan/internal/vocab"

	"github.com/trainspan/trainspan/internal/run"
)

// batchRows is how many rows are handed to the file at a time.
const batchRows = 4096

// batch is rows on their way into a file, with the memory that they point to.
type batch struct {
	rows    []event
	numbers []int64
	texts   []string
	parts   []part
	args    []byte
	lengths []int // of the arguments of each row
	means   vocab.Book
}

func newBatch() *batch {
	return &batch{rows: make([]event, 0, batchRows), numbers: make([]int64, 0, 2*batchRows), texts: make([]string, batchRows), lengths: make([]int, 0, batchRows)}
}

func (b *batch) full() bool { return len(b.rows) == batchRows }

func (b *batch) reset() {
	b.rows, b.numbers, b.parts, b.args, b.lengths = b.rows[:0], b.numbers[:0], b.parts[:0], b.args[:0], b.lengths[:0]
}

// number keeps a value and returns where.
func (b *batch) number(n int64) *int64 {
	b.numbers = append(b.numbers, n)
	return &b.numbers[len(b.numbers)-1]
}

// add takes a row of a process.
func (b *batch) add(from *Builder, who *identity, r *row, outer uint64, outlasted []taken) {
	name := from.names.at(r.name)
	e := event{
		Rank: who.rank, Attempt: who.attempt, Host: who.host, PID: who.pid, TID: r.tid, Phase: name.phase.String(), Cat: name.cat, Name: name.name,
		Class: b.means.Of(name.cat, name.name).Class.String(),
		TS:    r.ts, Dur: r.dur, ID: int64(r.id), Parent: r.parent,
	}
	if r.epoch.known {
		e.Epoch = b.number(r.epoch.value)
	}
	if r.step.known {
		e.Step = b.number(r.step.value)
	}
	if outer != 0 {
		o := from.names.at(outer)
		e.OuterCat, e.OuterName = &o.cat, &o.name
	}
	for _, o := range outlasted {
		name := from.names.at(o.name)
		b.parts = append(b.parts, part{name.cat, name.name, o.us})
	}
	e.Outlasts = b.parts[len(b.parts)-len(outlasted):]
	if r.group != 0 {
		e.Group = from.groups.at(r.group)
	}
	if r.file != 0 {
		e.File = from.fileName(r.file)
	}
	b.rows = append(b.rows, e)
	b.args = append(b.args, r.args...)
	b.lengths = append(b.lengths, len(r.args))
}

// finish makes strings of the arguments of all rows, with one allocation.
func (b *batch) finish() []event {
	all := string(b.args)
	for i, n := range b.lengths {
		if n > 0 {
			b.texts[i], all = all[:n], all[n:]
			b.rows[i].Args = &b.texts[i]
		}
	}
	return b.rows
}

// identity is what the rows of a process have in common; nil is not known.
type identity struct {
	rank    *int32
	attempt *int32
	host    *string
	pid     int64
}

func identify(p *run.Process) *identity {
	who := &identity{pid: p.PID}
	if p.Attempt > 0 {
		attempt := int32(p.Attempt)
		who.attempt = &attempt
	}
	if p.Host != "" {
		who.host = &p.Host
	}
	if p.RankKnown {
		rank := int32(p.Rank)
		who.rank = &rank
	}
	return who
}
