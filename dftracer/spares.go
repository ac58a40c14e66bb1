package dftracer

import "sync"

// spares are the buffers that nobody fills. The one that came last is taken
// first: it is in the processor's cache, and those at the bottom are never made
// while the disk keeps up.
type spares struct {
	count chan struct{} // holds one entry for each of them
	mu    sync.Mutex
	stack [][]byte // nil: not made yet
}

func (f *spares) init(spare, most int) {
	f.count = make(chan struct{}, most)
	f.stack = make([][]byte, spare, most)
	for range spare {
		f.count <- struct{}{}
	}
}

// take is called by those who got an entry of count.
func (f *spares) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	top := len(f.stack) - 1
	b := f.stack[top]
	f.stack = f.stack[:top]
	return b
}

func (f *spares) put(b []byte) {
	f.mu.Lock()
	f.stack = append(f.stack, b)
	f.mu.Unlock()
	f.count <- struct{}{}
}

// clear drops the buffers that nobody fills.
func (f *spares) clear(pool *Pool) {
	for len(f.count) > 0 {
		<-f.count
		pool.giveBack(f.take())
	}
}
