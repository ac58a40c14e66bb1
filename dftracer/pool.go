package dftracer

import (
	"bytes"
	"runtime"

	"github.com/klauspost/compress/gzip"
)

// Pool is for a program that has many Writers open at once, each of which has
// little to write: with [Options].Pool they have small buffers instead of two of
// 160 KiB for every core, and share their compressors, which take
// 2 MB each. A Writer that is used from many goroutines at a time, or all the
// time, is faster without. It is safe for concurrent use.
type Pool struct {
	free   chan compressors
	blocks chan []byte // that a Writer gave back
}

// compressors are those of one member at a time, by level.
type compressors map[int]*gzip.Writer

const (
	// blockSlack lets the last line of a buffer end without a new allocation.
	blockSlack = 32 << 10
	// pooledSize is blockSize of a Writer that is one of many.
	pooledSize = 32 << 10
	// maxCompressors bounds the members that are compressed at a time.
	maxCompressors = 4
	// maxBlocks bounds the buffers that are kept for other Writers.
	maxBlocks = 64
)

// NewPool returns a Pool. It has no goroutine and is not closed.
func NewPool() *Pool {
	p := &Pool{free: make(chan compressors, max(1, min(runtime.GOMAXPROCS(0), maxCompressors))), blocks: make(chan []byte, maxBlocks)}
	for range cap(p.free) {
		p.free <- make(compressors)
	}
	return p
}

// pack appends text to a buffer as one gzip member.
func (p *Pool) pack(to *bytes.Buffer, level int, text []byte) {
	c := <-p.free
	defer func() { p.free <- c }()
	z := c[level]
	if z == nil {
		var err error
		if z, err = gzip.NewWriterLevel(to, level); err != nil {
			panic(err) // Options has been checked
		}
		c[level] = z
	} else {
		z.Reset(to)
	}
	_, _ = z.Write(text) // into memory
	_ = z.Close()
}

// block is an empty buffer, one that was given back if there is any.
func (p *Pool) block() []byte {
	select {
	case b := <-p.blocks:
		return b
	default:
		return make([]byte, 0, pooledSize+blockSlack)
	}
}

// giveBack keeps a buffer for the next Writer.
func (p *Pool) giveBack(b []byte) {
	if p == nil || b == nil {
		return
	}
	select {
	case p.blocks <- b[:0]:
	default:
	}
}
