package dftracer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/inflate"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Scan reads a trace file with several goroutines, each taking a gzip member
// or a piece of plain text at a time, and calls fn with every event, in file
// order and one at a time. With ReaderOptions.Concurrent fn is called from
// several goroutines at once and in no order. The event is only valid during the
// call; its strings stay valid. An error from fn stops the scan and is returned.
//
// Memory does not depend on the size of the file. A file that is one single
// member is decompressed by one goroutine.
func Scan(path string, opts *ReaderOptions, fn func(*Event) error) (ReadStats, error) {
	f, err := os.Open(path)
	if err != nil {
		return ReadStats{}, fmt.Errorf("dftracer: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return ReadStats{}, fmt.Errorf("dftracer: %w", err)
	}
	s := &scan{f: f, size: info.Size(), fn: fn, last: -1, quit: make(chan struct{})}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Workers <= 0 {
		s.opts.Workers = runtime.GOMAXPROCS(0)
	}
	s.unit = readUnit(f, s.size)
	s.join.unit = s.unit
	err = s.run()
	if err != nil {
		err = fmt.Errorf("dftracer: scan %s: %w", path, err)
	}
	return s.stats, err
}

// unitWithin is the number of records within which a trace declares the unit of its
// times. DFTracer does it in the third.
const unitWithin = 100

// readUnit returns the unit of a file's times, for all pieces alike.
func readUnit(f *os.File, size int64) timeUnit {
	r, err := NewReader(io.NewSectionReader(f, 0, size), nil)
	if err != nil { // the scan returns it
		return timeUnit{known: true}
	}
	for range unitWithin {
		if ev, err := r.Next(); err != nil || ev.Phase != PhaseMetadata {
			break
		}
	}
	return timeUnit{r.unit.ns, true}
}

// scan is one parallel pass over a file.
type scan struct {
	f     *os.File
	size  int64
	opts  ReaderOptions
	fn    func(*Event) error
	stats ReadStats
	unit  timeUnit // of the whole file

	join Reader // parses the lines that cross pieces
	tail part   // text before the next piece, without a line feed so far
	last int64  // where the last gzip member begins; -1 in plain text

	ended bool // fn returned an error and is not called again
	once  sync.Once
	quit  chan struct{}
}

// piece is a part of the file and what a worker found in it.
type piece struct {
	Piece

	batches chan *batch // in ordered scans: events for the caller
	done    chan struct{}
	first   part // text up to the first line feed; it may end a line of the previous piece
	tail    part // text after the last line feed
	whole   bool // there was a line feed
	stats   ReadStats
	err     error
}

// part is an incomplete line.
type part struct {
	text []byte
	long bool // too long, and dropped
}

// add appends text, or notes the error that ended it.
func (p *part) add(text []byte, err error) {
	n := len(p.text) + len(text)
	if p.long = p.long || err != nil || n > fsread.MaxLine; p.long {
		p.text = p.text[:0]
		return
	}
	if n > cap(p.text) { // append grows long slices by a quarter
		p.text = append(make([]byte, 0, max(n, 2*cap(p.text))), p.text...)
	}
	p.text = append(p.text, text...)
}

func (p *part) join(o part) {
	p.long = p.long || o.long
	p.add(o.text, nil)
}

// batch holds events for the ordered scan, which are parsed into it.
type batch struct {
	events []Event
	args   []Arg // of all events
}

const (
	batchEvents = 512
	batchArgs   = 4 * batchEvents
	argsRoom    = 16
	pieceSize   = 4 << 20
)

func (s *scan) run() error {
	todo := make(chan *piece)
	inOrder := make(chan *piece, 2*s.opts.Workers)
	feedErr := make(chan error, 1)
	var workers sync.WaitGroup
	go func() {
		defer close(todo)
		defer close(inOrder)
		feedErr <- s.pieces(func(p *piece) bool {
			p.done = make(chan struct{})
			if !s.opts.Concurrent {
				p.batches = make(chan *batch, 4)
			}
			select {
			case inOrder <- p:
			case <-s.quit:
				return false
			}
			select {
			case todo <- p:
				return true
			case <-s.quit:
				close(p.done)
				if p.batches != nil {
					close(p.batches)
				}
				return false
			}
		})
	}()
	for range s.opts.Workers {
		workers.Go(func() {
			var w worker
			for p := range todo {
				s.work(p, &w)
			}
		})
	}
	var err error
	for p := range inOrder {
		if e := s.collect(p); e != nil && err == nil {
			err, s.ended = e, true
			s.cancel()
		}
	}
	workers.Wait()
	if e := <-feedErr; err == nil {
		err = e
	}
	if err == nil {
		err = s.finishTail()
	}
	return err
}

func (s *scan) cancel() { s.once.Do(func() { close(s.quit) }) }

// worker is the memory that the pieces of one goroutine share.
type worker struct {
	rd      Reader
	members tracefile.Members
	whole   inflate.Decoder
	packed  []byte
}

// Members up to this size are inflated at once.
const (
	maxPiece = 1 << 20
	maxText  = 8 << 20
)

// member returns the text of a piece that is exactly one member of moderate
// size, until the next call.
func (w *worker) member(f *os.File, p *piece) ([]byte, bool) {
	if !p.Gzip || p.Size > maxPiece {
		return nil, false
	}
	w.packed = slices.Grow(w.packed[:0], int(p.Size))[:p.Size]
	if _, err := f.ReadAt(w.packed, p.Offset); err != nil {
		return nil, false
	}
	text, n, ok := w.whole.Member(w.packed, maxText)
	return text, ok && n == len(w.packed)
}

// work parses the whole lines of a piece.
func (s *scan) work(p *piece, w *worker) {
	defer close(p.done)
	if p.batches != nil {
		defer close(p.batches)
	}
	rd := &w.rd
	if text, ok := w.member(s.f, p); ok {
		rd.lines.ResetText(text, s.opts.Stop)
	} else {
		src, err := s.open(p, &w.members)
		if err != nil {
			p.stats.Torn, p.stats.Cause = true, err
			return
		}
		rd.lines.Reset(src, s.opts.Stop)
	}
	rd.stats, rd.unit = ReadStats{}, s.unit
	slow := rd.parser.Slow
	out := newBatch()
	var end error
	for {
		line, err := rd.lines.Next()
		if err != nil && !errors.Is(err, fsread.ErrLongLine) {
			end = err
			break
		}
		if !p.whole {
			p.whole = true
			p.first.add(line, err)
			continue
		}
		if err != nil {
			rd.stats.Lines++
			rd.bad(err)
			continue
		}
		ev := out.next()
		if !rd.take(line, ev) {
			continue
		}
		s.opts.Hashes.Note(ev)
		if p.batches == nil {
			if p.err = s.fn(ev); p.err != nil {
				s.cancel()
				break
			}
		} else if out.keep(ev); out.full() {
			if !s.send(p, out) {
				break
			}
			out = newBatch()
		}
		if rd.stats.Events%batchEvents == 0 && s.cancelled() {
			break
		}
	}
	if len(out.events) == 0 || !s.send(p, out) {
		out.free()
	}
	rest, long := rd.lines.Rest()
	p.tail.add(rest, long)
	p.Text = rd.lines.At() + int64(len(rest))
	p.stats = rd.stats
	p.stats.Slow = rd.parser.Slow - slow
	if end != nil {
		if err := p.stats.end(end); !errors.Is(err, io.EOF) {
			p.err = errors.Join(p.err, err)
		}
	}
}

func (s *scan) cancelled() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

func (s *scan) send(p *piece, b *batch) bool {
	select {
	case p.batches <- b:
		return true
	case <-s.quit:
		return false
	}
}

var batches = sync.Pool{New: func() any {
	return &batch{events: make([]Event, 0, batchEvents), args: make([]Arg, 0, batchArgs)}
}}

func newBatch() *batch { return batches.Get().(*batch) }

// free returns a batch for reuse.
func (b *batch) free() {
	clear(b.events)
	clear(b.args)
	b.events, b.args = b.events[:0], b.args[:0]
	batches.Put(b)
}

// next returns the event to parse into. Until keep is called, it is the same.
func (b *batch) next() *Event {
	ev := &b.events[:cap(b.events)][len(b.events)]
	ev.Args = b.args[len(b.args):]
	return ev
}

// keep adds the event of next to the batch.
func (b *batch) keep(ev *Event) {
	b.events = b.events[:len(b.events)+1]
	if n := len(ev.Args); n <= cap(b.args)-len(b.args) { // otherwise append has moved them
		b.args = b.args[:len(b.args)+n]
		ev.Args = ev.Args[:n:n]
	}
}

// full reports whether a batch has no room for another event with the usual
// number of arguments.
func (b *batch) full() bool {
	return len(b.events) == batchEvents || cap(b.args)-len(b.args) < argsRoom
}

// collect handles the pieces in file order: it joins the line that crosses two
// pieces, delivers ordered events and adds up line numbers.
func (s *scan) collect(p *piece) error {
	var failed error
	p.Across = len(s.tail.text) > 0 || s.tail.long
	lines := s.stats.Lines
	if p.batches != nil {
		// The first line comes before the batches, but is known only when the worker
		// has found a line feed. Receiving the first batch implies that.
		joined := false
		for b := range p.batches {
			if !joined {
				joined = true
				failed = s.joinFirst(p)
			}
			for i := range b.events {
				if failed == nil && !s.ended {
					failed = s.fn(&b.events[i])
				}
			}
			b.free()
			if failed != nil {
				s.ended = true
				s.cancel()
			}
		}
		<-p.done
		if !joined && failed == nil {
			failed = s.joinFirst(p)
		}
	} else {
		<-p.done
		failed = s.joinFirst(p)
	}
	s.add(p)
	if failed = cmp.Or(failed, p.err); failed == nil && !s.ended && s.opts.OnPiece != nil {
		p.Lines = int64(s.stats.Lines - lines)
		s.opts.OnPiece(&p.Piece)
	}
	return failed
}

// joinFirst parses the line made of the current tail and the first text of the
// piece.
func (s *scan) joinFirst(p *piece) error {
	if !p.whole || s.ended {
		return nil
	}
	s.tail.join(p.first)
	line := s.tail
	s.tail = part{text: line.text[:0]}
	return s.single(line, s.stats.Lines+1)
}

func (s *scan) single(line part, number int) error {
	s.join.opts = ReaderOptions{OnBad: s.opts.OnBad}
	s.join.stats = ReadStats{Lines: number - 1, Dialect: s.stats.Dialect}
	ok := false
	if line.long {
		s.join.stats.Lines++
		s.join.bad(fsread.ErrLongLine)
	} else {
		ok = s.join.take(line.text, &s.join.event)
	}
	st := &s.join.stats
	s.stats.Lines++
	s.stats.Bytes += st.Bytes
	s.stats.Bad += st.Bad
	for _, e := range st.First {
		s.stats.keep(e)
	}
	s.stats.Events += st.Events
	if !ok {
		return nil
	}
	s.stats.Dialect = st.Dialect
	s.opts.Hashes.Note(&s.join.event)
	return s.fn(&s.join.event)
}

// add counts the lines and events between the first and the last line feed of a
// piece.
func (s *scan) add(p *piece) {
	for _, e := range p.stats.First {
		e.Line += s.stats.Lines
		s.stats.keep(e)
		if s.opts.OnBad != nil {
			s.opts.OnBad(&e)
		}
	}
	s.stats.Lines += p.stats.Lines
	s.stats.Events += p.stats.Events
	s.stats.Bad += p.stats.Bad
	s.stats.Bytes += p.stats.Bytes
	s.stats.Slow += p.stats.Slow
	if p.Gzip {
		s.last = p.Offset
	}
	if p.stats.Torn {
		s.torn(p.Offset, p.stats.Cause)
		p.tail, s.tail = part{}, part{} // an incomplete line
	}
	if p.stats.Events > 0 {
		s.stats.Dialect = p.stats.Dialect
	}
	s.tail.join(p.tail)
}

func (s *scan) torn(at int64, cause error) {
	if !s.stats.Torn {
		s.stats.Torn, s.stats.DamagedAt, s.stats.Cause = true, at, cause
	}
}

// finishTail parses the text after the last line feed of the file.
func (s *scan) finishTail() error {
	line := tracefile.TrimLine(s.tail.text)
	if len(line) == 0 && !s.tail.long {
		return nil
	}
	if !s.tail.long && s.join.parser.Parse(line, &s.join.event) != nil {
		at := s.size - int64(len(s.tail.text))
		if s.last >= 0 {
			at = s.last
		}
		s.torn(at, nil)
		return nil
	}
	return s.single(s.tail, s.stats.Lines+1)
}

// pieces splits the file and emits its pieces until emit returns false.
func (s *scan) pieces(emit func(*piece) bool) error {
	var head [10]byte
	n, err := s.f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n < len(head) || !fsread.IsGzip(head[:]) {
		for off := int64(0); off < s.size; off += pieceSize {
			if !emit(&piece{Piece: Piece{Offset: off, Size: min(pieceSize, s.size-off)}}) {
				break
			}
		}
		return nil
	}
	find := tracefile.MemberFinder{R: s.f, Head: head, Size: s.size}
	off := int64(0)
	for off < s.size {
		next, err := find.Next(off + 1)
		if err != nil {
			return err
		}
		if !emit(&piece{Piece: Piece{Offset: off, Size: next - off, Gzip: true}}) {
			break
		}
		off = next
	}
	return nil
}

// open returns the text of a piece.
func (s *scan) open(p *piece, m *tracefile.Members) (io.Reader, error) {
	if !p.Gzip {
		return io.NewSectionReader(s.f, p.Offset, p.Size), nil
	}
	// The member is read to its own end, not to that of the piece, because the next
	// piece may begin with bytes that only look like a member.
	m.Start(s.f, p.Offset, s.size)
	m.Room = p.Size
	return m, m.Next()
}
