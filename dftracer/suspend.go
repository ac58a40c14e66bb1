package dftracer

import (
	"context"
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Suspend writes everything to the file and closes it without the end of the
// trace, for a program with more traces than it can keep open: the memory, the
// goroutines and the descriptor are given back, and Resume goes on in the same
// file. It is for files that Create made.
//
// While the file fails or takes nothing, Suspend returns why and the Writer
// goes on as before, unless the error matches [ErrClosed]. Afterwards the Writer is
// closed, but not the trace: a trace that is not resumed has no end, as if the program
// had been killed.
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
// goes on where that one stopped: ids, counts and names included. What it
// writes are further gzip members. If the file is gone or was changed, the
// trace goes on in the next part, which says what is missing. After an error
// Resume may be called again.
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
