package dftracer

import (
	"sync"

	"github.com/trainspan/trainspan/internal/dft"
)

// shard is one buffer of lines. Events on different lanes go to different
// shards, and goroutines that run at the same time have different lanes, so
// the lock is rarely contended.
type shard struct {
	mu    sync.Mutex
	buf   []byte // nil once the writer is closed
	lines int
	clock dft.Clock
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

// append adds lines that are encoded, the last of them of an event that ends then. It
// returns how much is in the buffer, and false where the writer is closed.
func (s *shard) append(line []byte, end int64) (filled int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buf == nil {
		return 0, false
	}
	s.buf = append(s.buf, line...)
	s.lines++
	s.last = max(s.last, end)
	return len(s.buf), true
}
