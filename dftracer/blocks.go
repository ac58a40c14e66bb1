package dftracer

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/tracefile"
)

const (
	// blockSize is how much text a buffer gathers before it is compressed.
	blockSize = 128 << 10
	// spareBlocks is how many buffers can wait for the disk.
	spareBlocks = 12
	// maxShards bounds the buffers of a large machine.
	maxShards = 16
)

type op uint8

const (
	opData  op = iota
	opFlush    // flushes buffered lines
	opCheck    // flushes, and checks that the file is still there
	opClose
)

// job is one request to the pump.
type job struct {
	op       op
	block    block
	metadata bool // the lines are metadata
	done     chan struct{}
}

// block is a buffer of lines: text, and spans whose lines the pump makes.
type block struct {
	text     []byte // nil once the writer is closed
	deferred []deferredSpan
	kept     int // the sum of the sizes of deferred
	lines    int
}

// size decides when a block is full.
func (b *block) size() int { return len(b.text) + b.kept }

// blocks collects lines in buffers and passes full or old buffers to the pump.
type blocks struct {
	shards   []shard // of events; the lane selects one
	metadata shard   // of metadata, written before the events that refer to it
	mask     uint64
	pool     *Pool // the source of buffers; nil for none
	size     int   // capacity of a buffer, without the reserve for its last line
	full     int   // a buffer with this many bytes goes to the pump

	jobs    chan job
	sealing sync.Mutex // held from taking a buffer until the pump has it, which keeps buffers in order
	free    spares
	blocked atomic.Int64  // nanoseconds that callers waited for a free buffer
	late    atomic.Uint64 // lines written after Close
}

func newBlocks(pool *Pool, memberSize int) *blocks {
	b := &blocks{pool: pool, size: blockSize}
	if pool != nil {
		b.size = pooledSize
	}
	b.full = min(b.size, memberSize)
	b.shards = make([]shard, shardCount(pool))
	b.mask = uint64(len(b.shards) - 1)
	buffers := len(b.shards) + 1 + spareBlocks
	b.jobs = make(chan job, buffers+16)
	b.free.init(spareBlocks, buffers)
	for i := range b.shards {
		b.shards[i].text = b.newText()
	}
	b.metadata.text = b.newText()
	return b
}

// shardCount returns the number of shards, a power of two, so that a mask
// selects the shard of a lane.
func shardCount(pool *Pool) int {
	n := 1
	for pool == nil && n < runtime.GOMAXPROCS(0)*2 && n < maxShards {
		n *= 2
	}
	return n
}

func (b *blocks) newText() []byte {
	if b.pool != nil {
		return b.pool.block()
	}
	return make([]byte, 0, b.size+blockSlack)
}

// shardOf returns the shard of a lane.
func (b *blocks) shardOf(tid int64) *shard { return &b.shards[uint64(tid)&b.mask] }

// append adds a line to a shard.
func (b *blocks) append(s *shard, line []byte, end int64) {
	filled, ok := s.append(line, end)
	if !ok {
		b.late.Add(1)
	} else if filled >= b.full {
		b.sealFull(s)
	}
}

// filled returns how many bytes wait in buffers.
func (b *blocks) filled() int {
	n := b.metadata.filled()
	for i := range b.shards {
		n += b.shards[i].filled()
	}
	return n
}

// last returns the latest end of an event, in microseconds.
func (b *blocks) last() (last int64) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		last = max(last, s.last)
		s.mu.Unlock()
	}
	return last
}

// take returns a free buffer. It blocks while all buffers wait for the disk.
func (b *blocks) take() block {
	select {
	case <-b.free.count:
	default:
		start := time.Now()
		<-b.free.count
		b.blocked.Add(int64(time.Since(start)))
	}
	empty := b.free.take()
	if empty.text == nil {
		empty.text = b.newText()
	}
	return empty
}

// put returns a buffer whose lines are passed on.
func (b *blocks) put(used block) {
	if cap(used.text) > 2*(b.size+blockSlack) {
		used.text = b.newText()
	}
	clear(used.deferred)
	b.free.put(block{text: used.text[:0], deferred: used.deferred[:0]})
}

// sealFull hands the shard's buffer to the pump, after the metadata that its
// lines may refer to. Another goroutine may have done so already.
func (b *blocks) sealFull(s *shard) {
	b.sealing.Lock()
	defer b.sealing.Unlock()
	if s.filled() < b.full {
		return
	}
	if s == &b.metadata {
		b.sealFacts()
		return
	}
	full := s.take(b.take())
	b.sealFacts()
	b.jobs <- job{block: full}
}

// sealAll hands every line written so far to the pump.
func (b *blocks) sealAll() {
	b.sealing.Lock()
	defer b.sealing.Unlock()
	// Metadata is taken last but goes into the file first, so that no event is
	// ahead of the metadata it refers to. Shards are sent one by one because there
	// may be fewer spare buffers than shards.
	for i := range b.shards {
		s := &b.shards[i]
		if s.filled() == 0 {
			continue
		}
		full := s.take(b.take())
		b.sealFacts()
		b.jobs <- job{block: full}
	}
	b.sealFacts()
}

func (b *blocks) sealFacts() {
	if b.metadata.filled() == 0 {
		return
	}
	b.jobs <- job{block: b.metadata.take(b.take()), metadata: true}
}

// retire makes later writes fail. Lines written after the last seal still go to
// the file.
func (b *blocks) retire() {
	b.sealing.Lock()
	defer b.sealing.Unlock()
	events := make([]job, 0, len(b.shards))
	for i := range b.shards {
		events = append(events, job{block: b.shards[i].take(block{})})
	}
	b.jobs <- job{block: b.metadata.take(block{}), metadata: true}
	for _, j := range events {
		b.jobs <- j
	}
}

// shard is one buffer of lines. Events on different lanes go to different
// shards, and goroutines that run at the same time have different lanes, so
// the lock is rarely contended.
type shard struct {
	mu sync.Mutex
	block
	clock tracefile.Clock
	last  int64    // latest end of an event, microseconds
	_     [64]byte // keeps neighbours off this cache line
}

// take swaps the shard's buffer for an empty one.
func (s *shard) take(empty block) (full block) {
	s.mu.Lock()
	full, s.block = s.block, empty
	s.mu.Unlock()
	return full
}

func (s *shard) filled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size()
}

// append adds encoded lines; end is when the last event of them ends. It
// returns how many bytes the buffer holds, and false if the writer is closed.
func (s *shard) append(line []byte, end int64) (filled int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		return 0, false
	}
	s.text = append(s.text, line...)
	s.lines++
	s.last = max(s.last, end)
	return s.size(), true
}

// spares holds the free buffers. It is a stack: the buffer returned last is
// taken first, because it is still in the processor's cache, and buffers at the
// bottom are not allocated while the disk keeps up.
type spares struct {
	count chan struct{} // one entry per free buffer
	mu    sync.Mutex
	stack []block // an entry without text is not allocated yet
}

func (f *spares) init(spare, most int) {
	f.count = make(chan struct{}, most)
	f.stack = make([]block, spare, most)
	for range spare {
		f.count <- struct{}{}
	}
}

// take returns a free buffer. The caller must have received from count.
func (f *spares) take() block {
	f.mu.Lock()
	defer f.mu.Unlock()
	top := len(f.stack) - 1
	b := f.stack[top]
	f.stack = f.stack[:top]
	return b
}

func (f *spares) put(b block) {
	f.mu.Lock()
	f.stack = append(f.stack, b)
	f.mu.Unlock()
	f.count <- struct{}{}
}

// clear releases the free buffers.
func (f *spares) clear(pool *Pool) {
	for len(f.count) > 0 {
		<-f.count
		pool.giveBack(f.take().text)
	}
}

// Pool saves memory in a program with many open Writers that write little. Writers with
// the same [Options].Pool share their compressors, which take 2 MB each, and have small
// buffers instead of two of 160 KiB for each core. A busy Writer is faster without a Pool.
// It is safe for concurrent use.
type Pool struct {
	free   chan compressors
	blocks chan []byte // returned by Writers
}

// compressors holds a compressor per level, for one member at a time.
type compressors map[int]*gzip.Writer

const (
	// blockSlack lets the last line of a buffer end without a new allocation.
	blockSlack = 32 << 10
	// pooledSize is the blockSize of a Writer with a Pool.
	pooledSize = 32 << 10
	// maxCompressors bounds how many members are compressed at a time.
	maxCompressors = 4
	// maxBlocks bounds the buffers that are kept for other Writers.
	maxBlocks = 64
)

// NewPool returns a Pool. A Pool has no goroutine and need not be closed.
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
			panic(err) // Options.validate has checked the level
		}
		c[level] = z
	} else {
		z.Reset(to)
	}
	_, _ = z.Write(text) // bytes.Buffer does not fail
	_ = z.Close()
}

// block returns an empty buffer, a returned one if there is any.
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
