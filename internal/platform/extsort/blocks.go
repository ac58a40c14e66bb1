package extsort

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync"
)

// Blocks holds blocks of bytes that are read again a few times: in memory up to a limit, and
// in a temporary file beyond it. A nil Blocks holds all of them in memory. It is safe for
// concurrent use.
//
// The file is made when the limit is reached, and has no name. It is given back when the last
// block is garbage, and with the process, however that ends.
type Blocks struct {
	limit int64
	dir   string

	mu   sync.Mutex
	held int64 // bytes put into memory, also those that are garbage by now
	file *os.File
	size int64
	err  error // the first one
}

// NewBlocks returns an empty Blocks that holds limit bytes in memory. Its file is made in dir,
// the system's temporary directory if empty.
func NewBlocks(limit int64, dir string) *Blocks { return &Blocks{limit: limit, dir: dir} }

// Block is a block that was put into Blocks. The zero value is empty.
type Block struct {
	data []byte // nil if it is in the file
	from *Blocks
	at   int64
	size int32
	sum  uint32 // of its bytes: a file system that is full may lose them after they were written
}

// Put copies data, which has less than 2 GiB. A block that cannot be written stays in memory.
func (b *Blocks) Put(data []byte) Block {
	if b == nil {
		return Block{data: bytes.Clone(data)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+int64(len(data)) <= b.limit || !b.writeLocked(data) {
		b.held += int64(len(data))
		return Block{data: bytes.Clone(data)}
	}
	out := Block{from: b, at: b.size, size: int32(len(data)), sum: crc32.Checksum(data, table)}
	b.size += int64(len(data))
	return out
}

// writeLocked writes to the end of the file, unless an error came before.
func (b *Blocks) writeLocked(data []byte) bool {
	if b.file == nil && b.err == nil {
		b.file, b.err = newFile(b.dir)
	}
	if b.err != nil {
		return false
	}
	if _, err := b.file.WriteAt(data, b.size); err != nil {
		b.err = fmt.Errorf("extsort: %w, after %d MB of temporary data: set TMPDIR to a directory with more room", err, b.size/1e6)
	}
	return b.err == nil
}

// Err returns the first error of writing or reading the file.
func (b *Blocks) Err() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Read returns the bytes of a block, which must not be changed. If the block is in the file they
// are in buf, which grows if it must. What cannot be read is missing, and an error of the Blocks.
func (b *Block) Read(buf *[]byte) []byte {
	if b.from == nil {
		return b.data
	}
	*buf = slices.Grow((*buf)[:0], int(b.size))[:b.size]
	n, err := b.from.file.ReadAt(*buf, b.at)
	if n == int(b.size) {
		if err = nil; crc32.Checksum(*buf, table) == b.sum {
			return *buf
		}
	}
	b.from.mu.Lock()
	defer b.from.mu.Unlock()
	if b.from.err == nil {
		b.from.err = fmt.Errorf("extsort: read temporary data: %w", cmp.Or(err, errLost))
	}
	return nil
}

// Size is how many bytes the block has.
func (b *Block) Size() int { return max(len(b.data), int(b.size)) }

var (
	table   = crc32.MakeTable(crc32.Castagnoli)
	errLost = errors.New("the file system has lost it")
)

// newFile makes a temporary file without a name, so that a crash leaves nothing behind.
func newFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "trainspan-sort-*")
	if err != nil {
		return nil, fmt.Errorf("extsort: %w", err)
	}
	_ = os.Remove(f.Name()) // a system that cannot remove an open file keeps the name
	return f, nil
}
