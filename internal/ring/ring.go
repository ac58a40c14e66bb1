package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/outfile"
)

// Ext and SideExt are the extensions of a ring and of the file with its names.
const (
	Ext     = ".ring"
	SideExt = ".names"
)

// ErrNotRing is why Open refuses a file.
var ErrNotRing = errors.New("not a ring")

// ErrVersion is why Open refuses a ring whose layout is another one.
var ErrVersion = errors.New("a ring of another version")

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

// Ring is an open ring. It is not safe for concurrent use.
type Ring struct {
	decoder
	o       Options
	file    *os.File
	head    []byte
	regions map[int][]byte // mapped, by number
	next    cursor
	steps   []cursor // regions with steps, in their order; the first one is being read
	inSteps bool     // they are being read
	seen    uint64   // the activations among which regions with steps were looked for
	slots   uint64   // the latest one without
	found   uint64   // the latest one with steps
	apart   []uint64 // those with steps, from next on
	newest  uint64   // the latest activation, as far as the head tells
	holes   []hole
	held    []cursor // regions that were read and not given back
	batch   []byte
	late    [slotSize]byte
	refused int64 // slots that the writer found no space for
	settle  time.Duration
	ended   bool
}

// cursor is where reading goes on: a slot of an activation, which is one use of
// a region.
type cursor struct {
	activation uint64 // from 1
	region     int    // -1: not found yet
	slot       int    // or step
	end        int    // behind the last slot that is written; 0: not looked for
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
	r := &Ring{o: o, decoder: decoder{Head: Head{Path: path}}, file: f, regions: make(map[int][]byte), settle: settle, batch: make([]byte, batchSlots*slotSize)}
	r.next = cursor{activation: 1, region: -1}
	if err := r.open(); err != nil {
		r.Close()
		return nil, fmt.Errorf("ring: %s: %w", path, err)
	}
	return r, nil
}

func (r *Ring) open() (err error) {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < headSize {
		return ErrNotRing
	}
	defer guard(&err)()
	if r.head, err = mapFile(r.file, 0, headSize, r.o.Drain); err != nil {
		return err
	}
	if !bytes.Equal(r.head[:len(magic)], []byte(magic)) {
		return ErrNotRing
	}
	if v := r.head[len(magic)]; v != Version {
		return fmt.Errorf("%w: it has version %d, this program reads %d: import it with the trainspan that recorded it, or record "+
			"the job again: trainspan run -- COMMAND", ErrVersion, v, Version)
	}
	for i, want := range []uint64{slotSize, regionSlots, 0, tableAt, cellsAt, cellThreads, cellNames, headSize} {
		if got := load(r.head, atLayout+8*i); got != want && want != 0 {
			return fmt.Errorf("%w: number %d of its layout is %d, not %d", ErrNotRing, i, got, want)
		}
	}
	r.PID = int64(load(r.head, atPID) & 0x7fffffff)
	r.Opened, r.anchor = int64(load(r.head, atOpened)), int64(load(r.head, atAnchor))
	r.Python, r.Forks, r.Ticks = load(r.head, atPython), int(min(load(r.head, atForks), 1<<20)), load(r.head, atTicks)
	if r.Opened < 0 || r.Opened >= 1<<62 || r.anchor < 0 {
		return fmt.Errorf("%w: its clock is %d at %d", ErrNotRing, r.Opened, r.anchor)
	}
	if r.side, err = openSide(strings.TrimSuffix(r.Path, Ext) + SideExt); err != nil {
		return err
	}
	return r.side.read()
}

// guard makes an error of a fault in a mapping, which is what a file that was
// cut short causes. Defer its result.
func guard(err *error) func() {
	was := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(was)
		if v := recover(); v != nil {
			fault, ok := v.(interface {
				error
				Addr() uintptr
			})
			if !ok {
				panic(v)
			}
			*err = fmt.Errorf("the file was cut short or its disk failed: %w", error(fault))
		}
	}
}

// Name returns an entry of the table of names, or nil.
func (r *Ring) Name(id uint32) *Name { return r.side.name(id) }

// Who is what the process said about itself when it opened the ring.
func (r *Ring) Who() Who { return r.side.who }

// Closed reports whether the process said that it ends in good order.
func (r *Ring) Closed() (closed bool) {
	var err error
	defer guard(&err)()
	return load(r.head, atClosed) == 1
}

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

// Close closes the ring and leaves its files.
func (r *Ring) Close() {
	unmap(r.head)
	for _, b := range r.regions {
		unmap(b)
	}
	r.head, r.regions = nil, nil
	_ = r.file.Close()
	if r.side != nil {
		_ = r.side.file.Close()
	}
}

// Remove deletes the files of a ring. What is no ring is left.
func Remove(path string) error {
	err := outfile.Remove(path, func(f *os.File) error {
		if !is(f) {
			return fmt.Errorf("%s: %w", path, ErrNotRing)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The names are its own by their name alone.
	return outfile.Remove(strings.TrimSuffix(path, Ext)+SideExt, func(*os.File) error { return nil })
}

// region maps a region.
func (r *Ring) region(n int) ([]byte, error) {
	if b := r.regions[n]; b != nil {
		return b, nil
	}
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	at := int64(headSize) + int64(n)*regionSize
	if n < 0 || at+regionSize > info.Size() {
		return nil, fmt.Errorf("region %d lies behind the end of the file", n)
	}
	if len(r.regions) >= maxMapped {
		for k, b := range r.regions {
			unmap(b)
			delete(r.regions, k)
		}
	}
	b, err := mapFile(r.file, at, regionSize, r.o.Drain)
	if err == nil {
		r.regions[n] = b
	}
	return b, err
}

// maxMapped bounds the address space that a ring takes.
const maxMapped = 32

// Cell is a span that a thread started last under a name.
type Cell struct {
	Name   *Name
	Thread *Thread
	Start  int64 // nanoseconds since the epoch
}

// Cells calls take for the latest start of each name on each thread, and for what is
// open of the latest step. Those
// spans may have ended; that they have not is what the spans say that were read.
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
					take(Cell{Name: n, Thread: thread, Start: int64(at) - r.anchor + r.Opened})
				}
			}
		}
	}
	r.openStep(take)
	return nil
}
