package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

// ErrNotRing is returned by Open for a file that is not a ring buffer.
var ErrNotRing = errors.New("not a ring")

// ErrVersion is returned by Open for a ring buffer with another layout.
var ErrVersion = errors.New("a ring of another version")

// maxMapped bounds the address space of a ring buffer.
const maxMapped = 32

// cursor is the reading position: a slot of an activation, which is one use of
// a region.
type cursor struct {
	activation uint64 // from 1
	region     int    // -1 means not found yet
	slot       int    // or step
	end        int    // after the last written slot; 0 means not looked for
}

// mapped is the file of a ring buffer, with its header and the regions in use
// mapped to memory.
type mapped struct {
	file    *os.File
	drain   bool
	settle  time.Duration // see the constant
	head    []byte
	regions map[int][]byte // by number
	held    []cursor       // read and not released
	ended   bool           // the writer is gone: the table decides what exists, not the counts in the header
}

// stored waits until what the writer has stored is visible as a whole, because
// one of its words is.
func (m *mapped) stored() {
	if m.settle > 0 {
		time.Sleep(m.settle)
	}
}

// open maps and checks the header.
func (m *mapped) open() (err error) {
	info, err := m.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < headSize {
		return ErrNotRing
	}
	if m.head, err = mapFile(m.file, 0, headSize, m.drain); err != nil {
		return err
	}
	if !bytes.Equal(m.head[:len(magic)], []byte(magic)) {
		return ErrNotRing
	}
	if v := m.head[len(magic)]; v != Version {
		return fmt.Errorf("%w: it has version %d, but this trainspan reads version %d: import it with the trainspan that recorded it, or record "+
			"the job again: trainspan run -- COMMAND", ErrVersion, v, Version)
	}
	for i, want := range []uint64{slotSize, regionSlots, 0, tableAt, cellsAt, cellThreads, cellNames, headSize} {
		if got := load(m.head, atLayout+8*i); got != want && want != 0 {
			return fmt.Errorf("%w: field %d of its layout is %d, not %d", ErrNotRing, i, got, want)
		}
	}
	return nil
}

// used returns the number of regions in the table.
func (m *mapped) used() int {
	if m.ended {
		return maxRegions
	}
	return int(min(load(m.head, atUsed), maxRegions))
}

// entry returns the table entry of a region: its activation, with stepsBit if
// it has steps, and the last activation that a reader has released.
func (m *mapped) entry(region int) (holds, emptied uint64) {
	return load(m.head, tableAt+16*region), load(m.head, tableAt+16*region+8)
}

// current reports whether a region is still in the use of c.
func (m *mapped) current(c cursor) bool {
	holds, _ := m.entry(c.region)
	return holds&^stepsBit == c.activation
}

// region maps a region.
func (m *mapped) region(n int) ([]byte, error) {
	if b := m.regions[n]; b != nil {
		return b, nil
	}
	info, err := m.file.Stat()
	if err != nil {
		return nil, err
	}
	at := int64(headSize) + int64(n)*regionSize
	if n < 0 || at+regionSize > info.Size() {
		return nil, fmt.Errorf("region %d is beyond the end of the file", n)
	}
	if len(m.regions) >= maxMapped {
		for k, b := range m.regions {
			unmap(b)
			delete(m.regions, k)
		}
	}
	b, err := mapFile(m.file, at, regionSize, m.drain)
	if err == nil {
		m.regions[n] = b
	}
	return b, err
}

// done notes that a region was read.
func (m *mapped) done(c cursor) {
	// A released region belongs to the writer: a second release would destroy what
	// the writer has written since.
	if m.drain && m.current(c) && !slices.ContainsFunc(m.held, func(o cursor) bool { return o.activation == c.activation }) {
		m.held = append(m.held, c)
	}
}

// Held returns how many regions were read and not released.
func (m *mapped) Held() int { return len(m.held) }

// overwritten returns how many slots of read, unreleased regions the writer has
// reused since, because it had no other space.
func (m *mapped) overwritten() (slots int64) {
	for _, c := range m.held {
		if !m.current(c) {
			slots += regionSlots
		}
	}
	return slots
}

// Release returns the regions that were read to the writer. Call it when their
// contents are in a file: a reader that is killed before leaves the regions to
// the next one. Without it the writer uses new space.
func (m *mapped) Release() (err error) {
	defer guard(&err)()
	for _, c := range m.held {
		holds, _ := m.entry(c.region)
		if holds&^stepsBit != c.activation {
			continue
		}
		if holds&stepsBit == 0 { // the writer clears regions with steps, and those that get steps
			b, err := m.region(c.region) // with many regions it may not be mapped any more
			if err != nil {
				return err
			}
			for i := range regionSlots {
				store(b, i*slotSize+atWord, 0)
			}
		}
		store(m.head, tableAt+16*c.region+8, holds)
	}
	m.held = m.held[:0]
	return nil
}

// Closed reports whether the process ended regularly.
func (m *mapped) Closed() (closed bool) {
	var err error
	defer guard(&err)()
	return load(m.head, atClosed) == 1
}

func (m *mapped) close() {
	unmap(m.head)
	for _, b := range m.regions {
		unmap(b)
	}
	m.head, m.regions = nil, nil
	_ = m.file.Close()
}

// guard converts a memory fault in a mapping, caused by a truncated file, to an
// error. Defer its result.
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
