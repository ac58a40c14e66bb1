package dftracer

import (
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/tracefile"
)

// Content supplies the category, name and arguments of a span that
// [Writer.WriteDeferred] has written. AppendArgs appends the arguments to text,
// encoded as for [Writer.WriteEncoded], or to args, and returns both. A goroutine
// of the Writer calls it once, soon after WriteDeferred. It must not call the
// Writer, which would wait for itself, and must not keep text and args.
type Content interface {
	AppendArgs(text []byte, args []Arg) (key *Key, encoded []byte, other []Arg)
}

// WriteDeferred is like [Writer.WriteComplete] for a span whose arguments are
// encoded on the Writer's goroutine, which saves the caller that time. The line
// has its place among the lines of the same lane, and FlushContext and Close
// include it. size is about how many bytes of memory the Writer keeps alive with c: it
// decides when the Writer passes on the buffer.
func (w *Writer) WriteDeferred(s Span, size int, c Content) {
	if w == nil {
		return
	}
	if s.ID == 0 {
		s.ID = w.lastID.Add(1)
	}
	w.repaired(s.TS < 0 || s.Dur < 0 || s.TID < 0)
	sh := w.blocks.shardOf(s.TID)
	sh.mu.Lock()
	if sh.text == nil {
		sh.mu.Unlock()
		w.blocks.late.Add(1)
		return
	}
	if sh.deferred == nil {
		sh.deferred = make([]deferredSpan, 0, w.blocks.full/deferredSize+1)
	}
	sh.deferred = append(sh.deferred, deferredSpan{Span: s, content: c, at: len(sh.text)})
	sh.kept += max(size, deferredSize)
	sh.lines++
	sh.last = max(sh.last, s.TS+s.Dur)
	full := sh.size() >= w.blocks.full
	sh.mu.Unlock()
	if full {
		w.blocks.sealFull(sh)
	}
}

// deferredSize is the least size of a deferred span, which bounds their number.
const deferredSize = 256

// deferredSpan is a span whose line belongs before byte at of its block's text.
type deferredSpan struct {
	Span

	content Content
	at      int
}

// encoding makes the lines of deferred spans. Only the pump's goroutine uses it.
type encoding struct {
	enc   *tracefile.Encoder
	cuts  *atomic.Uint64 // strings that were shortened
	clock tracefile.Clock
	lines []byte // the text of a block, reused
	text  []byte // arguments of one span, reused
	args  []Arg
}

// textOf returns the lines of a block, valid until the next call.
func (e *encoding) textOf(b *block) []byte {
	if len(b.deferred) == 0 {
		return b.text
	}
	dst, from := e.lines[:0], 0
	for i := range b.deferred {
		s := &b.deferred[i]
		dst, from = append(dst, b.text[from:s.at]...), s.at
		dst = e.appendSpan(dst, s)
	}
	dst = append(dst, b.text[from:]...)
	e.lines = kept(dst)
	return dst
}

func (e *encoding) appendSpan(dst []byte, s *deferredSpan) []byte {
	key, text, args := s.content.AppendArgs(e.text[:0], e.args[:0])
	if len(text) > 0 && len(text)+tracefile.ArgsSize(args) > tracefile.MaxArgs {
		args, text = tracefile.AppendDecoded(args, text), text[:0]
	}
	if tracefile.ArgsSize(args) > tracefile.MaxArgs {
		dst = append(dst, fittingLine(e.enc, &e.clock, tracefile.Long(key, s.Span, args), e.cuts)...)
	} else {
		dst = e.enc.AppendSpan(dst, &e.clock, key, &s.Span, args, text)
	}
	clear(args)
	e.text, e.args = kept(text), kept(args)
	return dst
}

// kept returns a buffer for later use, or nil if it is large.
func kept[T any](s []T) []T {
	const most = 1 << 20
	if cap(s) > most {
		return nil
	}
	return s[:0]
}
