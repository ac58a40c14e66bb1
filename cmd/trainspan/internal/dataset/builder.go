// Package dataset writes the events of training jobs, and the goodput accounts
// of each job, as Parquet files for database engines:
// docs/reference/formats.md.
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
	rows   *extsort.Blocks
	procs  map[*job.Process]*Process
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
	return &Builder{rows: extsort.NewBlocks(int64(memory), dir), procs: make(map[*job.Process]*Process), hashes: make(map[string]string)}
}

// Process begins the events of a process.
func (b *Builder) Process(p *job.Process) *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := b.procs[p]
	if to == nil {
		to = &Process{Process: p, to: b, hours: make(map[int64]*hour)}
		b.procs[p] = to
	}
	return to
}

// flush packs the rows that processes still hold.
func (b *Builder) flush() error {
	for _, p := range b.procs {
		p.pack()
	}
	if err := b.rows.Err(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
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
