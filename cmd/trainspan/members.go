package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/dftracer"
)

// member is one gzip member of a trace.
type member struct {
	Offset int64 `json:"offset"` // in the file
	Size   int64 `json:"size"`   // compressed
	Text   int64 `json:"text"`   // decompressed
	Lines  int64 `json:"lines"`  // that end in it
	Events int64 `json:"events"` // spans among them
	Facts  int64 `json:"facts"`  // metadata records among them
	Start  int64 `json:"start_us,omitempty"`
	End    int64 `json:"end_us,omitempty"`
}

// chunk is text of whole lines on its way to a parser.
type chunk struct {
	member int
	text   []byte // of buf
	buf    []byte
	result chan *tally // in order of the file
}

const chunkSize = 1 << 20

// chunkBuffers holds buffers for text: the members of a job that flushes often
// are much smaller than a chunk.
var chunkBuffers = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// walk decompresses a file once, member by member, and has its lines parsed by
// several goroutines. It returns what it found, and the gzip members.
func walk(ctx context.Context, path string, bar *progress) (*tally, []member, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	todo := make(chan *chunk)
	order := make(chan *chunk, 2*runtime.GOMAXPROCS(0))
	var workers, collector sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c := range todo {
				c.result <- parseChunk(c.text)
				chunkBuffers.Put(&c.buf)
			}
		})
	}
	total := newTally()
	var parts []member // what is counted by the lines
	collector.Go(func() {
		for c := range order {
			t := <-c.result
			total.merge(t)
			parts = countPart(parts, c.member, t)
		}
	})
	w := &walker{src: &meter{r: f}, emit: func(c *chunk) error {
		if ctx.Err() != nil {
			return usage("%s: interrupted", path)
		}
		c.result = make(chan *tally, 1)
		order <- c
		todo <- c
		return nil
	}, bar: bar}
	err = w.run()
	close(todo)
	close(order)
	workers.Wait()
	collector.Wait()
	if err != nil {
		return nil, nil, err
	}
	total.Text, total.aligned = w.total, !w.across
	if w.cause != nil {
		total.torn(w.cause)
	}
	for i := range w.members {
		if m := &w.members[i]; i < len(parts) {
			m.Lines, m.Events, m.Facts, m.Start, m.End = parts[i].Lines, parts[i].Events, parts[i].Facts, parts[i].Start, parts[i].End
		}
	}
	return total, w.members, nil
}

// countPart adds the lines of a chunk to those of its member.
func countPart(parts []member, at int, t *tally) []member {
	if at < 0 {
		return parts
	}
	for len(parts) <= at {
		parts = append(parts, member{})
	}
	m := &parts[at]
	m.Lines += t.Lines
	if t.Events > 0 {
		if m.Events == 0 || t.Start < m.Start {
			m.Start = t.Start
		}
		m.End = max(m.End, t.End)
	}
	m.Events += t.Events
	m.Facts += t.Metadata
	return parts
}

// walker cuts a file into members and chunks.
type walker struct {
	src     *meter
	buf     *bufio.Reader
	emit    func(*chunk) error
	bar     *progress
	carry   []byte // a line that lies across chunks
	members []member
	total   int64 // bytes of text
	across  bool  // a line lies across members
	cause   error // why the file is damaged
}

func (w *walker) run() error {
	w.buf = bufio.NewReaderSize(w.src, 64<<10)
	magic, _ := w.buf.Peek(2)
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if _, err := w.text(w.buf, -1); err != nil {
			return err
		}
		return w.last(-1)
	}
	var z *gzip.Reader
	for at := 0; ; at++ {
		offset := w.at()
		if _, err := w.buf.Peek(1); errors.Is(err, io.EOF) {
			return w.last(at - 1)
		}
		var err error
		if z == nil {
			z, err = gzip.NewReader(w.buf)
		} else {
			err = z.Reset(w.buf)
		}
		if err != nil {
			return w.damaged(err, at-1)
		}
		z.Multistream(false)
		w.across = w.across || len(w.carry) > 0
		n, err := w.text(z, at)
		w.members = append(w.members, member{Offset: offset, Size: w.at() - offset, Text: n})
		if err != nil {
			return w.damaged(err, at)
		}
		w.bar.bytes(w.at())
	}
}

// at is how much of the file was taken.
func (w *walker) at() int64 { return w.src.n - int64(w.buf.Buffered()) }

// damaged ends the walk where the compression is broken.
func (w *walker) damaged(err error, at int) error {
	var path *os.PathError
	var stopped *statusError
	if errors.As(err, &path) || errors.As(err, &stopped) {
		return err
	}
	w.cause = err
	return w.last(at)
}

// text sends the lines of one member.
func (w *walker) text(r io.Reader, at int) (n int64, err error) {
	for {
		buf := *chunkBuffers.Get().(*[]byte)
		if len(buf) < 2*len(w.carry) {
			buf = make([]byte, 2*len(w.carry)) // a very long line
		}
		text := buf
		k := copy(text, w.carry)
		m, err := io.ReadFull(r, text[k:])
		n += int64(m)
		w.total += int64(m)
		text = text[:k+m]
		cut := bytes.LastIndexByte(text, '\n') + 1
		w.carry = append([]byte(nil), text[cut:]...)
		if cut > 0 {
			if err := w.emit(&chunk{member: at, text: text[:cut], buf: buf}); err != nil {
				return n, err
			}
		}
		if cut == 0 {
			chunkBuffers.Put(&buf)
		}
		if at < 0 {
			w.bar.bytes(w.at())
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				return n, io.ErrUnexpectedEOF // of the compression, not of our buffer
			}
			return n, nil
		case err != nil:
			return n, err
		case len(w.carry) > 64<<20:
			return n, errors.New("not a trace: a line is longer than 64 MiB")
		}
	}
}

// last looks at what follows the last line feed.
func (w *walker) last(at int) error {
	line := bytes.TrimSpace(w.carry)
	if len(line) == 0 || string(line) == "]" {
		return nil
	}
	return w.emit(&chunk{member: at, text: w.carry, buf: make([]byte, chunkSize)})
}

// parseChunk folds the records of some lines.
func parseChunk(text []byte) *tally {
	t := newTally()
	t.Lines = int64(bytes.Count(text, []byte("\n")))
	r, err := dftracer.NewReader(bytes.NewReader(text), &dftracer.ReaderOptions{NoHashes: true})
	if err != nil {
		t.torn(err)
		return t
	}
	for ev, err := range r.All() {
		if err != nil {
			t.torn(err)
			break
		}
		t.add(ev)
	}
	st := r.Stats()
	t.Bad = int64(st.Bad)
	t.dialect = st.Dialect
	if st.Torn {
		t.torn(st.Cause)
	}
	if len(st.First) > 0 {
		t.firstBad = st.First[0].Error()
	}
	return t
}
