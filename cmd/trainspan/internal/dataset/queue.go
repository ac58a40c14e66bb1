package dataset

import "sync"

// queue writes batches on a goroutine of its own, so that rows are put in order
// while others are encoded.
type queue struct {
	batch *batch // being filled
	free  chan *batch
	full  chan *batch
	done  sync.WaitGroup

	mu  sync.Mutex
	err error
}

// startQueue begins to write to a file. Its close ends the goroutine.
func startQueue(t *tableFile[event]) *queue {
	q := &queue{batch: newBatch(), free: make(chan *batch, 3), full: make(chan *batch, 2)}
	q.free <- newBatch()
	q.free <- newBatch()
	q.done.Go(func() {
		for b := range q.full {
			if q.failed() == nil {
				if _, err := t.Write(b.finish()); err != nil {
					q.mu.Lock()
					q.err = err
					q.mu.Unlock()
				}
			}
			b.reset()
			q.free <- b
		}
	})
	return q
}

func (q *queue) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// flush hands on the batch.
func (q *queue) flush() error {
	q.full <- q.batch
	q.batch = <-q.free
	return q.failed()
}

// close writes what is left and returns what went wrong.
func (q *queue) close() error {
	q.full <- q.batch
	close(q.full)
	q.done.Wait()
	return q.err
}
