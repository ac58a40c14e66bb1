package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// DefaultFlushInterval is how long a record may wait in memory when
// [Options.FlushInterval] is zero.
const DefaultFlushInterval = 200 * time.Millisecond

const (
	// writeAt is the size at which the caller writes the buffer itself.
	writeAt = 256 << 10
	// maxBuffer bounds what is held while the disk takes nothing; records
	// beyond it are lost and counted.
	maxBuffer = 8 << 20
)

// Options are the options of [New]. The zero value is the default.
type Options struct {
	// Compat writes the file as one-logger does: the file is emptied at the
	// start, a span's start is held back until its end or another record, ids
	// are UUIDs, NaN is written bare, and our extensions are left out.
	Compat bool

	// FlushInterval is how long a record may wait in memory. Zero means
	// DefaultFlushInterval; a negative interval writes every record at once.
	// Records of spans that last for long, errors and metrics never wait for
	// the interval.
	FlushInterval time.Duration
}

// Exporter writes native records to a file. Make it with [New]; give it to
// one builder. It is safe for concurrent use.
type Exporter struct {
	outputs.None

	path    string
	options Options
	wake    chan struct{}

	life    sync.Mutex   // one Start or Shutdown at a time
	writing sync.Mutex   // one write at a time, in order
	blocked atomic.Int64 // nanoseconds that callers wrote themselves

	mu      sync.Mutex
	file    *os.File
	name    string // of file, also when it is closed
	open    bool   // records are taken
	enc     encoder
	buf     []byte
	spare   []byte
	held    int               // bytes that are being written
	pending *outputs.SpanData // the start that is held back, as the span is now
	err     error             // of the present outage
	told    bool              // err was given to a caller of Export
	lost    int64             // records lost in the present outage
	stats   spans.FileStats
	stop    chan struct{}
	done    chan struct{}
}

// New makes an exporter for the file at path. In the path, {rank}, {pid} and
// {host} stand for those of the process; missing folders are made. A file
// that exists is appended to, unless Compat says otherwise; one that another
// process is writing is left alone, and a name of this rank and process is
// used instead. Nothing is opened before the exporter is started.
func New(path string, options *Options) *Exporter {
	e := &Exporter{path: path, wake: make(chan struct{}, 1)}
	if options != nil {
		e.options = *options
	}
	if e.options.FlushInterval == 0 {
		e.options.FlushInterval = DefaultFlushInterval
	}
	return e
}

// Path is the file that is written, or was written before the Shutdown, with
// the placeholders filled in; before the start it is the path given to New.
func (e *Exporter) Path() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.name != "" {
		return e.name
	}
	return e.path
}

// Stats implements outputs.Output.
func (e *Exporter) Stats() outputs.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Output, s.Blocked = "records", time.Duration(e.blocked.Load())
	return outputs.Stats{File: s}
}

// Attach implements outputs.Output. It opens the file. An exporter can be
// attached again after its Shutdown.
func (e *Exporter) Attach(_ context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	return outputs.Wants{Records: true, Inline: true}, e.start(t.Identity)
}

func (e *Exporter) start(id outputs.Identity) error {
	if e.path == "" {
		return errors.New("file: no path: give New the file to write")
	}
	e.life.Lock()
	defer e.life.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file != nil {
		return errors.New("file: exporter is started already: make one for each builder")
	}
	rank := id.Rank.Get()
	f, err := open(expand(e.path, id), rank, id.PID, e.options.Compat)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	e.file, e.name, e.open = f, f.Name(), true
	e.blocked.Store(0)
	e.enc = encoder{compat: e.options.Compat, pid: id.PID, rank: rank}
	e.buf, e.pending, e.err, e.told, e.lost, e.stats = e.buf[:0], nil, nil, false, 0, spans.FileStats{}
	if mend(f) {
		e.buf = append(e.buf, '\n')
	}
	if e.options.FlushInterval > 0 {
		e.stop, e.done = make(chan struct{}), make(chan struct{})
		go e.flusher(e.options.FlushInterval, e.stop, e.done)
	}
	return nil
}

// Export implements outputs.Output. An error means that the disk has begun
// to refuse records, and comes once for each such time. The records are held
// in memory until the disk takes them again; those that memory has no room for
// are lost, and counted in [Stats] and in the file.
func (e *Exporter) Export(r *outputs.Record) error {
	size, urgent, err := e.take(r)
	switch {
	case size == 0:
		return err // not open, or lost
	case e.options.FlushInterval < 0 || size > maxBuffer:
		start := time.Now()
		_ = e.flush()
		e.blocked.Add(int64(time.Since(start)))
		return e.tell()
	case size > writeAt && e.writing.TryLock():
		start := time.Now()
		_ = e.write()
		e.writing.Unlock()
		e.blocked.Add(int64(time.Since(start)))
		return e.tell()
	case urgent:
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// take puts a record into the buffer. It gives the size of the buffer if there
// is something to do about it.
func (e *Exporter) take(r *outputs.Record) (size int, urgent bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return 0, false, errors.New("file: exporter is not started, or is shut down already")
	}
	if r.Span == nil && r.Kind != outputs.KindDataError {
		return 0, false, fmt.Errorf("file: a %s record without a span", r.Kind)
	}
	if e.err != nil && len(e.buf)+e.held > maxBuffer {
		e.lose(r)
		return 0, false, e.tellLocked()
	}
	urgent = e.append(r)
	if e.err != nil && e.options.FlushInterval > 0 {
		return 0, false, e.tellLocked() // the flusher tries again at its interval
	}
	return len(e.buf), urgent, nil
}

// lose drops a record. A start that is held back goes with its stop, because
// the span may not be looked at after that.
func (e *Exporter) lose(r *outputs.Record) {
	e.lost++
	e.stats.Lost++
	if r.Kind == outputs.KindStop && e.holds(r.Span) {
		e.pending = nil
	}
}

// tell gives the error of the present outage to the first who asks.
func (e *Exporter) tell() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tellLocked()
}

func (e *Exporter) tellLocked() error {
	if e.err == nil || e.told {
		return nil
	}
	e.told = true
	return e.err
}

// append encodes one record and tells whether it is one to write soon.
func (e *Exporter) append(r *outputs.Record) (urgent bool) {
	if e.options.Compat {
		e.appendCompat(r)
		return true
	}
	switch r.Kind {
	case outputs.KindStart:
		e.buf = e.enc.span(e.buf, "start", r.Span, &r.Event, nil)
	case outputs.KindStop:
		e.buf = e.enc.span(e.buf, "stop", r.Span, nil, &r.Event)
	case outputs.KindEvent, outputs.KindError:
		e.buf = e.enc.of(e.buf, r.Kind.String(), r.Span, &r.Event)
	case outputs.KindDataError:
		e.buf = e.enc.dataError(e.buf, &r.Event)
	default:
		return false
	}
	e.stats.Records++
	if r.Kind != outputs.KindStart && r.Kind != outputs.KindStop {
		return true
	}
	info, standard := spans.Lookup(r.Span.Name)
	return standard && info.Long
}

// appendCompat writes as one-logger does: the latest start is held back. Its
// end makes one record of both; any other record of a span writes it first.
func (e *Exporter) appendCompat(r *outputs.Record) {
	if r.Extension || r.Span != nil && isExtension(r.Span.Name) {
		return
	}
	switch r.Kind {
	case outputs.KindUpdate:
		if e.holds(r.Span) {
			e.pending = r.Span
		}
		return
	case outputs.KindStart:
		e.release()
		e.pending = r.Span
		return
	case outputs.KindStop:
		if e.holds(r.Span) {
			e.pending = nil
			start := startOf(r.Span)
			e.buf = e.enc.span(e.buf, "complete", r.Span, &start, &r.Event)
			break
		}
		e.release()
		e.buf = e.enc.span(e.buf, "stop", r.Span, nil, &r.Event)
	case outputs.KindEvent, outputs.KindError:
		e.release()
		e.buf = e.enc.of(e.buf, r.Kind.String(), r.Span, &r.Event)
	case outputs.KindDataError:
		e.buf = e.enc.dataError(e.buf, &r.Event)
	}
	e.stats.Records++
}

// holds tells whether the start that is held back is that of a span.
func (e *Exporter) holds(s *outputs.SpanData) bool {
	return e.pending != nil && e.pending.SpanID == s.SpanID
}

func isExtension(name string) bool {
	info, ok := spans.Lookup(name)
	return ok && info.Extension
}

// release writes the start that is held back, with the attributes that the
// span has by now.
func (e *Exporter) release() {
	if e.pending == nil {
		return
	}
	start := startOf(e.pending)
	e.buf = e.enc.span(e.buf, "start", e.pending, &start, nil)
	e.pending = nil
	e.stats.Records++
}

func startOf(s *outputs.SpanData) outputs.Event {
	return outputs.Event{Name: spans.EventSpanStart, Time: s.Start, Attributes: s.StartAttributes}
}
