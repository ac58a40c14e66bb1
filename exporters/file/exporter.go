// Package file writes native telemetry records as JSON lines, in the record
// grammar of NVIDIA's one-logger.
//
//	exporter := file.New("telemetry.{rank}.jsonl", nil)
//	builder.WithExporter(exporter)
//
// By default each record is written when it happens, spans name their parent,
// trace and rank, and every line is valid JSON. [Options.Compat] writes what
// one-logger itself would write, byte for byte.
//
// An [Exporter] is a span exporter for any OpenTelemetry program too:
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(file.New("telemetry.jsonl", nil)))
//	defer tp.Shutdown(ctx) // closes the file too
package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Defaults of [Options]. DefaultFlushInterval is 200 ms, less than the 500 ms
// of a trace: the cost of a line does not depend on the interval, unlike that
// of a gzip member.
const (
	DefaultFlushInterval = fswrite.FlushInterval * 2 / 5
	defaultHeartbeat     = 10 * time.Second
)

// writeAt is the size at which the caller passes the buffer to the sink.
const writeAt = 256 << 10

// Options are the options of [New]. The zero value is the default.
type Options struct {
	// Compat writes the file like one-logger: a span's start is held back until its
	// end or another record, ids are UUIDs, NaN is written bare, and our extensions
	// are left out.
	Compat bool

	// Append appends to an existing file, unless another process is writing it.
	// Without it an existing file is not changed, and the records go to the next
	// free name: telemetry.run2.jsonl.
	Append bool

	// FlushInterval is how long a record may wait in memory. Zero means
	// DefaultFlushInterval; a negative interval writes every record at once.
	// Records of long spans, errors and metrics never wait for the interval.
	FlushInterval time.Duration

	// Heartbeat is the time between two records that the process is alive, also
	// while nothing else is recorded. Zero means 10 s. A negative time and Compat
	// switch these records off.
	Heartbeat time.Duration

	// StallMemory is how many bytes wait in memory while the file fails or takes
	// nothing; zero means 64 MiB. StallWait is how long calls wait in total
	// once that memory is full, before records are lost; zero means 100 ms, and a
	// negative time means that calls wait until there is room.
	StallMemory int
	StallWait   time.Duration

	// OnError is called when an outage of the file begins and when it ends, with an
	// error that matches *Outage. It may be called on any goroutine and must not
	// call the exporter. Nil logs a warning, with the logger of the telemetry that
	// the exporter is attached to.
	OnError func(error)
	// OnPath is called when the records go to another file than the one asked for,
	// at the start and later. It must not call the exporter. Nil logs the path.
	OnPath func(path string)
}

// Outage is an error about a time in which the file could not be written. It is
// reported when that time begins and when it ends: Path is the file, Cause the
// error behind it, which Unwrap returns, and Over is true at the end. For is
// then how long it lasted, and Lost how many lines are missing because of it.
// Error describes it in one line.
type Outage = fswrite.Outage

// ErrStalled is the cause of an Outage in which the file takes nothing.
var ErrStalled error = fswrite.ErrStalled

// Exporter writes native records to a file. Make it with [New]; give it to
// one builder. It is safe for concurrent use.
type Exporter struct {
	outputs.None

	path    string
	options Options
	wake    chan struct{}

	export sync.Mutex // one ExportSpans at a time
	failed error      // of the first ExportSpans

	life    sync.Mutex   // one Open or Shutdown at a time
	blocked atomic.Int64 // nanoseconds that callers waited for the file

	mu      sync.Mutex
	sink    *fswrite.Sink // kept after it is closed
	started bool
	closed  bool // Shutdown was called
	open    bool // records are taken
	enc     encoder
	buf     []byte
	lines   int               // lines in buf
	records int64             // encoded records
	gaps    []fswrite.Gap     // gaps that no record reports yet
	now     func() int64      // nanoseconds since the Unix epoch
	pending *outputs.SpanData // the span whose start is held back, in its current state
	stop    chan struct{}
	done    chan struct{}
}

// New returns an exporter for the file at path. In the path, {rank}, {pid} and
// {host} stand for those of the process; another name in braces is an error of
// [Exporter.Open]. If the job has several ranks and the path has no {rank},
// "-rank2" (for rank 2) goes before the extension. Missing folders are made. An
// existing file is not changed, see [Options.Append] and [Exporter.Path].
// Pipes, devices and "-", the standard output, are opened as they are. Open
// opens the file, New does not.
func New(path string, options *Options) *Exporter {
	e := &Exporter{path: path, wake: make(chan struct{}, 1)}
	if options != nil {
		e.options = *options
	}
	o := &e.options
	if o.FlushInterval == 0 {
		o.FlushInterval = DefaultFlushInterval
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Compat {
		o.Heartbeat = -1
	}
	return e
}

// Path returns the file that is written, or was written before [Exporter.Shutdown].
// Before the exporter is attached it is the path given to [New].
func (e *Exporter) Path() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sink != nil && e.sink.Path() != "" {
		return e.sink.Path()
	}
	return e.path
}

// Stats implements outputs.Output. Records counts the records that were written or wait;
// Lost counts the records that are missing because the file took nothing for too long,
// was deleted, or was not ready at the deadline of Shutdown.
func (e *Exporter) Stats() outputs.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := outputs.FileStats{Output: "records", Records: e.records, Blocked: time.Duration(e.blocked.Load())}
	if e.sink != nil {
		k := e.sink.Stats()
		f.Bytes, f.Lost, f.Errors, f.Outages = int64(k.Bytes), int64(k.Lost), int64(k.Errors), int64(k.Outages)
	}
	return outputs.Stats{File: f}
}

// Write implements outputs.Output. It waits for a slow file, but at most a
// second for one that takes nothing. An error means that the exporter is not
// attached, or that the record is invalid. Records that the file does not take
// are reported by [Options.OnError] and [Exporter.Stats], and in the file once
// it works again.
func (e *Exporter) Write(records []outputs.Record) error {
	var failed error
	for i := range records {
		if err := e.write(&records[i]); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

func (e *Exporter) write(r *outputs.Record) error {
	e.mu.Lock()
	sink := e.sink
	err := e.check(r)
	if err == nil && (sink.Ready() || r.Kind == outputs.KindDataError && sink.Reserved()) {
		e.take(r)
		e.mu.Unlock()
		if e.options.FlushInterval < 0 {
			e.wait(func() { _ = sink.Drain(context.Background()) }) // it calls OnError
		}
		return nil
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	admitted := false
	e.wait(func() { admitted = sink.Admit(1) })
	e.mu.Lock()
	defer e.mu.Unlock()
	if !admitted {
		e.lose(r)
	} else if err = e.check(r); err == nil {
		e.take(r)
	}
	return err
}

// wait calls f and adds its time to blocked.
func (e *Exporter) wait(f func()) {
	start := time.Now()
	f()
	e.blocked.Add(int64(time.Since(start)))
}

// check returns an error if a record cannot be accepted.
func (e *Exporter) check(r *outputs.Record) error {
	if !e.open {
		return errors.New("file: the exporter is not started or already shut down")
	}
	if r.Span == nil && r.Kind != outputs.KindDataError {
		return fmt.Errorf("file: a %s record has no span", r.Kind)
	}
	return nil
}

// take adds a record to the buffer.
func (e *Exporter) take(r *outputs.Record) {
	if r.Kind == outputs.KindUpdate {
		if e.options.Compat && e.holds(r.Span) {
			e.pending = r.Span
		}
		return
	}
	urgent := e.append(r)
	switch {
	case e.options.FlushInterval < 0 || len(e.buf) >= writeAt:
		e.hand()
	case urgent:
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// hand passes the buffer to the sink and does not wait. The caller holds the
// lock, which keeps the order.
func (e *Exporter) hand() {
	for _, g := range e.gaps {
		e.buf = e.enc.gap(e.buf, g)
		e.lines++
		e.records++
	}
	e.gaps = nil
	if len(e.buf) > 0 {
		e.sink.Put(e.buf, e.lines, 0)
	}
	if e.buf, e.lines = e.buf[:0], 0; cap(e.buf) > 4*writeAt {
		e.buf = nil
	}
}

// lose drops a record that the sink has counted as lost. A start that is held
// back is dropped with its stop, because the span may not be read after that.
func (e *Exporter) lose(r *outputs.Record) {
	if r.Kind == outputs.KindStop && e.holds(r.Span) {
		e.pending = nil
	}
}

// append encodes one record and reports whether it should be written soon.
func (e *Exporter) append(r *outputs.Record) (urgent bool) {
	if e.options.Compat && e.holdBack(r) {
		return true
	}
	switch r.Kind {
	case outputs.KindStart:
		e.buf = e.enc.span(e.buf, "start", r.Span, &r.Event, nil)
	case outputs.KindStop:
		e.buf = e.enc.span(e.buf, "stop", r.Span, nil, &r.Event)
	case outputs.KindEvent, outputs.KindError:
		e.buf = e.enc.appendEvent(e.buf, r.Kind.String(), r.Span, &r.Event)
	case outputs.KindDataError:
		e.buf = e.enc.dataError(e.buf, &r.Event)
	}
	e.encoded()
	if e.options.Compat || r.Kind != outputs.KindStart && r.Kind != outputs.KindStop {
		return true
	}
	info, standard := spans.Lookup(r.Span.Name)
	return standard && info.Long
}

func (e *Exporter) encoded() { e.records, e.lines = e.records+1, e.lines+1 }

// holdBack implements one-logger's order: the latest start is held back. Its
// end makes one record of both; any other record of a span writes the start
// first. It reports whether nothing else is to be done.
func (e *Exporter) holdBack(r *outputs.Record) bool {
	switch {
	case r.Extension || r.Span != nil && isExtension(r.Span.Name):
		return true
	case r.Kind == outputs.KindStop && e.holds(r.Span):
		e.pending = nil
		start := startOf(r.Span)
		e.buf = e.enc.span(e.buf, "complete", r.Span, &start, &r.Event)
		e.encoded()
		return true
	case r.Kind != outputs.KindDataError:
		e.release()
	}
	if r.Kind == outputs.KindStart {
		e.pending = r.Span
	}
	return r.Kind == outputs.KindStart
}

// holds reports whether the start of a span is held back.
func (e *Exporter) holds(s *outputs.SpanData) bool {
	return e.pending != nil && e.pending.SpanID == s.SpanID
}

func isExtension(name string) bool {
	info, ok := spans.Lookup(name)
	return ok && info.Extension
}

// release writes the start that is held back, with the current attributes of
// the span.
func (e *Exporter) release() {
	if e.pending == nil {
		return
	}
	start := startOf(e.pending)
	e.buf = e.enc.span(e.buf, "start", e.pending, &start, nil)
	e.pending = nil
	e.encoded()
}

func startOf(s *outputs.SpanData) outputs.Event {
	return outputs.Event{Name: spans.EventSpanStart, Time: s.Start, Attributes: s.StartAttributes}
}

// open opens the file of a path, and returns the output and the path asked for.
func open(path string, id outputs.Identity, add bool) (out fswrite.Output, asked string, err error) {
	name := fswrite.Name{Path: path, PID: id.PID, Host: id.Host}
	if id.RankKnown {
		name.WorldSize = id.WorldSize.Or(0)
	}
	if id.Rank.IsSet() {
		rank := id.Rank.Get()
		name.Rank = &rank
	}
	if asked, err = name.Resolve(); err != nil {
		return nil, "", err
	}
	existing := fswrite.NextName
	if add {
		existing = fswrite.Append
	}
	out, err = fswrite.Open(asked, existing)
	return out, asked, err
}

// maxTail is how far back repair looks for the start of the last line.
const maxTail = 4 << 20

// repair removes the torn last line of a file that is appended to, so that no
// incomplete line precedes new ones. A complete last line, or one that is not
// ours, is kept; then repair reports that a line feed is missing.
func repair(out fswrite.Output) (missing bool) {
	size := out.Size()
	if size == 0 {
		return false
	}
	in, err := os.Open(out.Path())
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }()
	var last [1]byte
	if _, err := in.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return false
	}
	tail := make([]byte, min(size, maxTail))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil {
		return true
	}
	begin := bytes.LastIndexByte(tail, '\n') + 1
	if begin == 0 && int64(len(tail)) < size {
		return true
	}
	line := tail[begin:]
	const ours = `{"type":"`
	if json.Valid(line) || !bytes.HasPrefix(line, []byte(ours[:min(len(ours), len(line))])) {
		return true
	}
	return fswrite.Cut(out, size-int64(len(line))) != nil
}
