package dataset

import (
	"fmt"
	"sync"

	"github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/spill"
)

// defaultMemory is what the rows in memory may take.
const defaultMemory = 64 << 20

// Builder collects the events of jobs. Process may be called by several
// goroutines; the other methods are for one caller, once all events are added.
type Builder struct {
	mu     sync.Mutex
	rows   *spill.Sorter[row]
	procs  map[*run.Process]*Process
	places []int64 // how many rows each has
	names  table[spanName]
	groups table[string]
	files  table[string]
	hashes map[string]string // names of files, by hash
}

// New returns a Builder that keeps about memory bytes of rows, 64 MiB for zero, and
// the others in a temporary file in dir, the system's when empty. Names of
// spans, process groups and files are kept besides, each once.
func New(memory int, dir string) *Builder {
	if memory <= 0 {
		memory = defaultMemory
	}
	codec := spill.Codec[row]{Key: (*row).key, Later: true, Append: appendRow, Decode: decodeRow}
	return &Builder{rows: spill.New(codec, memory, dir), procs: make(map[*run.Process]*Process), hashes: make(map[string]string)}
}

// Close returns up what was collected.
func (b *Builder) Close() error { return b.rows.Close() }

// Process begins the events of a process.
func (b *Builder) Process(p *run.Process) *Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	to := b.procs[p]
	if to == nil {
		to = &Process{Process: p, to: b, places: make(map[int64]uint32), hour: -1}
		b.procs[p] = to
	}
	return to
}

// add takes rows of a process. Their places are counted from here on.
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

// flush takes what processes still hold.
func (b *Builder) flush() error {
	for _, p := range b.procs {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

// newPlace numbers an hour of a process.
func (b *Builder) newPlace() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.places = append(b.places, 0)
	return uint32(len(b.places) - 1)
}

// fileName is the name of a file, or the hash that stands for it.
func (b *Builder) fileName(id uint64) *string {
	hash := b.files.at(id)
	if name, ok := b.hashes[*hash]; ok {
		return &name
	}
	return hash
}
