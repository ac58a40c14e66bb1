// Package nest decides how the spans of one thread nest, and whose each moment
// of the thread is.
//
// A thread does one thing at a time, so each of its moments counts once: for the
// span that began last of those that are open. Of two spans that begin together
// the one that ends last is the outer one and began first; of two over the same
// time it is the one with the lower level and, where that says nothing, the one
// that was written later, because spans are written when they end.
//
// So a span that is outlasted by one that began inside of it has no more time
// from there on: what is left of it is the other's. The own time of a span is
// what remains of it without the spans that took theirs from it.
//
// [Stack] is for spans that come in that order, [Tree] for those that come in any.
package nest

import "cmp"

// Key is the place of a span in the order of a thread, the outer span first.
type Key struct{ First, Second int64 }

// KeyOf returns the key of a span. Level is how deep it lies, 0 where that is not
// known.
func KeyOf(start, end, level int64) Key {
	return Key{start, -min(max(end-start, 0), 1<<56)<<6 | min(level, 1<<6-1)}
}

// Compare is negative where the span with key k comes before the other. Where it
// is 0 the one that was written later is the outer one.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.First, other.First), cmp.Compare(k.Second, other.Second))
}

// Stack has the spans of one thread that are open, the innermost last. The zero
// value is ready for use.
type Stack[T any] []Open[T]

// Open is a span that is open until End.
type Open[T any] struct {
	End int64
	Of  T
}

// Leave takes off what has ended before a span begins, and returns what that one
// outlasts, the innermost last. The result is valid until the next call. What
// stays holds the whole span.
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

// Top returns the innermost span, nil without one.
func (s Stack[T]) Top() *Open[T] {
	if len(s) == 0 {
		return nil
	}
	return &s[len(s)-1]
}

// Push opens a span, once Leave has made room for it.
func (s *Stack[T]) Push(end int64, of T) { *s = append(*s, Open[T]{end, of}) }

// Pop takes off the innermost span.
func (s *Stack[T]) Pop() { *s = (*s)[:len(*s)-1] }

// Pieces tells whose the time between two moments is, piece by piece, and takes
// off what ends in it. No span begins between them.
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
