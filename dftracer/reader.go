package dftracer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// ReaderOptions configures reading. The zero value, and nil, are ready for use.
type ReaderOptions struct {
	// OnBad is called for every skipped line, on the goroutine that reads. Scan calls it
	// for at most 100 lines of each piece; ReadStats.Bad counts them all.
	OnBad func(*LineError)
	// Hashes, if not nil, collects the names behind the hashes of the trace.
	Hashes *Hashes
	// OnPiece, if not nil, is called by Scan for each gzip member, or some MiB of
	// plain text, in the order of the file and, without Concurrent, after its
	// events.
	OnPiece func(*Piece)
	// Workers is how many goroutines Scan uses; 0 means one per processor.
	Workers int
	// Concurrent makes Scan call its function from several goroutines at once and
	// in no order, which is the fastest. Without it the events come in file order,
	// one at a time, while several goroutines parse.
	Concurrent bool
	// Stop, if not nil, is called for every few hundred KiB of text; its error ends
	// the reading and is returned. Scan calls it from several goroutines at once.
	// The Err method of a context fits.
	Stop func() error
}

// ReadStats are counts of what was read.
type ReadStats struct {
	Lines  int   // including framing, empty and bad lines
	Events int   // records delivered
	Bad    int   // lines skipped because they are not valid records
	Bytes  int64 // of text
	Slow   int   // lines in an unusual form, read by the general parser
	Torn   bool  // the file ends in the middle of a member or of a line
	Cause  error // what ended a torn gzip stream, the first of several
	// DamagedAt is where the first damage of a torn file begins, in bytes of the
	// file: the start of the gzip member or of the incomplete line. Only Scan sets
	// it; it is 0 for a file that is not torn.
	DamagedAt int64
	// Dialect is a guess from the records, right for every file that has records.
	Dialect Dialect
	// First holds the first bad lines, at most 100.
	First []LineError
}

const maxFirst = 100

func (s *ReadStats) bad(e LineError) {
	s.Bad++
	s.keep(e)
}

// keep adds a line to First.
func (s *ReadStats) keep(e LineError) {
	if len(s.First) < maxFirst {
		s.First = append(s.First, e)
	}
}

// Reader returns the events of a trace one by one. It reads plain text and
// gzip, any dialect, in constant memory. Times of another unit, which the trace
// declares as time_metric, become microseconds. Lines that are not valid records are
// skipped and counted. A truncated trace is read to its last complete line. A
// Reader stops at a damaged member; Scan continues with the next one. A Reader
// is not safe for concurrent use.
type Reader struct {
	opts   ReaderOptions
	lines  fsread.Lines
	parser tracefile.Parser
	event  Event
	unit   timeUnit
	stats  ReadStats
	text   io.Closer // of a regular file
	file   *os.File
	err    error
}

// OpenReader opens a trace file. Close it after use.
func OpenReader(path string, opts *ReaderOptions) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dftracer: %w", err)
	}
	r, err := newFileReader(f, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dftracer: read %s: %w", path, err), f.Close())
	}
	r.file = f
	return r, nil
}

func newFileReader(f *os.File, opts *ReaderOptions) (*Reader, error) {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return NewReader(f, opts) // a pipe: what it has is read at once
	}
	text, err := fsread.FileText(f)
	if err != nil {
		return nil, err
	}
	r := readerOf(text, opts)
	r.text = text
	return r, nil
}

func readerOf(text io.Reader, opts *ReaderOptions) *Reader {
	rd := &Reader{}
	if opts != nil {
		rd.opts = *opts
	}
	rd.lines.Reset(text, rd.opts.Stop)
	return rd
}

// NewReader reads a trace from r, which may be compressed.
func NewReader(r io.Reader, opts *ReaderOptions) (*Reader, error) {
	text, err := fsread.Text(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return nil, err
	}
	return readerOf(text, opts), nil
}

// Next returns the next event, or io.EOF at the end. The next call overwrites
// the event and its Args, but not their strings. A torn end is not an error,
// see Stats; any other failure to read is.
func (r *Reader) Next() (*Event, error) {
	for r.err == nil {
		line, err := r.lines.Next()
		switch {
		case err == nil:
			if r.take(line, &r.event) {
				return &r.event, nil
			}
		case errors.Is(err, fsread.ErrLongLine):
			r.stats.Lines++
			r.bad(err)
		default:
			r.err = r.stats.end(err)
			if r.takeRest() {
				return &r.event, nil
			}
		}
	}
	return nil, r.err
}

// end converts the error that ended the text: a torn stream counts as a normal
// end.
func (s *ReadStats) end(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case fsread.Torn(err):
		s.Torn, s.Cause = true, err
		return io.EOF
	}
	return fmt.Errorf("dftracer: read: %w", err)
}

// takeRest parses the text after the last line feed. It is an event if it is a
// whole record; otherwise the trace is torn there.
func (r *Reader) takeRest() bool {
	line, err := r.lines.Rest()
	if err != nil {
		r.stats.Lines++
		r.bad(err)
	}
	line = tracefile.TrimLine(line)
	if len(line) == 0 {
		return false
	}
	if r.parser.Parse(line, &r.event) != nil {
		r.stats.Torn = true
		return false
	}
	return r.take(line, &r.event)
}

func (r *Reader) bad(err error) {
	e := LineError{Line: r.stats.Lines, Err: err}
	r.stats.bad(e)
	if r.opts.OnBad != nil {
		r.opts.OnBad(&e)
	}
}

// take parses one line into ev and reports whether it is an event.
func (r *Reader) take(line []byte, ev *Event) bool {
	r.stats.Lines++
	r.stats.Bytes += int64(len(line)) + 1
	line = tracefile.TrimLine(line)
	if len(line) == 0 {
		return false
	}
	if err := r.parser.Parse(line, ev); err != nil {
		r.bad(err)
		return false
	}
	if r.stats.Events == 0 || ev.Phase == PhaseMetadata {
		r.stats.Dialect = tracefile.GuessDialect(line, ev, r.stats.Dialect)
		r.opts.Hashes.Note(ev)
		r.unit.note(ev)
	}
	if r.unit.ns != 0 {
		r.unit.scale(ev)
	}
	r.stats.Events++
	return true
}

// timeUnit is the unit of the times in a trace.
type timeUnit struct {
	ns    int64 // 0 means microseconds
	known bool  // note does not change it
}

// note takes the unit from the record that declares it.
func (u *timeUnit) note(ev *Event) {
	if u.known || ev.Name != tracefile.NameCustom {
		return
	}
	if key, value := ev.Meta(); key == tracefile.KeyTimeMetric {
		u.ns = map[string]int64{"NS": 1, "MS": 1e6, "SEC": 1e9}[value]
	}
}

// scale converts the times of an event to microseconds.
func (u *timeUnit) scale(ev *Event) {
	if ev.Phase == PhaseMetadata {
		return
	}
	end := ev.End()
	ev.TS = u.micros(ev.TS)
	if ev.Dur >= 0 && end >= 0 { // spans that touch still do
		ev.Dur = u.micros(end) - ev.TS
	} else {
		ev.Dur = u.micros(ev.Dur)
	}
	if ev.Phase == PhaseComplete {
		return
	}
	for i := range ev.Args { // of several events in one
		switch a := &ev.Args[i]; a.Key {
		case "dur", "dur_min", "dur_max", "dur_sum":
			*a = Int(a.Key, u.micros(a.Int64()))
		}
	}
}

func (u *timeUnit) micros(t int64) int64 {
	if u.ns < 1000 {
		return t / (1000 / u.ns)
	}
	by := u.ns / 1000
	return min(max(t, math.MinInt64/by), math.MaxInt64/by) * by
}

// All returns the remaining events. An error other than the end comes last,
// with a nil event.
func (r *Reader) All() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for {
			ev, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Stats returns the counts so far.
func (r *Reader) Stats() ReadStats {
	s := r.stats
	s.Slow = r.parser.Slow
	return s
}

// Close closes the file that OpenReader opened. It does nothing for NewReader.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	if r.text != nil {
		r.lines.Reset(nil, nil)
		r.err = cmp.Or(r.err, os.ErrClosed)
		_ = r.text.Close()
		r.text = nil
	}
	return r.file.Close()
}

// Stats are counts of what a Writer has done so far.
type Stats struct {
	Lines     uint64        // records written or buffered, including framing; some of them may get lost
	Bytes     uint64        // of text in these lines
	DiskBytes uint64        // written to the file
	Members   uint64        // gzip members of CompressMembers
	Parts     uint64        // files begun by rotation
	Blocked   time.Duration // total time that callers waited for the disk
	Lost      uint64        // lines missing because the file failed, stalled or was deleted, or was not ready at the deadline of CloseContext
	Late      uint64        // events written after Close, dropped
	Shortened uint64        // strings cut to keep a line under 16 KiB
	Repaired  uint64        // events whose negative numbers were replaced by 0
	Outages   uint64        // times the file failed or stalled
	Errors    uint64        // failed operations on the file
	Buffered  int           // bytes of text and of deferred spans not yet compressed
	Held      int           // bytes that wait to be written to the file
}

// Stats returns the current counts. It is safe for concurrent use.
func (w *Writer) Stats() Stats {
	if w == nil {
		return Stats{}
	}
	k := w.pump.sink.Stats()
	return Stats{
		Lines:     k.Lines + uint64(w.pump.waiting.Load()),
		Bytes:     w.pump.bytes.Load(),
		DiskBytes: k.Bytes,
		Members:   w.pump.members.Load(),
		Parts:     k.Parts,
		Blocked:   time.Duration(w.blocks.blocked.Load()),
		Lost:      k.Lost,
		Late:      w.blocks.late.Load(),
		Shortened: w.cuts.Load(),
		Repaired:  w.fixed.Load(),
		Outages:   k.Outages,
		Errors:    k.Errors,
		Buffered:  w.blocks.filled() + int(w.pump.pending.Load()),
		Held:      k.Held,
	}
}
