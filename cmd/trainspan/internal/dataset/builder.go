// Package dataset writes the events of training jobs, and the goodput accounts
// of each job, as Parquet files for database engines:
// docs/reference/parquet.md.
//
// Events may be added in any order. They are stored on disk if they do not fit
// in memory, and written by rank and time when all are known. A data set
// appears under its name when it is complete.
package dataset

import (
	"fmt"
	"sync"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// defaultMemory bounds the memory for rows.
const defaultMemory = 64 << 20

// Builder collects the events of jobs. Process may be called by several
// goroutines; the other methods are for one caller, after all events are added.
type Builder struct {
	mu     sync.Mutex
	rows   *extsort.Sorter[row]
	procs  map[*job.Process]*Process
	places []int64 // number of rows of each place
	names  table[spanName]
	groups table[string]
	files  table[string]
	hashes map[string]string // names of files, by hash
}

// New returns a Builder that keeps about memory bytes of rows in memory (64 MiB
// if 0) and the others in a temporary file in dir (the system's folder if
// empty). In addition it keeps each name of a span, a process group or a file
// once.
func New(memory int, dir string) *Builder {
	if memory <= 0 {
		memory = defaultMemory
	}
	codec := extsort.Codec[row]{Key: (*row).key, Later: true, Append: appendRow, Decode: decodeRow}
	return &Builder{rows: extsort.New(codec, memory, dir), procs: make(map[*job.Process]*Process), hashes: make(map[string]string)}
}

// Close releases the collected rows.
func (b *Builder) Close() error { return b.rows.Close() }

// Process begins the events of a process.
func (b *Builder) Process(p *job.Process) *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := b.procs[p]
	if to == nil {
		to = &Process{Process: p, to: b, places: make(map[int64]uint32), hour: -1}
		b.procs[p] = to
	}
	return to
}

// add adds rows of a process and counts them by place.
func (b *Builder) add(rows []row) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range rows {
		b.places[rows[i].place]++
		if err := b.rows.Add(&rows[i]); err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
	}
	return nil
}

// flush adds the rows that processes still hold.
func (b *Builder) flush() error {
	for _, p := range b.procs {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

// newPlace returns the number of a new place: an hour of a process.
func (b *Builder) newPlace() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.places = append(b.places, 0)
	return uint32(len(b.places) - 1)
}

// fileName returns the name of a file, or its hash.
func (b *Builder) fileName(id uint64) *string {
	hash := b.files.value(id)
	if name, ok := b.hashes[*hash]; ok {
		return &name
	}
	return hash
}

// Job is a run to be written.
type Job struct {
	Name string // of its folders
	Job  *job.Job

	// Part means that the Job has only some ranks of a job, which are added to the
	// existing ones. When all its files are written, they replace those of the same
	// ranks; the file of the index is last.
	Part bool

	Ledger *account.Ledger // if nil, the table is omitted

	// Steps, if not nil, calls its function with each row of the table steps, by
	// attempt, step and rank.
	Steps func(func(*Step) error) error
}

// Written has the numbers of rows and folders that were written for a run.
type Written struct {
	Events  int64
	Ledger  int64 // rows
	Steps   int64
	Folders int // of events
	Bytes   int64
}

// batchRows is the number of rows that are passed to the file at a time.
const batchRows = 4096

// batch is rows to be written to a file, with the memory that they point to.
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

// number stores a value and returns its address.
func (b *batch) number(n int64) *int64 {
	b.numbers = append(b.numbers, n)
	return &b.numbers[len(b.numbers)-1]
}

// add adds a row of a process.
func (b *batch) add(from *Builder, who *identity, r *row, outer uint64, outlasted []taken) {
	name := from.names.value(r.name)
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
		o := from.names.value(outer)
		e.OuterCat, e.OuterName = &o.cat, &o.name
	}
	for _, o := range outlasted {
		name := from.names.value(o.name)
		b.parts = append(b.parts, part{name.cat, name.name, o.us})
	}
	e.Outlasts = b.parts[len(b.parts)-len(outlasted):]
	if r.group != 0 {
		e.Group = from.groups.value(r.group)
	}
	if r.file != 0 {
		e.File = from.fileName(r.file)
	}
	b.rows = append(b.rows, e)
	b.args = append(b.args, r.args...)
	b.lengths = append(b.lengths, len(r.args))
}

// finish converts the arguments of all rows to strings, with one allocation.
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

// identity holds the common columns of a process's rows; nil means unknown.
type identity struct {
	rank    *int32
	attempt *int32
	host    *string
	pid     int64
}

func identify(p *job.Process) *identity {
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
