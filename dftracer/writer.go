package dftracer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/tracefile"
)

// Writer writes one process's trace. Its methods may be called concurrently; a
// nil Writer does nothing.
//
// An event is encoded directly into a buffer under a short lock, or kept there
// until the buffer is full or old, see [Writer.WriteDeferred]. One goroutine
// compresses these buffers, and another one writes them. When the disk is
// slower than the program, all buffers fill up and Write blocks: no event is
// dropped and memory stays bounded. When the disk fails, or takes nothing for a
// second, compressed events wait in memory, see Options.StallMemory; beyond
// that they are dropped, counted and reported, and a record in the file has
// their number once the file works again.
type Writer struct {
	enc    *tracefile.Encoder
	opts   Options
	path   string
	lastID atomic.Uint64

	blocks *blocks
	pump   *pump
	names  names
	cuts   atomic.Uint64 // strings that were shortened
	fixed  atomic.Uint64 // events with numbers that the format cannot represent

	closing   sync.Mutex
	closed    bool
	suspended bool
	end       atomic.Pointer[jobEnd] // nil until SetEnd
	stop      chan struct{}
	flusher   sync.WaitGroup
	err       error
}

// Path returns the path of the file that Create made, which may differ from the
// one asked for; later parts of a rotated trace have a number before the
// extension. It is empty for NewWriter.
func (w *Writer) Path() string {
	if w == nil {
		return ""
	}
	return w.path
}

// Dialect returns the dialect being written.
func (w *Writer) Dialect() Dialect {
	if w == nil {
		return V2
	}
	return w.opts.Dialect
}

// NextID returns an id for an event that starts now, so that its children can
// name it as their parent before it is written.
func (w *Writer) NextID() uint64 {
	if w == nil {
		return 0
	}
	return w.lastID.Add(1)
}

// WriteComplete writes a finished span without allocating. Negative numbers
// become 0; a zero ID is replaced by a new one. args are not kept.
func (w *Writer) WriteComplete(key *Key, s Span, args ...Arg) {
	if w == nil {
		return
	}
	if tracefile.ArgsSize(args) > tracefile.MaxArgs {
		if s.ID == 0 {
			s.ID = w.lastID.Add(1)
		}
		w.repaired(s.TS < 0 || s.Dur < 0 || s.TID < 0)
		w.writeLong(tracefile.Long(key, s, args))
		return
	}
	w.complete(key, &s, args, nil)
}

// WriteEncoded is like [Writer.WriteComplete] for arguments that are already
// encoded, each as in a line: `,"key":12`. Keys must differ from each other,
// consist of at most 32 ASCII letters, digits or punctuation without JSON
// escapes, and must not be hhash, level or p_idx; with other text readers
// refuse the line. A hash must have the form of the Writer's dialect. args is
// not kept.
func (w *Writer) WriteEncoded(key *Key, s Span, args []byte) {
	if len(args) > tracefile.MaxArgs {
		w.WriteComplete(key, s, tracefile.AppendDecoded(nil, args)...)
		return
	}
	w.complete(key, &s, nil, args)
}

// complete writes a span, with args or with encoded arguments, that fits into a
// line.
func (w *Writer) complete(key *Key, s *Span, args []Arg, text []byte) {
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
	sh.text = w.enc.AppendSpan(sh.text, &sh.clock, key, s, args, text)
	sh.lines++
	sh.last = max(sh.last, s.TS+s.Dur)
	full := sh.size() >= w.blocks.full
	sh.mu.Unlock()
	if full {
		w.blocks.sealFull(sh)
	}
}

// repaired counts an event with a number that the format cannot represent.
func (w *Writer) repaired(negative bool) {
	if negative {
		w.fixed.Add(1)
	}
}

// Write writes any event. It does not change ev and does not keep it.
func (w *Writer) Write(ev *Event) {
	if w == nil || ev == nil {
		return
	}
	if own := ev.TID == tracefile.OwnLane; own || ev.ID == 0 && w.enc.HasID(ev.Phase) {
		copied := *ev
		if own {
			copied.TID = w.enc.Pid
			if tracefile.OfProcess(ev) {
				w.names.remember(copied)
			}
		}
		if ev.ID == 0 && w.enc.HasID(ev.Phase) {
			copied.ID = w.lastID.Add(1)
		}
		ev = &copied
	}
	w.repaired(ev.TS < 0 || ev.Dur < 0 || ev.TID < 0 || ev.PID < 0)
	if tracefile.QuickSize(ev) > tracefile.MaxLine {
		w.writeLong(ev)
		return
	}
	sh := w.shardOf(ev)
	sh.mu.Lock()
	if sh.text == nil {
		sh.mu.Unlock()
		w.blocks.late.Add(1)
		return
	}
	sh.text = w.enc.Append(sh.text, &sh.clock, ev)
	sh.lines++
	sh.last = max(sh.last, ev.End())
	full := sh.size() >= w.blocks.full
	sh.mu.Unlock()
	if full {
		w.blocks.sealFull(sh)
	}
}

// writeLong writes an event whose strings may have to be shortened.
func (w *Writer) writeLong(ev *Event) {
	w.blocks.append(w.shardOf(ev), fittingLine(w.enc, new(tracefile.Clock), ev, &w.cuts), ev.End())
}

// fittingLine returns the line of an event whose strings may have to be
// shortened, and counts those that are.
func fittingLine(enc *tracefile.Encoder, c *tracefile.Clock, ev *Event, cuts *atomic.Uint64) []byte {
	line, n := tracefile.AppendFitting(nil, ev, func(dst []byte, ev *Event) []byte { return enc.Append(dst, c, ev) })
	cuts.Add(uint64(n))
	return line
}

func (w *Writer) shardOf(ev *Event) *shard {
	if ev.Phase == PhaseMetadata {
		return &w.blocks.metadata
	}
	return w.blocks.shardOf(ev.TID)
}

// FlushContext waits until everything written before is in the file, at most
// until the context ends. It returns the Writer's error state: nil if the file
// works. It does not wait for a file that fails or takes nothing.
func (w *Writer) FlushContext(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return waitFor(ctx, func() error { return w.flush(ctx, false) })
}

// Sync calls FlushContext and then syncs the file to the disk.
func (w *Writer) Sync() error {
	if w == nil {
		return nil
	}
	return w.flush(context.Background(), true)
}

func (w *Writer) flush(ctx context.Context, sync bool) error {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.closed {
		return w.err
	}
	w.blocks.sealAll()
	done := make(chan struct{})
	w.blocks.jobs <- job{op: opFlush, done: done}
	<-done
	if err := w.pump.sink.Flush(ctx, sync); err != nil {
		return fmt.Errorf("dftracer: %w", err)
	}
	return nil
}

// waitFor waits for f, at most until the context ends; f then continues in the
// background.
func waitFor(ctx context.Context, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("dftracer: flush: %w", ctx.Err())
	}
}

// SetEnd sets when the traced job ended, and arguments for the end event, such
// as counts of losses before the Writer. A later call replaces both; the zero
// time and no arguments keep the defaults. Without a time the end event has the
// latest end of all events if Options.Start is set, and otherwise the time of
// closing.
func (w *Writer) SetEnd(at time.Time, args ...Arg) {
	if w == nil {
		return
	}
	var end jobEnd
	if was := w.end.Load(); was != nil {
		end = *was
	}
	if !at.IsZero() {
		end.at = at
	}
	if len(args) > 0 {
		end.args = append([]Arg(nil), args...)
	}
	w.end.Store(&end)
}

// jobEnd holds the arguments of SetEnd.
type jobEnd struct {
	at   time.Time // zero: unknown
	args []Arg
}

// ending returns the contents of the end event. They include the time of
// writing if it differs.
func (w *Writer) ending() traceEnd {
	var e traceEnd
	now := w.opts.Now().UnixMicro()
	end := w.end.Load()
	if end != nil {
		e.args = end.args
	}
	switch {
	case end != nil && !end.at.IsZero():
		e.ts, e.written = end.at.UnixMicro(), now
	case w.opts.Start.IsZero():
		e.ts = now
	default:
		e.ts, e.written = max(w.opts.Start.UnixMicro(), w.blocks.last()), now
	}
	return e
}

// Close writes the end event, ends the framing, stops the goroutines and closes
// the file. It returns the first error that lost events or left the file
// incomplete. Later calls return the same; later writes are counted and
// dropped. It waits for a slow file, and up to 30 s for one that takes nothing.
func (w *Writer) Close() error { return w.CloseContext(context.Background()) }

// CloseContext is Close with a deadline: it returns when the context ends. What
// is not in the file then counts as lost, and the error has the cause and the
// number of lines. A goroutine that is blocked in the system ends when the
// system call returns.
func (w *Writer) CloseContext(ctx context.Context) error {
	if w == nil {
		return nil
	}
	if ctx.Done() == nil {
		w.close(ctx)
		return w.err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.close(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		w.pump.sink.Abandon(ctx.Err()) // from here nothing waits for the file
		<-done
	}
	return w.err
}

func (w *Writer) close(ctx context.Context) {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.closed {
		return
	}
	w.drain()
	w.blocks.free.clear(w.opts.Pool)
	if err := w.pump.sink.Close(ctx); err != nil {
		w.err = fmt.Errorf("dftracer: close %s: %w", w.pump.sink.Path(), err)
	}
}

// drain passes everything to the sink, makes later writes fail and stops all
// goroutines except the sink's.
func (w *Writer) drain() {
	w.closed = true
	close(w.stop)
	w.flusher.Wait()
	w.blocks.sealAll()
	w.blocks.retire()
	done := make(chan struct{})
	w.blocks.jobs <- job{op: opClose, done: done}
	<-done
}

// Hash returns the hash that stands for a text in this trace. The kind is the
// name of the record that maps the hash to the text: "HH" for a host, "FH" for
// a file, "SH" or "" for any other text. The first use of a text writes this record.
// A nil Writer returns the zero Hash.
func (w *Writer) Hash(kind, s string) Hash {
	if w == nil {
		return 0
	}
	kind = cmp.Or(kind, tracefile.NameStringHash)
	h := tracefile.HashOf(w.opts.Dialect, s)
	if w.opts.NoMetadata && kind != tracefile.NameHostHash {
		return h
	}
	key := nameKey{kind[0], h}
	n := &w.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[key]; ok {
		return h
	}
	if n.seen == nil || len(n.seen) >= maxNames {
		n.seen = make(map[nameKey]struct{})
	}
	n.seen[key] = struct{}{}
	ev := tracefile.Record(kind, s, tracefile.HashArg("", h))
	ev.TID = w.enc.Pid
	w.Write(&ev)
	n.remember(ev)
	return h
}
