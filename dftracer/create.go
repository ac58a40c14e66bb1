package dftracer

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Create makes the file at path and writes the start of a trace to it. The path
// may contain {rank}, {pid} and {host}; missing directories are made. An
// existing file is not overwritten: the trace goes to the next free name, see
// Options.Existing and Path. Pipes, devices and "-", the standard output, are
// opened as they are. Create starts three goroutines, which Close ends.
func Create(path string, opts *Options) (*Writer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if path, err = o.resolvePath(path); err != nil {
		return nil, fmt.Errorf("dftracer: %w", err)
	}
	existing := fswrite.NextName
	if o.Existing == ExistingFail {
		existing = fswrite.Fail
	}
	out, err := fswrite.Open(path, existing)
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

// NewWriter writes a trace to w, which it does not close. After a failed write
// the rest is written again later, so w must report how many bytes it took.
func NewWriter(w io.Writer, opts *Options) (*Writer, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Compression == CompressAuto {
		o.Compression = CompressMembers
	}
	o.RotateSize = 0
	return newWriter(fswrite.NewStream(w), "", o)
}

func newWriter(out fswrite.Output, path string, o Options) (*Writer, error) {
	w := allocWriter(path, o)
	w.names.seed(o.Dialect, o.Process)
	err := w.start(func(o fswrite.Options) (*fswrite.Sink, error) { return fswrite.New(out, o) })
	if err != nil {
		return nil, fmt.Errorf("dftracer: write %s: %w", path, err)
	}
	if o.Process.Rank != nil {
		tracefile.WriteRank(w, *o.Process.Rank)
	}
	return w, nil
}

// allocWriter returns a Writer that is not started.
func allocWriter(path string, o Options) *Writer {
	nest := o.Nesting == NestingOn || o.Nesting == NestingAuto && o.Dialect != V22
	w := &Writer{
		enc:  tracefile.NewEncoder(o.Dialect, o.NoMetadata, nest, o.Process.PID, o.Process.Host),
		opts: o,
		path: path,
		stop: make(chan struct{}),
	}
	w.enc.NoTIDs = o.NoTIDs
	w.blocks = newBlocks(o.Pool, o.MemberSize)
	return w
}

// start starts the goroutines, including the sink's. It writes the start of the
// file, so that even a process that dies at once leaves a trace.
func (w *Writer) start(sink func(fswrite.Options) (*fswrite.Sink, error)) (err error) {
	o := &w.opts
	if w.pump, err = newPump(pumpOptions{o.Compression, o.Level, o.MemberSize, o.Pool}, w.blocks); err != nil {
		return err
	}
	w.pump.encoding = encoding{enc: w.enc, cuts: &w.cuts}
	format := &framer{o: o, enc: w.enc, names: &w.names, nextID: w.NextID, shorten: &w.cuts, end: w.ending, pump: w.pump}
	if err = format.open(); err != nil {
		return err
	}
	out := fswrite.Options{
		Format: format, Hold: o.StallMemory, Wait: o.StallWait, Sync: fswrite.SyncPolicy(o.Sync),
		Rotate: o.RotateSize, Pause: format.Pause, OnPath: o.OnPath, Now: o.Now,
	}
	if on := o.OnError; on != nil {
		out.OnError = func(err error) { on(fmt.Errorf("dftracer: %w", err)) }
	}
	if o.RemoveEmpty {
		out.Unwanted = func(last fswrite.Part) bool {
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

// minEvents is how many events, including start and end, DFTracer requires to
// keep a file.
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
				tracefile.WriteCustom(w, tracefile.KeyHeartbeat, strconv.FormatInt(w.opts.Now().UnixMicro(), 10))
			}
			w.blocks.sealAll()
			w.blocks.jobs <- job{op: opCheck}
		}
	}
}

const (
	extPlain = ".pfw"
	extGzip  = ".pfw.gz"
)

// hashedPath returns the name that DFTracer gives to a trace:
// <prefix>-<hash16>-app.pfw.gz, or .pfw for plain text, where the hash is of
// program, host and process id. An extension .pfw or .pfw.gz of the prefix is
// dropped.
func hashedPath(prefix string, p Process, plain bool) string {
	p = p.withDefaults()
	h := tracefile.HashOf(V2, p.Exec+"-"+p.Host+"-"+strconv.Itoa(p.PID))
	ext := extGzip
	if plain {
		ext = extPlain
	}
	stem, _ := splitExt(prefix)
	return stem + "-" + tracefile.HashText(h, V2) + "-app" + ext
}

// splitExt splits a trace's extension off a path.
func splitExt(path string) (stem, ext string) {
	for _, ext := range [...]string{extGzip, extPlain, ".gz"} {
		if stem, ok := strings.CutSuffix(path, ext); ok && stem != "" {
			return stem, ext
		}
	}
	return path, ""
}

// resolvePath returns the path to create and decides the compression. An
// explicit compression replaces a known extension, because tools decide by the
// name.
func (o *Options) resolvePath(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty: name the file to write")
	}
	name := fswrite.Name{Path: path, Rank: o.Process.Rank, WorldSize: o.Process.WorldSize, PID: o.Process.PID, Host: o.Process.Host}
	resolve := name.Resolve
	if o.HashName {
		resolve = name.Expand // the hash makes the name unique among processes
	}
	path, err := resolve()
	if err != nil {
		return "", err
	}
	if o.Compression == CompressAuto {
		o.Compression = CompressMembers
		if strings.HasSuffix(path, extPlain) || path == fswrite.Stdout {
			o.Compression = CompressNone
		}
	}
	plainText := o.Compression == CompressNone
	if o.HashName {
		return hashedPath(path, o.Process, plainText), nil
	}
	if fswrite.AsIs(path) {
		return path, nil
	}
	stem, ext := splitExt(path)
	switch {
	case plainText && ext == extGzip:
		return stem + extPlain, nil
	case !plainText && ext == extPlain:
		return stem + extGzip, nil
	}
	return path, nil
}
