package delivery

// fifo is a first-in first-out list bounded by number and by bytes. The zero
// fifo holds nothing; it is guarded by the lock of its [Queue].
type fifo[T any] struct {
	items    []item[T]
	head     int // items before it are taken
	bytes    int
	maxItems int
	maxBytes int
}

type item[T any] struct {
	value T
	bytes int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

// put adds an item, unless it would break a bound.
func (q *fifo[T]) put(it item[T]) bool {
	n := q.len()
	if n >= q.maxItems || n > 0 && q.bytes+it.bytes > q.maxBytes {
		return false
	}
	if q.head > 0 && len(q.items) == cap(q.items) && q.head >= n {
		copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
	q.bytes += it.bytes
	return true
}

// take removes the oldest items, at least one if there is one, and appends
// them to dst.
func (q *fifo[T]) take(dst []item[T], maxItems, maxBytes int) []item[T] {
	bytes := 0
	for q.head < len(q.items) && len(dst) < maxItems {
		it := q.items[q.head]
		if len(dst) > 0 && bytes+it.bytes > maxBytes {
			break
		}
		dst = append(dst, it)
		bytes += it.bytes
		q.bytes -= it.bytes
		q.items[q.head] = item[T]{}
		q.head++
	}
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return dst
}
