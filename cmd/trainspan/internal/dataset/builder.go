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
func (b *Builder) fileName(number uint32) string {
	hash := *b.files.value(number)
	if name, ok := b.hashes[hash]; ok {
		return name
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
