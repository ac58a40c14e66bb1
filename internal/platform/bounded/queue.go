// Package bounded implements the queue for records, spans and log records:
// first in, first out, bounded in number and bytes. It refuses items that do
// not fit; the caller counts them.
package bounded

// Queue is a first-in first-out queue. A bound of zero means no bound. It is
// not safe for concurrent use; callers use their own lock.
type Queue[T any] struct {
	MaxItems int
	MaxBytes int

	items []item[T]
	head  int // items before it were taken
	bytes int
}

type item[T any] struct {
	value T
	bytes int
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Bytes returns the sum of the items' sizes.
func (q *Queue[T]) Bytes() int { return q.bytes }

// Put adds an item with a size in bytes, and reports false if this would break
// a bound. An empty queue accepts an item of any size.
func (q *Queue[T]) Put(value T, bytes int) bool {
	place := q.Place(bytes)
	if place != nil {
		*place = value
	}
	return place != nil
}

// Place is Put for an item that the caller sets where the result points, before it
// calls another method. It returns nil in place of false.
func (q *Queue[T]) Place(bytes int) *T {
	n := q.Len()
	if q.MaxItems > 0 && n >= q.MaxItems || q.MaxBytes > 0 && n > 0 && q.bytes+bytes > q.MaxBytes {
		return nil
	}
	if q.head > 0 && len(q.items) == cap(q.items) && q.head >= n {
		copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item[T]{bytes: bytes})
	q.bytes += bytes
	return &q.items[len(q.items)-1].value
}

// First returns the size of the oldest item; ok is false if the queue is empty.
func (q *Queue[T]) First() (bytes int, ok bool) {
	if q.Len() == 0 {
		return 0, false
	}
	return q.items[q.head].bytes, true
}

// Take removes the oldest item and returns it with its size. The queue must not
// be empty.
func (q *Queue[T]) Take() (value T, bytes int) {
	bytes = q.TakeTo(&value)
	return value, bytes
}

// TakeTo is Take for an item that is stored at to.
func (q *Queue[T]) TakeTo(to *T) (bytes int) {
	it := &q.items[q.head]
	*to, bytes = it.value, it.bytes
	*it = item[T]{}
	q.bytes -= bytes
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keep {
			q.items = nil
		}
	}
	return bytes
}

// keep is the number of items that an empty queue keeps memory for.
const keep = 1 << 14
