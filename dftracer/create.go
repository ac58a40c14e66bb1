package dftracer

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/outfile"
)

// Create makes the file at path and writes the start of a trace to it. The
// path may contain {rank}, {pid} and {host}; missing directories are made. A
// file that is already there is left alone: the trace goes to the next free name,
// see Options.Existing and Path. Pipes, devices and "-", the standard output,
// are opened as they are. Create starts three goroutines, which Close ends.
func Create(path string, opts *Options) (*Writer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if path, err = o.resolvePath(path); err != nil {
		return nil, fmt.Errorf("dftracer: %w", err)
	}
	existing := outfile.NextName
	if o.Existing == ExistingFail {
		existing = outfile.Fail
	}
	out, err := outfile.Open(path, existing)
	if err != nil {
		return nil, fmt.Errorf("dftracer: create %s: %w", path, err)
	}
	got := out.Path()
	w, err := newWriter(out, got, o)
	if err == nil && got != path && o.OnPath != nil && got != "" {
		o.OnPath(got)
	}
	return w, err
}

// NewWriter writes a trace to w, which it does not close. When a write fails,
// the rest is written again later, so w must report how much it took.
func NewWriter(w io.Writer, opts *Options) (*Writer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Compression == CompressAuto {
		o.Compression = CompressMembers
	}
	o.RotateSize = 0
	return newWriter(outfile.NewStream(w), "", o)
}

func newWriter(out outfile.Output, path string, o Options) (*Writer, error) {
	w := allocWriter(path, o)
	w.names.seed(o.Dialect, o.Process)
	err := w.start(func(o outfile.Options) (*outfile.Sink, error) { return outfile.New(out, o) })
	if err != nil {
		return nil, fmt.Errorf("dftracer: write %s: %w", path, err)
	}
	if o.Process.Rank != nil {
		dft.WriteRank(w, *o.Process.Rank)
	}
	return w, nil
}

// allocWriter makes a Writer that is not started.
func allocWriter(path string, o Options) *Writer {
	nest := o.Nesting == NestingOn || o.Nesting == NestingAuto && o.Dialect != V22
	w := &Writer{
		enc:  dft.NewEncoder(o.Dialect, o.NoMetadata, nest, o.Process.PID, o.Process.Host),
		opts: o,
		path: path,
		stop: make(chan struct{}),
	}
	w.enc.NoTIDs = o.NoTIDs
	w.blocks = newBlocks(o.Pool, o.MemberSize)
	return w
}

// start starts the goroutines, one of them the sink's. The start of the file is
// written here, so that even a process that dies at once leaves a trace.
func (w *Writer) start(sink func(outfile.Options) (*outfile.Sink, error)) (err error) {
	o := &w.opts
	if w.pump, err = newPump(pumpOptions{o.Compression, o.Level, o.MemberSize, o.Pool}, w.blocks); err != nil {
		return err
	}
	format := &framer{o: o, enc: w.enc, names: &w.names, nextID: w.NextID, shorten: &w.cuts, end: w.ending, pump: w.pump}
	if err = format.open(); err != nil {
		return err
	}
	out := outfile.Options{
		Format: format, Hold: o.StallMemory, Wait: o.StallWait, Sync: outfile.SyncPolicy(o.Sync),
		Rotate: o.RotateSize, Pause: format.Pause, OnPath: o.OnPath, Now: o.Now,
	}
	if on := o.OnError; on != nil {
		out.OnError = func(err error) { on(fmt.Errorf("dftracer: %w", err)) }
	}
	if o.RemoveEmpty {
		out.Unwanted = func(last outfile.Part) bool {
			return last.Number == 0 && last.Lost == 0 && last.Lines-last.Metadata < minEvents
		}
	}
	if w.pump.sink, err = sink(out); err != nil {
		return err
	}
	go w.pump.run()
	w.flusher.Add(1)
	go w.flushRegularly()
	return nil
}

// minEvents is how many events, start and end included, the reference wants
// before it keeps a file.
const minEvents = 5

// flushRegularly keeps lines from growing older than the flush interval.
func (w *Writer) flushRegularly() {
	defer w.flusher.Done()
	every := w.opts.FlushInterval
	if w.opts.Heartbeat > 0 {
		every = min(every, w.opts.Heartbeat/2)
	}
	t := time.NewTicker(max(every, time.Millisecond))
	defer t.Stop()
	beat := time.Now()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
			if now := time.Now(); w.opts.Heartbeat > 0 && now.Sub(beat) >= w.opts.Heartbeat-every/2 {
				beat = now
				dft.WriteCustom(w, dft.KeyHeartbeat, strconv.FormatInt(w.opts.Now().UnixMicro(), 10))
			}
			w.blocks.sealAll()
			w.blocks.jobs <- job{op: opCheck}
		}
	}
}
