// Package ringtest makes ring buffer files, for tests of their readers.
package ringtest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// The layout of docs/maintain/ring.md.
const (
	Magic       = "TSRING\x00\x02"
	HeadSize    = 524288
	RegionSize  = 524288
	Slots       = 8192 // in a region
	Table       = 4096
	Cells       = 135168
	Activations = 256
	Used        = 264
	Ticks       = 112 // at the start of the process
)

// Image holds the files of a ring buffer.
type Image struct {
	t    testing.TB
	Path string
	Head []byte
	Data []byte // regions
	Side string
}

// New returns a ring buffer with the given number of used regions, a name 1 and
// a thread 0.
func New(t testing.TB, regions int) *Image {
	m := &Image{t: t, Path: filepath.Join(t.TempDir(), "made-1-1.ring"), Head: make([]byte, HeadSize), Data: make([]byte, regions*RegionSize)}
	copy(m.Head, Magic)
	for i, v := range []uint64{64, Slots, Slots, Table, Cells, 16, 1024, RegionSize, uint64(os.Getpid()), 1e18, 1e12, 0x030b0000, 0, 1} {
		binary.LittleEndian.PutUint64(m.Head[8+8*i:], v)
	}
	for i := range regions {
		m.Holds(i, uint64(i+1))
	}
	binary.LittleEndian.PutUint64(m.Head[Activations:], uint64(regions))
	binary.LittleEndian.PutUint64(m.Head[Used:], uint64(regions))
	m.Side = `{"n":1,"name":"forward","cat":"compute"}` + "\n" + `{"t":0,"tid":7,"thread":"MainThread"}` + "\n"
	return m
}

// Holds writes into the table which activation a region holds.
func (m *Image) Holds(region int, activation uint64) {
	binary.LittleEndian.PutUint64(m.Head[Table+16*region:], activation)
}

// At returns a time in the clock of the program: i microseconds after a fixed
// time.
func At(i int) uint64 { return uint64(2e12 + 1000*i) }

// Slot is the content of a slot: a span, unless Word has another kind.
type Slot struct {
	Start, End    uint64
	Thread, Depth uint32
	Args, Value   uint64
	Word          uint64 // the id of a name, kind and flags
}

// Put fills a slot.
func (m *Image) Put(slot int, s Slot) {
	b := m.Data[64*slot:]
	binary.LittleEndian.PutUint64(b, s.Start)
	binary.LittleEndian.PutUint64(b[8:], s.End)
	binary.LittleEndian.PutUint32(b[16:], s.Thread)
	binary.LittleEndian.PutUint32(b[20:], s.Depth+1)
	binary.LittleEndian.PutUint64(b[24:], s.Args)
	binary.LittleEndian.PutUint64(b[32:], s.Value)
	binary.LittleEndian.PutUint64(b[56:], s.Word)
}

// Span writes a span of name 1 at depth 1 into a slot.
func (m *Image) Span(slot int, start, end uint64) {
	m.Put(slot, Slot{Start: start, End: end, Depth: 1, Word: 1})
}

// Text writes a text into slots, from slot on, and returns the next slot.
func (m *Image) Text(slot int, id uint64, text string) (next int) {
	for at := 0; at < len(text); at += 40 {
		b := m.Data[64*slot:]
		binary.LittleEndian.PutUint64(b, id)
		binary.LittleEndian.PutUint32(b[8:], uint32(at))
		binary.LittleEndian.PutUint32(b[12:], uint32(len(text)))
		copy(b[16:56], text[at:])
		binary.LittleEndian.PutUint64(b[56:], 3<<32|1)
		slot++
	}
	return slot
}

// Size returns the total size of the files in bytes.
func (m *Image) Size() int { return len(m.Head) + len(m.Data) + len(m.Side) }

// Write writes the files.
func (m *Image) Write() string {
	m.t.Helper()
	if err := os.WriteFile(m.Path, append(m.Head, m.Data...), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.Path[:len(m.Path)-len(".ring")]+".names", []byte(m.Side), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return m.Path
}
