package ai

import (
	"context"
	"iter"
	"strings"

	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// IterOptions shapes what an iterator records. Nil and the zero value record
// both events of every element.
type IterOptions struct {
	// NoIter leaves out the wait for each element, NoBlock the work on it.
	NoIter, NoBlock bool
	// IterName and BlockName are the names of the events, instead of
	// "<name>.iter" and "<name>.block".
	IterName, BlockName string
}

// Iter passes the elements of seq on and records two events for each: the wait
// for it, "<name>.iter", and the body that works on it, "<name>.block", with
// the argument count, from 1. The wait for the end of seq is not recorded. A
// break, a return, a panic or a goto out of the body ends its block. Both
// events have the arguments at their end: see [Node.Update].
//
// What the body starts with ctx, or with a context that leads to the same
// enclosing span, nests below the block, on any goroutine. Loops on several
// goroutines need separate contexts: if loops with one context overlap, what
// they start no longer nests below their blocks. [IterContext] has no such
// limit.
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

// IterContext is [Iter] that also yields the context of each block: only what
// starts with that context nests below the block.
func IterContext[T any](ctx context.Context, n *Node, seq iter.Seq[T], o ...*IterOptions) iter.Seq2[context.Context, T] {
	return func(yield func(context.Context, T) bool) {
		l := newLoop(ctx, n, o)
		l.handsOn = true
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

// Iter2 is [Iter] for pairs. If the second value of a pair is a non-nil error,
// it is recorded on the block.
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

// IterSlice is [Iter] over a slice with its indexes.
func IterSlice[T any](ctx context.Context, n *Node, list []T, o ...*IterOptions) iter.Seq2[int, T] {
	return Iter2(ctx, n, func(yield func(int, T) bool) {
		for i, v := range list {
			if !yield(i, v) {
				return
			}
		}
	}, o...)
}

// IterChan is [Iter] over the values of a channel until it is closed.
func IterChan[T any](ctx context.Context, n *Node, ch <-chan T, o ...*IterOptions) iter.Seq[T] {
	return Iter(ctx, n, func(yield func(T) bool) {
		for v := range ch {
			if !yield(v) {
				return
			}
		}
	}, o...)
}

// Range is [Iter] over 0 to count-1.
func (n *Node) Range(ctx context.Context, count int, o ...*IterOptions) iter.Seq[int] {
	return Iter(ctx, n, upTo(count), o...)
}

// RangeContext is [IterContext] over 0 to count-1.
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

// loop records one run of an iterator.
type loop struct {
	ctx          context.Context // the caller's
	node         *Node
	iters, block *label // nil if left out
	handsOn      bool   // the body gets the context of the block
	count        int64
	waits        dispatch.ScopeKind // the kind of the current wait; nil if it is not recorded
	since        int64              // start of the wait
	open         Scope
}

func newLoop(ctx context.Context, n *Node, o []*IterOptions) *loop {
	l := &loop{ctx: ctx, node: n}
	if n == nil {
		return l
	}
	var opts IterOptions
	if len(o) > 0 && o[0] != nil {
		opts = *o[0]
	}
	if !opts.NoIter {
		l.iters = n.tree.labelled(n, eventName(opts.IterName, n.name, ".iter"))
	}
	if !opts.NoBlock {
		l.block = n.tree.labelled(n, eventName(opts.BlockName, n.name, ".block"))
	}
	return l
}

func eventName(own, node, suffix string) string {
	switch {
	case own != "":
		return strings.Clone(own)
	case strings.HasSuffix(node, suffix):
		return node
	}
	return node + suffix
}

// kind returns how events of the loop are recorded now, nil if they are not.
func (l *loop) kind(of *label) dispatch.ScopeKind {
	if of == nil || l.node.off.Load() {
		return nil
	}
	return of.kind(l.node.tree)
}

// wait begins the wait for the next element.
func (l *loop) wait() {
	if l.waits = l.kind(l.iters); l.waits != nil {
		l.since = l.waits.Now()
	}
}

// body ends the wait, begins the block and returns its context.
func (l *loop) body() context.Context {
	l.count++
	if l.waits != nil && !l.node.off.Load() {
		l.waits.Record(l.ctx, &l.node.args, l.count, l.since)
	}
	l.open = Scope{}
	if kind := l.kind(l.block); kind != nil {
		l.open = Scope{kind.Start(l.ctx, &l.node.args, dispatch.ScopeStart{Count: l.count, Ambient: !l.handsOn})}
	}
	if l.open.inner == nil {
		return l.ctx
	}
	return l.open.inner.Context()
}

// done ends the block.
func (l *loop) done(err error) {
	l.open.end(err)
	l.open = Scope{}
}

// cut ends the block of a body that did not return.
func (l *loop) cut() { l.open.end(errCut) }
