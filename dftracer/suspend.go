package dftracer

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Suspend writes everything to the file and closes it without the end of the
// trace. It is for programs with more traces than they can keep open: it
// releases the memory, the goroutines and the descriptor, and Resume continues
// in the same file. It only works for files that Create made.
//
// If the file fails or takes nothing, Suspend returns the reason and the Writer
// stays usable, unless the error matches [ErrClosed]. After success the Writer
// is closed but the trace is not: a trace that is not resumed has no end, as if
// the program had been killed.
func (w *Writer) Suspend(ctx context.Context) error {
	if w == nil {
		return nil
	}
	if w.path == "" || fswrite.AsIs(w.path) {
		return fmt.Errorf("dftracer: suspend: only a file can be suspended: %w", errors.ErrUnsupported)
	}
	if err := w.FlushContext(ctx); err != nil {
		return err
	}
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.closed {
		return tracefile.ErrClosed
	}
	w.drain()
	if err := w.pump.sink.Suspend(ctx); err != nil {
		w.err = fmt.Errorf("dftracer: suspend %s: %w (%w)", w.pump.sink.Path(), err, tracefile.ErrClosed)
		return w.err
	}
	w.suspended = true
	w.pump.forget()
	w.blocks.free.clear(w.opts.Pool)
	return nil
}

// Resume opens the file of a suspended Writer again, and returns a Writer that
// continues with its ids, counts and names. It writes further gzip members. If
// the file is gone or was changed, the trace continues in the next part, which
// records what is missing. After an error Resume may be called again.
func (w *Writer) Resume() (*Writer, error) {
	if w == nil {
		return nil, nil
	}
	w.closing.Lock()
	defer w.closing.Unlock()
	if !w.suspended {
		return nil, errors.New("dftracer: resume: the writer is not suspended")
	}
	n := allocWriter(w.path, w.opts)
	n.lastID.Store(w.lastID.Load())
	n.names.seen, n.names.list = w.names.seen, w.names.list
	n.end.Store(w.end.Load())
	n.blocks.shards[0].last = w.blocks.last()
	n.blocks.blocked.Store(w.blocks.blocked.Load())
	n.cuts.Store(w.cuts.Load())
	n.blocks.late.Store(w.blocks.late.Load())
	n.fixed.Store(w.fixed.Load())
	err := n.start(func(o fswrite.Options) (*fswrite.Sink, error) { return fswrite.Continue(w.pump.sink, o) })
	if err != nil {
		return nil, fmt.Errorf("dftracer: resume %s: %w", w.path, err)
	}
	n.pump.bytes.Store(w.pump.bytes.Load())
	n.pump.members.Store(w.pump.members.Load())
	w.suspended = false
	return n, nil
}
