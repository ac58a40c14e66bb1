// Package ring reads the spans that a Python process writes to shared memory
// with the client in integrations/python/trainspan. docs/maintain/architecture.md describes the
// format.
//
// A [Ring] trusts nothing that it reads: not an offset, a length, an id or a
// time. It keeps up with a writer that is alive, and reads what a process that
// was killed left behind:
//
//	r, err := ring.Open(path, ring.Options{Drain: true})
//	...
//	for {
//		n, err := r.Read(func(rec *ring.Record) { ... })
//		...
//	}
//
// What was lost is counted exactly: slots that the writer overwrote before they
// were read, and slots that a thread took and never wrote.
package ring

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// Ext and SideExt are the extensions of a ring and of the file with its names.
const (
	Ext     = ".ring"
	SideExt = ".names"
)

// Options configures a Ring.
type Options struct {
	// Drain lets Release give back to the writer what was read. Without it the
	// file is only read, as is right for a ring that was left behind.
	Drain bool
	// Patience is for how long a slot that was taken may stay unwritten while
	// others are written behind it; then it counts as lost. Zero means ten
	// seconds.
	Patience time.Duration
}

// batchSlots is how many slots are copied at a time.
const batchSlots = 256

// Ring is an open ring. It is not safe for concurrent use.
type Ring struct {
	mapped
	decoder
	steps    stepReader
	patience time.Duration
	settle   time.Duration
	next     cursor
	newest   uint64 // the latest activation, as far as the head tells
	holes    []hole
	batch    []byte
	late     [slotSize]byte
	refused  int64 // slots that the writer found no space for
}

// hole is a slot that was taken and not written while later ones were.
type hole struct {
	cursor
	since time.Time
}

// Is reports whether a file is a ring, of whatever version, by its first bytes.
func Is(path string) bool {
	f, err := openFile(path, false)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	return is(f)
}

func is(f *os.File) bool {
	b := make([]byte, len(magic))
	_, err := f.ReadAt(b, 0)
	return err == nil && string(b) == magic
}

// Open opens a ring. Of one that a writer is just making the error is ErrNotRing: try again.
func Open(path string, o Options) (*Ring, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	f, err := openFile(path, o.Drain)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	r := &Ring{
		mapped: mapped{file: f, drain: o.Drain, regions: make(map[int][]byte)}, decoder: decoder{Head: Head{Path: path}},
		patience: o.Patience, settle: settle, next: cursor{activation: 1, region: -1}, batch: make([]byte, batchSlots*slotSize),
	}
	r.steps.mapped, r.steps.decoder = &r.mapped, &r.decoder
	if err := r.open(); err != nil {
		r.Close()
		return nil, fmt.Errorf("ring: %s: %w", path, err)
	}
	return r, nil
}

func (r *Ring) open() (err error) {
	defer guard(&err)()
	if err := r.mapped.open(); err != nil {
		return err
	}
	r.PID = int64(load(r.head, atPID) & 0x7fffffff)
	r.Opened, r.anchor = int64(load(r.head, atOpened)), int64(load(r.head, atAnchor))
	r.Python, r.Forks, r.Ticks = load(r.head, atPython), int(min(load(r.head, atForks), 1<<20)), load(r.head, atTicks)
	if r.Opened < 0 || r.Opened >= 1<<62 || r.anchor < 0 {
		return fmt.Errorf("%w: invalid clock (%d, %d)", ErrNotRing, r.Opened, r.anchor)
	}
	if r.side, err = openSide(strings.TrimSuffix(r.Path, Ext) + SideExt); err != nil {
		return err
	}
	return r.side.read()
}

// Name returns an entry of the table of names, or nil.
func (r *Ring) Name(id uint32) *Name { return r.side.name(id) }

// Who is what the process said about itself when it opened the ring.
func (r *Ring) Who() Who { return r.side.who }

// Metas returns the metadata that has come since it was asked last.
func (r *Ring) Metas() []Meta {
	m := r.side.metas
	r.side.metas = nil
	return m
}

// Stats are the counts of this moment.
func (r *Ring) Stats() Stats {
	s := r.stats
	s.Bad += r.side.bad
	s.Others = r.side.others
	s.Lost += r.refused
	return s
}

// Unsaved is how many slots were read, not given back, and overwritten since: they are
// in the ring no more.
func (r *Ring) Unsaved() (slots int64, err error) {
	defer guard(&err)()
	slots = r.overwritten()
	if r.next.region >= 0 && !r.current(r.next) {
		slots += int64(r.next.slot)
	}
	return slots, nil
}

// Close closes the ring and leaves its files.
func (r *Ring) Close() {
	r.close()
	if r.side != nil {
		_ = r.side.file.Close()
	}
}

// Remove deletes the files of a ring. What is no ring is left.
func Remove(path string) error {
	err := fswrite.Remove(path, func(f *os.File) error {
		if !is(f) {
			return fmt.Errorf("%s: %w", path, ErrNotRing)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The names are its own by their name alone.
	return fswrite.Remove(strings.TrimSuffix(path, Ext)+SideExt, func(*os.File) error { return nil })
}

// Cells calls take for the latest start of each name on each thread, and for what is
// open of the latest step. Those spans may have ended; that they have not is what the
// spans say that were read.
func (r *Ring) Cells(take func(Cell)) (err error) {
	defer guard(&err)()
	for t := range cellThreads {
		thread := r.side.threads[uint32(t)]
		if thread == nil {
			continue
		}
		for id := range cellNames {
			if at := load(r.head, cellsAt+8*(t*cellNames+id)); at != 0 && at < 1<<62 {
				if n := r.side.name(uint32(id)); n != nil {
					take(Cell{Name: n, Thread: thread, Start: r.epoch(at)})
				}
			}
		}
	}
	r.steps.open(take)
	return nil
}
