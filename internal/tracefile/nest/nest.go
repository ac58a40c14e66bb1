// Package nest decides how the spans of one thread nest, and which span each
// instant of the thread belongs to.
//
// Each instant belongs to one span: the open span that began last. If two spans
// begin together, the one that ends last is the outer one and began first. If
// they also end together, the one with the lower level is the outer one. If the
// levels are equal or unknown, it is the one that was written later, because
// spans are written when they end.
//
// So if a span ends after its parent, the rest of the parent's time belongs to
// it. The own time of a span is the time that belongs to it.
//
// [Stack] is for spans in that order, [Tree] for spans in any order.
package nest

import "cmp"

// Key orders the spans of a thread, outer spans first.
type Key struct{ First, Second int64 }

// KeyOf returns the key of a span. level is the nesting depth, 0 if unknown.
func KeyOf(start, end, level int64) Key {
	return Key{start, -min(max(end-start, 0), 1<<56)<<6 | min(level, 1<<6-1)}
}

// Compare returns a negative number if the span with key k comes first. If it
// returns 0, the span that was written later is the outer one.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.First, other.First), cmp.Compare(k.Second, other.Second))
}

// Stack holds the open spans of one thread, the innermost last. The zero value
// is ready for use.
type Stack[T any] []Open[T]

// Open is a span that is open until End.
type Open[T any] struct {
	End int64
	Of  T
}

// Leave removes the spans that ended before a span begins, and returns those
// that the new span outlasts, the innermost last. The result is valid until the
// next call. The remaining spans contain the new one.
func (s *Stack[T]) Leave(start, end int64) (outlasted []Open[T]) {
	open := *s
	n := len(open)
	for n > 0 && open[n-1].End <= start {
		n--
	}
	to := n
	for n > 0 && open[n-1].End < end {
		n--
	}
	*s = open[:n]
	return open[n:to]
}

// Top returns the innermost span, or nil.
func (s Stack[T]) Top() *Open[T] {
	if len(s) == 0 {
		return nil
	}
	return &s[len(s)-1]
}

// Push opens a span. Call Leave first.
func (s *Stack[T]) Push(end int64, of T) { *s = append(*s, Open[T]{end, of}) }

// Pop removes the innermost span.
func (s *Stack[T]) Pop() { *s = (*s)[:len(*s)-1] }

// Pieces calls piece for each part of the time between two instants with the
// span that it belongs to, and removes the spans that end in it. No span may
// begin between them.
func (s *Stack[T]) Pieces(from, to int64, piece func(of T, from, to int64)) {
	for top := s.Top(); top != nil && from < to; top = s.Top() {
		if end := min(top.End, to); end > from {
			piece(top.Of, from, end)
			from = end
		}
		if top.End <= from {
			s.Pop()
		}
	}
}
