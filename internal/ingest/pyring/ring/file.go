package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
)

// ErrNotRing is why Open refuses a file.
var ErrNotRing = errors.New("not a ring")

// ErrVersion is why Open refuses a ring whose layout is another one.
var ErrVersion = errors.New("a ring of another version")

// maxMapped bounds the address space that a ring takes.
const maxMapped = 32

// cursor is where reading goes on: a slot of an activation, which is one use of
// a region.
type cursor struct {
	activation uint64 // from 1
	region     int    // -1: not found yet
	slot       int    // or step
	end        int    // behind the last slot that is written; 0: not looked for
}

// mapped is the file of a ring, with its head and the regions that were looked at in
// memory.
type mapped struct {
	file    *os.File
	drain   bool
	head    []byte
	regions map[int][]byte // by number
	held    []cursor       // those that were read and not given back
	ended   bool           // the writer is gone: the table says what there is, whatever the counts in the head say
}

// open maps the head and checks it.
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

// used is how many regions the table has.
func (m *mapped) used() int {
	if m.ended {
		return maxRegions
	}
	return int(min(load(m.head, atUsed), maxRegions))
}

// entry returns what the table says of a region: the activation that it holds, with
// stepsBit where that has steps, and the one that a reader has given back last.
func (m *mapped) entry(region int) (holds, emptied uint64) {
	return load(m.head, tableAt+16*region), load(m.head, tableAt+16*region+8)
}

// current reports whether a region still is in the use that c says.
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
	// Once given back it is the writer's: twice would take what that writes then.
	if m.drain && m.current(c) && !slices.ContainsFunc(m.held, func(o cursor) bool { return o.activation == c.activation }) {
		m.held = append(m.held, c)
	}
}

// Held is how many regions were read and not given back.
func (m *mapped) Held() int { return len(m.held) }

// overwritten is how many slots of regions that were read and not given back the writer
// has used again since, because it found no other space.
func (m *mapped) overwritten() (slots int64) {
	for _, c := range m.held {
		if !m.current(c) {
			slots += regionSlots
		}
	}
	return slots
}

// Release gives the regions that were read back to the writer. Call it when what
// was read is in a file: a reader that is killed before leaves the regions to the
// next one. Without it the writer goes on in new space.
func (m *mapped) Release() (err error) {
	defer guard(&err)()
	for _, c := range m.held {
		holds, _ := m.entry(c.region)
		if holds&^stepsBit != c.activation {
			continue
		}
		if holds&stepsBit == 0 { // the writer clears the others itself
			b, err := m.region(c.region) // with many of them it is not mapped any more
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

// Closed reports whether the process said that it ends in good order.
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
