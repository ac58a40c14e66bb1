package extsort

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Store is a temporary file for the rows of several sorters, so that many
// sorters need one open file. It is created when it is needed and removed as a
// whole by Close. A Store is not safe for concurrent use, and neither are the
// sorters that share it.
type Store struct {
	dir  string
	file *os.File
	size int64
	buf  *bufio.Writer // for the run being written; one at a time
}

// NewStore returns a store with its file in dir, by default the system's
// temporary directory.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// next returns a writer that appends, and its offset.
func (s *Store) next() (*bufio.Writer, int64, error) {
	if s.file == nil {
		f, err := newFile(s.dir)
		if err != nil {
			return nil, 0, err
		}
		s.file = f
	}
	to := io.NewOffsetWriter(s.file, s.size)
	if s.buf == nil {
		s.buf = bufio.NewWriterSize(to, 64<<10)
	} else {
		s.buf.Reset(to)
	}
	return s.buf, s.size, nil
}

// Close releases the file and the rows in it. It may be called more than once.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.buf = nil, nil
	defer func() { _ = os.Remove(f.Name()) }() // for systems that cannot remove an open file
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("extsort: %w", err)
	}
	return nil
}

const (
	chunkBits = 18
	chunkSize = 1 << chunkBits
	alignBits = 3
	maxChunks = 1 << (32 - chunkBits + alignBits) // a place has 32 bits
)

// chunks holds encoded rows, one after the other, each after its length. Adding
// rows does not move others. A chunk has chunkSize bytes or less, or one row.
type chunks struct {
	list [][]byte
	next int // index in list after the chunk that is being filled
	used int
}

// place is the position of a row: the chunk and, in steps of eight bytes, the
// offset in it.
type place uint32

// put stores a row and returns its place.
func (c *chunks) put(row []byte) place {
	need := len(row) + binary.MaxVarintLen32
	if c.next == 0 || len(c.list[c.next-1])+need+1<<alignBits > cap(c.list[c.next-1]) {
		c.grow(need)
	}
	const last = 1<<alignBits - 1
	b := c.list[c.next-1]
	b = b[:(len(b)+last)&^last]
	at := place((c.next-1)<<(chunkBits-alignBits) | len(b)>>alignBits)
	b = binary.AppendUvarint(b, uint64(len(row)))
	c.used += len(row) + 1<<alignBits
	c.list[c.next-1] = append(b, row...)
	return at
}

// grow moves to a chunk with room for a row.
func (c *chunks) grow(need int) {
	if c.next < len(c.list) && cap(c.list[c.next]) >= need {
		c.next++
		return
	}
	size := chunkSize
	if len(c.list) == 0 {
		size >>= 4 // many sorters have only a few rows
	}
	fresh := make([]byte, 0, max(need, size))
	c.list = append(c.list[:c.next], fresh)
	c.next++
}

// stored returns a row with its length before it.
func (c *chunks) stored(at place) []byte {
	b := c.list[at>>(chunkBits-alignBits)][at&(1<<(chunkBits-alignBits)-1)<<alignBits:]
	n, head := binary.Uvarint(b)
	return b[:head+int(n)]
}

// row returns an encoded row.
func (c *chunks) row(at place) []byte {
	b := c.list[at>>(chunkBits-alignBits)][at&(1<<(chunkBits-alignBits)-1)<<alignBits:]
	n, head := binary.Uvarint(b)
	return b[head : head+int(n)]
}

// reset removes all rows and keeps the memory of chunks of the usual size.
func (c *chunks) reset() {
	c.list = slices.DeleteFunc(c.list, func(b []byte) bool { return cap(b) > chunkSize })
	for i, b := range c.list {
		c.list[i] = b[:0]
	}
	c.next, c.used = 0, 0
}
