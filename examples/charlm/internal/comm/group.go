// Package comm is a small communicator: the workers of one process hold one
// buffer each and sum them with a reduce-scatter followed by an all-gather, the
// two halves of the ring all-reduce of larger systems.
package comm

import (
	"fmt"
	"sync"
)

// Group connects a fixed number of ranks. Every rank calls the same collectives
// in the same order, each from its own goroutine.
type Group struct {
	size    int
	buffers [][]float32
	barrier barrier
}

// NewGroup returns a group of size ranks, numbered from zero.
func NewGroup(size int) (*Group, error) {
	if size < 1 {
		return nil, fmt.Errorf("comm: a group of %d ranks", size)
	}
	g := &Group{size: size, buffers: make([][]float32, size)}
	g.barrier.init(size)
	return g, nil
}

// Barrier returns when every rank has called it.
func (g *Group) Barrier() { g.barrier.wait() }

// AllReduceSum replaces buf on every rank by the sum over all ranks. It blocks
// until all ranks are done. It adds in rank order, so every rank gets the same
// bits. If the lengths of the buffers differ, all ranks get an error and keep
// their buffers.
func (g *Group) AllReduceSum(rank int, buf []float32) error {
	if rank < 0 || rank >= g.size {
		return fmt.Errorf("comm: rank %d in a group of %d", rank, g.size)
	}
	g.buffers[rank] = buf
	g.barrier.wait()
	for r, b := range g.buffers {
		if len(b) != len(g.buffers[0]) {
			err := fmt.Errorf("comm: rank %d brought %d values, rank 0 brought %d", r, len(b), len(g.buffers[0]))
			g.barrier.wait() // no rank publishes its next buffer before all have read this one
			return err
		}
	}
	own := g.chunk(rank, buf)
	for i := range own {
		at := g.offset(rank, len(buf)) + i
		var sum float32
		for _, b := range g.buffers {
			sum += b[at]
		}
		own[i] = sum
	}
	g.barrier.wait()
	for r, b := range g.buffers {
		if r != rank {
			copy(g.chunk(r, buf), g.chunk(r, b))
		}
	}
	g.barrier.wait()
	return nil
}

func (g *Group) offset(rank, n int) int { return rank * n / g.size }

// chunk returns the part of buf that rank reduces.
func (g *Group) chunk(rank int, buf []float32) []float32 {
	return buf[g.offset(rank, len(buf)):g.offset(rank+1, len(buf))]
}

// barrier is reusable: generation separates the waiters of one round from those
// of the next.
type barrier struct {
	mu         sync.Mutex
	cond       *sync.Cond
	size       int
	waiting    int
	generation int
}

func (b *barrier) init(size int) {
	b.size = size
	b.cond = sync.NewCond(&b.mu)
}

func (b *barrier) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	gen := b.generation
	b.waiting++
	if b.waiting == b.size {
		b.waiting = 0
		b.generation++
		b.cond.Broadcast()
		return
	}
	for gen == b.generation {
		b.cond.Wait()
	}
}
