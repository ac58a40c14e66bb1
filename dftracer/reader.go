package dftracer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// ReaderOptions configures reading. The zero value, and nil, are ready for use.
type ReaderOptions struct {
	// OnBad is called for every skipped line, from the goroutine that reads.
	OnBad func(*LineError)
	// Hashes, when not nil, takes the names behind the hashes of the trace.
	Hashes *Hashes
	// OnPiece, when not nil, is called by Scan for each gzip member, or some MiB of plain
	// text, in the order of the file and, without Concurrent, after its events.
	OnPiece func(*Piece)
	// Workers is how many goroutines Scan uses; 0 means one per processor.
	Workers int
	// Concurrent makes Scan call its function from several goroutines at once and
	// in no order, which is the fastest. Without it the events come in file order,
	// one at a time, while several goroutines parse.
	Concurrent bool
	// Stop, when not nil, is asked for every few hundred KiB of text whether to
	// go on; its error ends the reading and is returned. Scan asks from several
	// goroutines at once. The Err method of a context fits.
	Stop func() error
}

// ReadStats are counts of what was read.
type ReadStats struct {
	Lines  int   // with framing, empty and bad lines
	Events int   // records delivered
	Bad    int   // lines skipped because they are no valid record
	Bytes  int64 // of text
	Slow   int   // lines in an unusual form, read by the general parser
	Torn   bool  // the file ends in the middle of a member or of a line
	Cause  error // what ended a torn gzip stream, the first of several
	// DamagedAt is where a torn file is damaged first, in bytes of the file:
	// the beginning of the gzip member or of the half line. Only Scan knows it;
	// it is 0 in a file that is not torn.
	DamagedAt int64
	// Dialect is a guess from the records; it is right for files that have any.
	Dialect Dialect
	// First holds the first bad lines, at most 100.
	First []LineError
}

const maxFirst = 100

func (s *ReadStats) bad(e LineError) {
	s.Bad++
	if len(s.First) < maxFirst {
		s.First = append(s.First, e)
	}
}

// Reader returns the events of a trace one by one: plain or gzip, any dialect,
// constant memory. Lines that are no valid
// record are skipped and counted. A trace cut anywhere is read to its last
// complete line. A damaged member ends the trace for a Reader; Scan goes on
// with the next one. It is not safe for concurrent use.
type Reader struct {
	opts   ReaderOptions
	lines  fsread.Lines
	parser tracefile.Parser
	event  Event
	stats  ReadStats
	closer io.Closer
	err    error
}

// OpenReader opens a trace file. Close it after use.
func OpenReader(path string, opts *ReaderOptions) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dftracer: %w", err)
	}
	r, err := NewReader(f, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dftracer: read %s: %w", path, err), f.Close())
	}
	r.closer = f
	return r, nil
}

// NewReader reads a trace from r, which may be compressed.
func NewReader(r io.Reader, opts *ReaderOptions) (*Reader, error) {
	rd := &Reader{}
	if opts != nil {
		rd.opts = *opts
	}
	text, err := fsread.Text(bufio.NewReaderSize(r, 64<<10))
	if err != nil {
		return nil, err
	}
	rd.lines.Reset(text, rd.opts.Stop)
	return rd, nil
}

// Next returns the next event, or io.EOF at the end. The event and its Args
// are overwritten by the next call; their strings are not. A torn end is not
// an error, see Stats; any other failure to read is.
func (r *Reader) Next() (*Event, error) {
	for r.err == nil {
		line, err := r.lines.Next()
		switch {
		case err == nil:
			if r.take(line) {
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

// end translates what ended the text: a torn stream is as good as an end.
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

// takeRest looks at what follows the last line feed. It counts when it is a
// whole record; otherwise the trace was cut inside it.
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
	return r.take(line)
}

func (r *Reader) bad(err error) {
	e := LineError{Line: r.stats.Lines, Err: err}
	r.stats.bad(e)
	if r.opts.OnBad != nil {
		r.opts.OnBad(&e)
	}
}

// take parses one line and reports whether it is an event.
func (r *Reader) take(line []byte) bool {
	r.stats.Lines++
	r.stats.Bytes += int64(len(line)) + 1
	line = tracefile.TrimLine(line)
	if len(line) == 0 {
		return false
	}
	if err := r.parser.Parse(line, &r.event); err != nil {
		r.bad(err)
		return false
	}
	if r.stats.Events == 0 || r.event.Phase == PhaseMetadata {
		r.stats.Dialect = tracefile.GuessDialect(line, &r.event, r.stats.Dialect)
		r.opts.Hashes.Note(&r.event)
	}
	r.stats.Events++
	return true
}

// All returns the events that are left. An error other than the end comes
// last, with a nil event.
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

// Stats returns what was read so far.
func (r *Reader) Stats() ReadStats {
	s := r.stats
	s.Slow = r.parser.Slow
	return s
}

// Close closes the file that OpenReader opened.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Stats are counts of what a Writer has done so far.
type Stats struct {
	Lines     uint64        // records written or waiting for the disk, framing included; some of them may get lost
	Bytes     uint64        // of text in those lines
	DiskBytes uint64        // written to the file
	Members   uint64        // gzip members of CompressMembers
	Parts     uint64        // continuation files begun by rotation
	Blocked   time.Duration // total time callers waited for the disk
	Lost      uint64        // lines missing because the file failed, stalled or was deleted, or was not ready at the deadline of CloseContext
	Late      uint64        // events written after Close, dropped
	Shortened uint64        // strings cut to keep a line under 16 KiB
	Repaired  uint64        // events whose negative numbers became 0
	Outages   uint64        // times the file failed or stalled
	Errors    uint64        // failed operations on the file
	Buffered  int           // bytes of text not yet given to the compressor
	Held      int           // bytes that wait for the file
}

// Stats returns the counts of this moment.
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
