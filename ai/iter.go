package ai

import (
	"context"
	"iter"
	"time"
)

// IterOptions shapes what an iterator records. Nil and the zero value record
// both events of every element.
type IterOptions struct {
	// NoIter leaves out the wait for each element, NoBlock the work on it.
	NoIter, NoBlock bool
	// IterName and BlockName stand in for "iter" and "block" in the names.
	IterName, BlockName string
}

// Iter passes the elements of seq on and records two events for each: the wait
// for it, "<name>.iter", and the body that works on it, "<name>.block", with
// the argument count, from 1. The wait for the end of seq is not recorded. A
// break, a return, a panic or a goto out of the body ends its block.
//
// The body's own scopes lie beside the block, not below it, unless the loop
// takes its context from IterContext.
func Iter[T any](ctx context.Context, n *Node, seq iter.Seq[T], o ...*IterOptions) iter.Seq[T] {
	return func(yield func(T) bool) {
		l := newLoop(ctx, n, o)
		defer l.cut()
		l.wait()
		for v := range seq {
			l.body()
			if !yield(v) {
				l.done(nil)
				return
			}
			l.done(nil)
			l.wait()
		}
	}
}

// IterContext is Iter that also gives the context of each block, in which what
// the body starts lies below the block.
func IterContext[T any](ctx context.Context, n *Node, seq iter.Seq[T], o ...*IterOptions) iter.Seq2[context.Context, T] {
	return func(yield func(context.Context, T) bool) {
		l := newLoop(ctx, n, o)
		defer l.cut()
		l.wait()
		for v := range seq {
			if !yield(l.body(), v) {
				l.done(nil)
				return
			}
			l.done(nil)
			l.wait()
		}
	}
}

// Iter2 is Iter for pairs. If the second of a pair is an error that is not
// nil, it is noted on the block.
func Iter2[K, V any](ctx context.Context, n *Node, seq iter.Seq2[K, V], o ...*IterOptions) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		l := newLoop(ctx, n, o)
		defer l.cut()
		_, fails := any((*V)(nil)).(*error)
		l.wait()
		for k, v := range seq {
			var err error
			if fails {
				err, _ = any(v).(error)
			}
			l.body()
			if !yield(k, v) {
				l.done(err)
				return
			}
			l.done(err)
			l.wait()
		}
	}
}

// IterSlice is Iter over a slice with its indexes.
func IterSlice[T any](ctx context.Context, n *Node, list []T, o ...*IterOptions) iter.Seq2[int, T] {
	return Iter2(ctx, n, func(yield func(int, T) bool) {
		for i, v := range list {
			if !yield(i, v) {
				return
			}
		}
	}, o...)
}

// IterChan is Iter over what a channel delivers until it is closed.
func IterChan[T any](ctx context.Context, n *Node, ch <-chan T, o ...*IterOptions) iter.Seq[T] {
	return Iter(ctx, n, func(yield func(T) bool) {
		for v := range ch {
			if !yield(v) {
				return
			}
		}
	}, o...)
}

// Range is Iter over 0 to count-1.
func (n *Node) Range(ctx context.Context, count int, o ...*IterOptions) iter.Seq[int] {
	return Iter(ctx, n, upTo(count), o...)
}

// RangeContext is IterContext over 0 to count-1.
func (n *Node) RangeContext(ctx context.Context, count int, o ...*IterOptions) iter.Seq2[context.Context, int] {
	return IterContext(ctx, n, upTo(count), o...)
}

func upTo(count int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range count {
			if !yield(i) {
				return
			}
		}
	}
}

// loop records one run over an iterator.
type loop struct {
	ctx          context.Context // as the caller has it
	iters, block *Node           // nil: left out
	count        int64
	since        time.Time // start of the wait; zero: it is not recorded
	open         Scope
}

func newLoop(ctx context.Context, n *Node, o []*IterOptions) *loop {
	l := &loop{ctx: ctx}
	if n == nil {
		return l
	}
	var opts IterOptions
	if len(o) > 0 && o[0] != nil {
		opts = *o[0]
	}
	name := func(own, usual string) string {
		if own != "" {
			return own
		}
		return usual
	}
	if !opts.NoIter {
		l.iters = n.Derive(name(opts.IterName, "iter"))
	}
	if !opts.NoBlock {
		l.block = n.Derive(name(opts.BlockName, "block"))
	}
	return l
}

// wait begins the wait for the next element.
func (l *loop) wait() {
	l.since = time.Time{}
	if l.iters.Enabled() {
		l.since = time.Now()
	}
}

// body ends the wait, begins the block and gives the context for what is below.
func (l *loop) body() context.Context {
	l.count++
	if !l.since.IsZero() {
		if args, on := l.iters.args(); on {
			if kind := l.iters.kind(); kind != nil {
				kind.Record(l.ctx, args, l.count, l.since)
			}
		}
	}
	l.open = Scope{}
	if l.block == nil {
		return l.ctx
	}
	args, on := l.block.args()
	kind := l.block.kind()
	if !on || kind == nil {
		return l.ctx
	}
	if l.open = (Scope{kind.Start(l.ctx, args, l.count)}); l.open.inner == nil {
		return l.ctx
	}
	return l.open.inner.Context()
}

// done ends the block.
func (l *loop) done(err error) {
	l.open.EndErr(err)
	l.open = Scope{}
}

// cut ends the block of a body that did not come back.
func (l *loop) cut() { l.open.EndErr(errCut) }
