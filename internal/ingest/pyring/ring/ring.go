// Package ring reads the spans that a Python process writes to shared memory
// with the client in integrations/python/trainspan. docs/maintain/ring.md
// describes the format.
//
// A [Ring] validates everything that it reads: offsets, lengths, ids and times.
// It keeps up with a live writer, and reads what a killed process left behind:
//
//	r, err := ring.Open(path, ring.Options{Drain: true})
//	...
//	for {
//		n, err := r.Read(func(rec *ring.Record) { ... })
//		...
//	}
//
// Losses are counted exactly: slots that the writer overwrote before they were
// read, and slots that a thread took and never wrote.
package ring

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// Ext and SideExt are the extensions of a ring buffer and of the file with its
// names.
const (
	Ext     = ".ring"
	SideExt = ".names"
)

// Options configures a Ring.
type Options struct {
	// Drain lets Release return read regions to the writer. Without it the file is
	// only read, which is right for a ring buffer that was left behind.
	Drain bool
	// Patience is for how long a taken slot may stay unwritten while later ones are
	// written; then it counts as lost. Zero means 10 s.
	Patience time.Duration
}

// batchSlots is how many slots are copied at a time.
const batchSlots = 256

// Ring is an open ring buffer. It is not safe for concurrent use.
type Ring struct {
	mapped
	decoder
	steps    stepReader
	patience time.Duration
	next     cursor
	newest   uint64 // the latest activation, according to the header
	holes    []hole
	batch    []byte
	late     [slotSize]byte
	refused  int64 // slots for which the writer had no space
}

// hole is a slot that was taken and not written while later ones were.
type hole struct {
	cursor
	since time.Time
}

// Is reports whether a file is a ring buffer of any version, by its first
// bytes.
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

// Open opens a ring buffer. While a writer is creating it, the error is
// ErrNotRing: try again.
func Open(path string, o Options) (*Ring, error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	f, err := openFile(path, o.Drain)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	r := &Ring{
		mapped: mapped{file: f, drain: o.Drain, settle: settle, regions: make(map[int][]byte)}, decoder: decoder{Head: Head{Path: path}},
		patience: o.Patience, next: cursor{activation: 1, region: -1}, batch: make([]byte, batchSlots*slotSize),
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

// Who returns the identity that the process wrote when it opened the ring
// buffer.
func (r *Ring) Who() Who { return r.side.who }

// Metas returns the metadata since the last call.
func (r *Ring) Metas() []Meta {
	m := r.side.metas
	r.side.metas = nil
	return m
}

// Stats returns the current counts.
func (r *Ring) Stats() Stats {
	s := r.stats
	s.Bad += r.side.bad
	s.Others = r.side.others
	s.Lost += r.refused
	return s
}

// Unsaved returns how many slots were read, not released, and overwritten
// since, so that they are no longer in the ring buffer.
func (r *Ring) Unsaved() (slots int64, err error) {
	defer guard(&err)()
	slots = r.overwritten()
	if r.next.region >= 0 && !r.current(r.next) {
		slots += int64(r.next.slot)
	}
	return slots, nil
}

// Close closes the ring buffer and keeps its files.
func (r *Ring) Close() {
	r.close()
	if r.side != nil {
		_ = r.side.file.Close()
	}
}

// Remove deletes the files of a ring buffer. Other files are kept.
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
	// The name alone proves that the side file belongs to the ring buffer.
	return fswrite.Remove(strings.TrimSuffix(path, Ext)+SideExt, func(*os.File) error { return nil })
}

// Cells calls take for the latest start of each name on each thread, and for
// the open parts of the latest step. These spans may have ended; the spans that
// were read show which.
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
