package delivery

import "sync"

// flight is what the sender has taken and not settled, the current batch last.
type flight[T any] struct {
	mu      sync.Mutex
	batches [][]T
}

// add notes what the sender is about to deliver, the last one first.
func (f *flight[T]) add(batches ...[]T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, batches...)
}

// current returns the batch to deliver next, nil for none.
func (f *flight[T]) current() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return nil
	}
	return f.batches[len(f.batches)-1]
}

// land returns the sender what it has just tried to deliver, to settle it. It
// reports false where somebody else did.
func (f *flight[T]) land() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return false
	}
	f.batches = f.batches[:len(f.batches)-1]
	return true
}

// oldest takes a batch from the sender.
func (f *flight[T]) oldest() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.batches) == 0 {
		return nil
	}
	batch := f.batches[0]
	if f.batches = f.batches[1:]; len(f.batches) == 0 {
		f.batches = nil
	}
	return batch
}
