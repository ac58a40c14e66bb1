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
	"github.com/trainspan/trainspan/telemetry"
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
	held    int                 // bytes that are being written
	pending *telemetry.SpanData // the start that is held back
	err     error               // of the present outage
	told    bool                // err was given to a caller of Export
	lost    int64               // records lost in the present outage
	stats   Stats
	stop    chan struct{}
	done    chan struct{}
}

// Stats are counts of an [Exporter] since it was started.
type Stats struct {
	Records int64         // written or waiting
	Bytes   int64         // written
	Lost    int64         // dropped because the disk took nothing for too long
	Errors  int64         // failed writes
	Blocked time.Duration // how long callers wrote to the file themselves
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

// Stats gives the counts.
func (e *Exporter) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Blocked = time.Duration(e.blocked.Load())
	return s
}

// FileStats gives the counts as metrics report them.
func (e *Exporter) FileStats() spans.FileStats {
	s := e.Stats()
	return spans.FileStats{Output: "records", Records: s.Records, Bytes: s.Bytes, Lost: s.Lost, Errors: s.Errors, Blocked: s.Blocked}
}

// Start implements telemetry.Exporter. An exporter can be started again after
// its Shutdown.
func (e *Exporter) Start(_ context.Context, id telemetry.Identity) error {
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
	e.buf, e.pending, e.err, e.told, e.lost, e.stats = e.buf[:0], nil, nil, false, 0, Stats{}
	if mend(f) {
		e.buf = append(e.buf, '\n')
	}
	if e.options.FlushInterval > 0 {
		e.stop, e.done = make(chan struct{}), make(chan struct{})
		go e.flusher(e.options.FlushInterval, e.stop, e.done)
	}
	return nil
}

// Export implements telemetry.Exporter. An error means that the disk has begun
// to refuse records, and comes once for each such time. The records are held
// in memory until the disk takes them again; those that memory has no room for
// are lost, and counted in [Stats] and in the file.
func (e *Exporter) Export(r *telemetry.Record) error {
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
func (e *Exporter) take(r *telemetry.Record) (size int, urgent bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return 0, false, errors.New("file: exporter is not started, or is shut down already")
	}
	if r.Span == nil && r.Kind != telemetry.KindDataError {
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
func (e *Exporter) lose(r *telemetry.Record) {
	e.lost++
	e.stats.Lost++
	if r.Kind == telemetry.KindStop && e.pending == r.Span {
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
func (e *Exporter) append(r *telemetry.Record) (urgent bool) {
	if e.options.Compat {
		e.appendCompat(r)
		return true
	}
	switch r.Kind {
	case telemetry.KindStart:
		e.buf = e.enc.span(e.buf, "start", r.Span, &r.Event, nil)
	case telemetry.KindStop:
		e.buf = e.enc.span(e.buf, "stop", r.Span, nil, &r.Event)
	case telemetry.KindEvent, telemetry.KindError:
		e.buf = e.enc.of(e.buf, r.Kind.String(), r.Span, &r.Event)
	case telemetry.KindDataError:
		e.buf = e.enc.dataError(e.buf, &r.Event)
	}
	e.stats.Records++
	if r.Kind != telemetry.KindStart && r.Kind != telemetry.KindStop {
		return true
	}
	info, standard := spans.Lookup(r.Span.Name)
	return standard && info.Long
}

// appendCompat writes as one-logger does: the latest start is held back. Its
// end makes one record of both; any other record of a span writes it first.
func (e *Exporter) appendCompat(r *telemetry.Record) {
	if r.Extension || r.Span != nil && isExtension(r.Span.Name) {
		return
	}
	switch r.Kind {
	case telemetry.KindStart:
		e.release()
		e.pending = r.Span
		return
	case telemetry.KindStop:
		if e.pending == r.Span {
			e.pending = nil
			start := startOf(r.Span)
			e.buf = e.enc.span(e.buf, "complete", r.Span, &start, &r.Event)
			break
		}
		e.release()
		e.buf = e.enc.span(e.buf, "stop", r.Span, nil, &r.Event)
	case telemetry.KindEvent, telemetry.KindError:
		e.release()
		e.buf = e.enc.of(e.buf, r.Kind.String(), r.Span, &r.Event)
	case telemetry.KindDataError:
		e.buf = e.enc.dataError(e.buf, &r.Event)
	}
	e.stats.Records++
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

func startOf(s *telemetry.SpanData) telemetry.Event {
	return telemetry.Event{Name: spans.EventSpanStart, Time: s.Start, Attributes: s.StartAttributes}
}
