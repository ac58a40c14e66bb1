package read

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"sync"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/infile"
)

// walker cuts a file into members and chunks.
type walker struct {
	src     *ui.Meter
	buf     *bufio.Reader
	emit    func(*chunk) error
	bar     *ui.Progress
	carry   []byte // a line that lies across chunks
	inLong  bool   // in a line that is too long
	long    int64  // such lines
	members []Member
	total   int64 // bytes of text
	across  bool  // a line lies across members
	cause   error // why the file is damaged

	damagedAt int64 // byte of the file
	lastLine  int64 // byte of the file where the last member or unfinished line begins
}

func (w *walker) run() error {
	w.buf = bufio.NewReaderSize(w.src, 64<<10)
	magic, _ := w.buf.Peek(2)
	if !infile.IsGzip(magic) {
		n, err := w.text(w.buf, -1)
		w.damagedAt = n - int64(len(w.carry))
		w.lastLine = w.damagedAt
		if err != nil {
			return w.damaged(err, -1)
		}
		return w.last(-1)
	}
	var z *gzip.Reader
	for at := 0; ; at++ {
		offset := w.at()
		w.damagedAt = offset
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
		w.lastLine = offset
		w.members = append(w.members, Member{Offset: offset, Size: w.at() - offset, Text: n})
		if err != nil {
			return w.damaged(err, at)
		}
		w.bar.Bytes(w.at())
	}
}

// at is how much of the file was taken.
func (w *walker) at() int64 { return w.src.N - int64(w.buf.Buffered()) }

// damaged ends the walk where the compression is broken.
func (w *walker) damaged(err error, at int) error {
	var path *os.PathError
	if errors.As(err, &path) || errors.Is(err, context.Canceled) {
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
			buf = make([]byte, min(2*len(w.carry), infile.MaxLine+chunkSize)) // a very long line
		}
		text := buf
		k := copy(text, w.carry)
		m, err := io.ReadFull(r, text[k:])
		n += int64(m)
		w.total += int64(m)
		text = w.skip(text[:k+m])
		cut := bytes.LastIndexByte(text, '\n') + 1
		kept := cut == 0 && len(text) == len(buf)
		if w.carry = text; !kept {
			w.carry = append([]byte(nil), text[cut:]...)
		}
		if len(w.carry) >= infile.MaxLine {
			w.carry, w.inLong = nil, true
			w.long++
		}
		if cut > 0 {
			if err := w.emit(&chunk{member: at, text: text[:cut], buf: buf}); err != nil {
				return n, err
			}
		}
		if cut == 0 && !kept {
			chunkBuffers.Put(&buf)
		}
		if at < 0 {
			w.bar.Bytes(w.at())
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
		}
	}
}

// skip returns what follows a line that is too long.
func (w *walker) skip(text []byte) []byte {
	if !w.inLong {
		return text
	}
	i := bytes.IndexByte(text, '\n')
	w.inLong = i < 0
	if i < 0 {
		i = len(text) - 1
	}
	return text[i+1:]
}

// last looks at what follows the last line feed.
func (w *walker) last(at int) error {
	line := bytes.TrimSpace(w.carry)
	if len(line) == 0 || string(line) == "]" {
		return nil
	}
	return w.emit(&chunk{member: at, text: w.carry, buf: make([]byte, chunkSize)})
}

// Member is one gzip member of a trace.
type Member struct {
	Offset   int64 `json:"offset"`   // in the file
	Size     int64 `json:"size"`     // compressed
	Text     int64 `json:"text"`     // decompressed
	Lines    int64 `json:"lines"`    // that end in it
	Events   int64 `json:"events"`   // spans among them
	Metadata int64 `json:"metadata"` // metadata records among them
	Start    int64 `json:"start_us,omitempty"`
	End      int64 `json:"end_us,omitempty"`
}

// chunk is text of whole lines on its way to a parser.
type chunk struct {
	member int
	text   []byte // of buf
	buf    []byte
	result chan *Tally // in order of the file
}

const chunkSize = 1 << 20

// chunkBuffers holds buffers for text: the members of a job that flushes often
// are much smaller than a chunk.
var chunkBuffers = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}
