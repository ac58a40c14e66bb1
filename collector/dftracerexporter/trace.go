package dftracerexporter

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/collector/dftracerexporter/internal/metadata"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
)

// keptAside is how many open and how many finished spans of a process are
// remembered while its file is not open.
const keptAside = 512

// trace is the file of one process.
type trace struct {
	cfg *Config
	in  *metadata.TelemetryBuilder
	id  identity

	// Under the lock of the store.
	used time.Time
	slot bool // it may have its file open

	mu     sync.Mutex
	state  state
	w      *dftracer.Writer // nil until the file is made
	asm    *assemble.Assembler
	names  assemble.Names
	lost   uint64 // lines that were counted
	folded int64
}

// state is what a trace does with its file.
type state uint8

const (
	stateNew    state = iota // there is none
	stateOpen                // it is open
	stateAside               // it was put aside
	stateClosed              // it is complete; the trace takes nothing any more
)

// assembler makes what puts the spans together.
func (t *trace) assembler() *assemble.Assembler {
	return assemble.New(t.w, assemble.Options{
		TID: int64(t.id.pid), MaxWaiting: t.cfg.MaxWaitingSpans, MaxParents: t.cfg.MaxParents,
		TraceIDs: t.cfg.TraceIDs, LiveEvents: true,
	})
}

// putAside closes the file for now. It writes what waits: what comes later
// finds its parents all the same. After an error the file is open as before,
// or closed.
func (t *trace) putAside(ctx context.Context) error {
	t.asm.Shrink(min(keptAside, t.cfg.MaxParents))
	t.names = assemble.Names{}
	err := t.w.Suspend(ctx)
	t.count()
	switch {
	case err == nil:
		t.state = stateAside
	case errors.Is(err, dftracer.ErrClosed):
		t.state = stateClosed
	default:
		return err
	}
	t.in.DftracerOpenFiles.Add(ctx, -1)
	return err
}

// resume opens the file again.
func (t *trace) resume() error {
	w, err := t.w.Resume()
	if err != nil {
		return err
	}
	t.w, t.state = w, stateOpen
	t.asm.Resume(w)
	t.in.DftracerFilesResumed.Add(context.Background(), 1)
	t.in.DftracerOpenFiles.Add(context.Background(), 1)
	return nil
}

// close completes the file.
func (t *trace) close(ctx context.Context) error {
	if t.state == stateAside {
		if err := t.resume(); err != nil {
			return err
		}
	}
	was := t.state
	t.state = stateClosed
	if was != stateOpen {
		return nil
	}
	t.asm.Finish()
	err := t.w.CloseContext(ctx)
	t.count()
	t.in.DftracerOpenFiles.Add(context.Background(), -1)
	return err
}

// count reports what was written, and lost, since the last time.
func (t *trace) count() {
	ctx, c := context.Background(), t.asm.Counts()
	add := func(to metric.Int64Counter, n int64) {
		if n != 0 {
			to.Add(ctx, n)
		}
	}
	add(t.in.DftracerSpansWritten, c.Spans)
	add(t.in.DftracerEventsWritten, c.Events)
	add(t.in.DftracerSpansBegun, c.Begins)
	add(t.in.DftracerDuplicateSpans, c.Duplicates)
	add(t.in.DftracerUnfinishedSpans, c.Unfinished)
	add(t.in.DftracerFoldedSpans, t.folded)
	t.folded = 0
	st := t.w.Stats()
	add(t.in.DftracerLostLines, int64(st.Lost+st.Late-t.lost))
	t.lost = st.Lost + st.Late
}
