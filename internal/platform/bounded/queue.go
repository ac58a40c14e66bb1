// Package bounded is the queue in which records, spans and log records wait: first in,
// first out, bounded by number and by bytes. What does not fit is refused, for the
// caller to count.
package bounded

// Queue is a first-in first-out queue. The zero value of a bound is none. It is not
// safe for concurrent use: who uses it has a lock of its own.
type Queue[T any] struct {
	MaxItems int
	MaxBytes int

	items []item[T]
	head  int // items before it are taken
	bytes int
}

type item[T any] struct {
	value T
	bytes int
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Bytes returns the size of what waits.
func (q *Queue[T]) Bytes() int { return q.bytes }

// Put adds an item of such a size, unless it would break a bound. An empty queue takes
// one of any size.
func (q *Queue[T]) Put(value T, bytes int) bool {
	n := q.Len()
	if q.MaxItems > 0 && n >= q.MaxItems || q.MaxBytes > 0 && n > 0 && q.bytes+bytes > q.MaxBytes {
		return false
	}
	if q.head > 0 && len(q.items) == cap(q.items) && q.head >= n {
		copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item[T]{value, bytes})
	q.bytes += bytes
	return true
}

// First returns the size of the oldest item; ok is false where none waits.
func (q *Queue[T]) First() (bytes int, ok bool) {
	if q.Len() == 0 {
		return 0, false
	}
	return q.items[q.head].bytes, true
}

// Take removes the oldest item, of which there must be one, and returns it with its
// size.
func (q *Queue[T]) Take() (value T, bytes int) {
	it := &q.items[q.head]
	value, bytes = it.value, it.bytes
	*it = item[T]{}
	q.bytes -= bytes
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keep {
			q.items = nil
		}
	}
	return value, bytes
}

// keep is how many items an empty queue has memory for.
const keep = 1 << 14
