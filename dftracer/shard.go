package dftracer

import (
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// blockSize is how much text a buffer gathers before it is compressed.
	blockSize = 128 << 10
	// blockSlack lets the last line of a buffer end without a new allocation.
	blockSlack = 32 << 10
	// pooledSize is blockSize of a Writer that is one of many.
	pooledSize = 32 << 10
	// spareBlocks is how many buffers can wait for the disk.
	spareBlocks = 12
	// maxShards bounds the buffers of a large machine.
	maxShards = 16
)

func (w *Writer) newBlock() []byte {
	if w.opts.Pool != nil {
		return w.opts.Pool.block()
	}
	return make([]byte, 0, w.size+blockSlack)
}

// shardCount is a power of two, so that a mask finds the shard of a lane.
func shardCount(pool *Pool) int {
	n := 1
	for pool == nil && n < runtime.GOMAXPROCS(0)*2 && n < maxShards {
		n *= 2
	}
	return n
}

// shard is one buffer of lines. Events on different lanes go to different
// shards, and goroutines that run at the same time have different lanes, so
// the lock is rarely contended.
type shard struct {
	mu    sync.Mutex
	buf   []byte // nil once the writer is closed
	lines int
	clock clock
	last  int64    // latest end of an event, microseconds
	_     [64]byte // keeps neighbours off this cache line
}

// take swaps the shard's buffer for an empty one.
func (s *shard) take(empty []byte) (full []byte, lines int) {
	s.mu.Lock()
	full, lines = s.buf, s.lines
	s.buf, s.lines = empty, 0
	s.mu.Unlock()
	return full, lines
}

func (s *shard) filled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.buf)
}

// blocks are the buffers that nobody fills. The one that came last is taken
// first: it is in the processor's cache, and those at the bottom are never made
// while the disk keeps up.
type blocks struct {
	count chan struct{} // holds one entry for each of them
	mu    sync.Mutex
	stack [][]byte // nil: not made yet
}

func (f *blocks) init(spare, most int) {
	f.count = make(chan struct{}, most)
	f.stack = make([][]byte, spare, most)
	for range spare {
		f.count <- struct{}{}
	}
}

// take is called by those who got an entry of count.
func (f *blocks) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	top := len(f.stack) - 1
	b := f.stack[top]
	f.stack = f.stack[:top]
	return b
}

func (f *blocks) put(b []byte) {
	f.mu.Lock()
	f.stack = append(f.stack, b)
	f.mu.Unlock()
	f.count <- struct{}{}
}

// clear drops the buffers that nobody fills.
func (f *blocks) clear(pool *Pool) {
	for len(f.count) > 0 {
		<-f.count
		pool.giveBack(f.take())
	}
}

// takeFree waits for a buffer to become free: the disk is slower than the program.
func (w *Writer) takeFree() []byte {
	select {
	case <-w.free.count:
	default:
		start := time.Now()
		<-w.free.count
		w.blocked.Add(int64(time.Since(start)))
	}
	b := w.free.take()
	if b == nil {
		b = w.newBlock()
	}
	return b
}

func (w *Writer) putFree(b []byte) {
	if cap(b) > 2*(w.size+blockSlack) {
		b = w.newBlock()
	}
	w.free.put(b[:0])
}

// sealFull hands the shard's buffer to the pump, after the metadata that its
// lines may refer to. Another goroutine may have done so already.
func (w *Writer) sealFull(s *shard) {
	w.sealing.Lock()
	defer w.sealing.Unlock()
	if s.filled() < w.block {
		return
	}
	if s == &w.metadata {
		w.sealFacts()
		return
	}
	lines, n := s.take(w.takeFree())
	w.sealFacts()
	w.pump.jobs <- job{buf: lines, lines: n}
}

// sealAll hands every line written so far to the pump.
func (w *Writer) sealAll() {
	w.sealing.Lock()
	defer w.sealing.Unlock()
	// The metadata go first into the file but are taken last, so that no event
	// can be ahead of the metadata it refers to. Shards are sent one by one
	// because there may be fewer spare buffers than shards.
	for i := range w.shards {
		s := &w.shards[i]
		if s.filled() == 0 {
			continue
		}
		buf, n := s.take(w.takeFree())
		w.sealFacts()
		w.pump.jobs <- job{buf: buf, lines: n}
	}
	w.sealFacts()
}

func (w *Writer) sealFacts() {
	if w.metadata.filled() == 0 {
		return
	}
	buf, n := w.metadata.take(w.takeFree())
	w.pump.jobs <- job{buf: buf, lines: n, metadata: true}
}

// retireShards makes later writes fail. Lines that slipped in after the last
// seal still go to the file.
func (w *Writer) retireShards() {
	w.sealing.Lock()
	defer w.sealing.Unlock()
	last := func(s *shard) job {
		buf, n := s.take(nil)
		return job{buf: buf, lines: n}
	}
	events := make([]job, 0, len(w.shards))
	for i := range w.shards {
		events = append(events, last(&w.shards[i]))
	}
	metadata := last(&w.metadata)
	metadata.metadata = true
	w.pump.jobs <- metadata
	for _, j := range events {
		w.pump.jobs <- j
	}
}

// flushRegularly keeps lines from growing older than the flush interval.
func (w *Writer) flushRegularly() {
	defer w.flusher.Done()
	every := w.opts.FlushInterval
	if w.opts.Heartbeat > 0 {
		every = min(every, w.opts.Heartbeat/2)
	}
	t := time.NewTicker(max(every, time.Millisecond))
	defer t.Stop()
	beat := time.Now()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
			if now := time.Now(); w.opts.Heartbeat > 0 && now.Sub(beat) >= w.opts.Heartbeat-every/2 {
				beat = now
				w.CM(KeyHeartbeat, strconv.FormatInt(w.opts.Now().UnixMicro(), 10))
			}
			w.sealAll()
			w.pump.jobs <- job{op: opCheck}
		}
	}
}
