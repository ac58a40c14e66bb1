package dataset

import (
	"fmt"
	"sync"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/spill"
)

// Arguments with a column of their own.
const (
	argEpoch = "epoch"
	argStep  = "step"
	argGroup = "pg"
	argFile  = "fhash"
)

// usPerHour is the length of a folder.
const usPerHour = 3600 * 1_000_000

// defaultMemory is what the rows in memory may take.
const defaultMemory = 64 << 20

// Builder collects the events of jobs. Add is safe for concurrent use; the other
// methods are for one caller, after the last Add.
type Builder struct {
	mu     sync.Mutex
	rows   *spill.Sorter[row]
	procs  map[*run.Process]*process
	last   *process
	places uint32
	names  *table[spanName]
	groups *table[string]
	files  *table[string]
	hashes map[string]string // names of files, by hash
	row    row
	count  int64
}

// process is where the rows of a process are.
type process struct {
	*run.Process
	places map[int64]uint32 // by hour
	hour   int64
	place  uint32
	lanes  lanes
}

// New returns a Builder that keeps about memory bytes of rows, 64 MiB for zero, and
// the others in a temporary file in dir, the system's when empty. Names of
// spans, process groups and files are kept besides, each once.
func New(memory int, dir string) *Builder {
	if memory <= 0 {
		memory = defaultMemory
	}
	codec := spill.Codec[row]{Key: (*row).key, Append: appendRow, Decode: decodeRow}
	return &Builder{
		rows: spill.New(codec, memory, dir), procs: make(map[*run.Process]*process), hashes: make(map[string]string),
		names: newTable[spanName](), groups: newTable[string](), files: newTable[string](),
	}
}

// Close gives up what was collected.
func (b *Builder) Close() error { return b.rows.Close() }

// Add takes an event of a process, or the name of a file behind a hash. It keeps
// nothing of it but strings. An error means that the temporary file cannot be
// written.
func (b *Builder) Add(p *run.Process, ev *dftracer.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ev.Phase == dftracer.PhaseMetadata {
		if ev.Name == dftracer.NameFileHash {
			name, hash := ev.Meta()
			b.hashes[hash] = name
		}
		return nil
	}
	if ev.Cat == dftracer.CatDFTracer {
		return nil // the framing
	}
	r := &b.row
	*r = row{
		ts: ev.TS, dur: ev.Dur, tid: ev.TID, id: ev.ID, parent: max(ev.Parent, 0), level: int64(max(ev.Level, 0)),
		name: b.names.of(spanName{ev.Cat, ev.Name, ev.Phase}), args: r.args[:0],
	}
	r.place = b.placeOf(p, ev.TS)
	for i := range ev.Args {
		b.argument(r, &ev.Args[i])
	}
	if len(r.args) > 0 {
		r.args = append(r.args, '}')
	}
	b.count++
	if err := b.rows.Add(r); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// placeOf returns the number of the process and the hour.
func (b *Builder) placeOf(rp *run.Process, ts int64) uint32 {
	p := b.last
	if p == nil || p.Process != rp {
		if p = b.procs[rp]; p == nil {
			p = &process{Process: rp, places: make(map[int64]uint32), hour: -1}
			b.procs[rp] = p
		}
		b.last = p
	}
	hour := max(ts, 0) / usPerHour
	if p.hour == hour {
		return p.place
	}
	at, ok := p.places[hour]
	if !ok {
		at = b.places
		b.places++
		p.places[hour] = at
	}
	p.hour, p.place = hour, at
	return at
}

// argument puts an argument into its column, or into the JSON of the others.
func (b *Builder) argument(r *row, arg *dftracer.Arg) {
	whole, text := arg.Kind() == dftracer.KindInt, arg.Kind() == dftracer.KindString
	switch {
	case whole && arg.Key == argStep:
		r.step = number{arg.Int64(), true}
		return
	case whole && arg.Key == argEpoch:
		r.epoch = number{arg.Int64(), true}
		return
	case text && arg.Key == argGroup:
		r.group = b.groups.of(arg.Text())
		return
	case arg.Key == argFile:
		r.file = b.files.of(arg.Text())
		return
	}
	sep := byte(',')
	if len(r.args) == 0 {
		sep = '{'
	}
	key := dftracer.String("", arg.Key)
	r.args = append(key.AppendJSON(append(r.args, sep), dftracer.V2), ':')
	r.args = arg.AppendJSON(r.args, dftracer.V2)
}
