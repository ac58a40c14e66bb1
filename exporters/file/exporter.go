package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

	mu      sync.Mutex
	file    *os.File
	enc     encoder
	buf     []byte
	spare   []byte
	pending *telemetry.SpanData // the start that is held back
	err     error               // of the present outage; reported once
	told    bool
	lost    int64 // records lost in the present outage
	stats   Stats
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	writing sync.Mutex // one write at a time, in order
}

// Stats are counts of an [Exporter] since it was started.
type Stats struct {
	Records int64 // written or waiting
	Bytes   int64 // written
	Lost    int64 // dropped because the disk took nothing for too long
	Errors  int64 // failed writes
}

// New makes an exporter for the file at path. In the path, {rank}, {pid} and
// {host} stand for those of the process; missing folders are made. A file
// that exists is appended to, unless Compat says otherwise; one that another
// process is writing is left alone, and a name of this rank and process is
// used instead. Nothing is opened before the exporter is started.
func New(path string, options *Options) *Exporter {
	e := &Exporter{path: path}
	if options != nil {
		e.options = *options
	}
	if e.options.FlushInterval == 0 {
		e.options.FlushInterval = DefaultFlushInterval
	}
	return e
}

// Path is the file that is written, with the placeholders filled in; before
// the start it is the path given to New.
func (e *Exporter) Path() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file != nil {
		return e.file.Name()
	}
	return e.path
}

// Stats gives the counts.
func (e *Exporter) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Start implements telemetry.Exporter.
func (e *Exporter) Start(_ context.Context, id telemetry.Identity) error {
	if e.path == "" {
		return errors.New("file: no path: give New the file to write")
	}
	rank := id.Rank.Get()
	f, err := open(expand(e.path, id), rank, id.PID, e.options.Compat)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file != nil {
		_ = f.Close()
		return errors.New("file: exporter is started already: make one for each builder")
	}
	e.file, e.enc = f, encoder{compat: e.options.Compat, pid: id.PID, rank: rank}
	e.buf, e.pending, e.err, e.stats = e.buf[:0], nil, nil, Stats{}
	if e.options.FlushInterval > 0 {
		e.wake, e.stop, e.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		go e.flusher(e.options.FlushInterval, e.wake, e.stop, e.done)
	}
	return nil
}

func expand(path string, id telemetry.Identity) string {
	return strings.NewReplacer(
		"{rank}", strconv.Itoa(id.Rank.Get()),
		"{pid}", strconv.Itoa(id.PID),
		"{host}", strings.ReplaceAll(id.Host, string(filepath.Separator), "_"),
	).Replace(path)
}

// open opens the file for appending and claims it for this process.
func open(path string, rank, pid int, truncate bool) (*os.File, error) {
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if !claim(f) {
		_ = f.Close()
		ext := filepath.Ext(path)
		path = fmt.Sprintf("%s.rank%d.pid%d%s", strings.TrimSuffix(path, ext), rank, pid, ext)
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return nil, err
		}
		if !claim(f) {
			_ = f.Close()
			return nil, fmt.Errorf("open %s: in use by another exporter of this process: give each its own path", path)
		}
	}
	if truncate {
		if err := f.Truncate(0); err != nil && !errors.Is(err, os.ErrInvalid) {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// Export implements telemetry.Exporter. An error means that records were lost
// or that the disk has begun to refuse them.
func (e *Exporter) Export(r *telemetry.Record) error {
	e.mu.Lock()
	if e.file == nil {
		e.mu.Unlock()
		return errors.New("file: exporter is not started, or is shut down already")
	}
	if len(e.buf) > maxBuffer {
		e.lost++
		e.stats.Lost++
		err := fmt.Errorf("file: record lost: %w", e.err)
		e.mu.Unlock()
		return err
	}
	urgent := e.append(r)
	size := len(e.buf)
	var err error
	if e.err != nil && !e.told {
		e.told, err = true, e.err
	}
	healthy := e.err == nil
	e.mu.Unlock()
	switch {
	case e.options.FlushInterval < 0:
		return e.flush()
	case size > writeAt && healthy:
		return e.flush()
	case urgent:
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return err
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
