package dftracer

import (
	"bytes"
	"errors"
	"io"
)

// maxLineRead bounds the memory a line may take. No producer writes lines of
// more than 16 KiB, but merged traces have been seen with longer ones.
const maxLineRead = 16 << 20

var errLongLine = errors.New("line is longer than 16 MiB")

// lineSource cuts text into lines without copying them.
type lineSource struct {
	r          io.Reader
	buf        []byte
	start, end int // unread part of buf
	err        error
	skipping   bool         // inside a line that is too long
	stop       func() error // nil is never; its error ends the text
}

// next returns a line without its line feed, valid until the next call.
// When the text ends it returns the reader's error; rest has what follows
// the last line feed.
func (s *lineSource) next() ([]byte, error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(s.buf[s.start+scanned:s.end], '\n'); i >= 0 {
			line := s.buf[s.start : s.start+scanned+i]
			s.start += scanned + i + 1
			if s.skipping {
				s.skipping = false
				return nil, errLongLine
			}
			return line, nil
		}
		scanned = s.end - s.start
		if s.err != nil {
			return nil, s.err
		}
		if s.end-s.start >= maxLineRead {
			s.skipping = true
			s.start, s.end, scanned = 0, 0, 0
		}
		s.fill()
	}
}

func (s *lineSource) fill() {
	if s.stop != nil {
		if s.err = s.stop(); s.err != nil {
			return
		}
	}
	if s.start > 0 {
		copy(s.buf, s.buf[s.start:s.end])
		s.end -= s.start
		s.start = 0
	}
	if s.end == len(s.buf) {
		bigger := make([]byte, max(256<<10, 2*len(s.buf)))
		copy(bigger, s.buf[:s.end])
		s.buf = bigger
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		if err != nil {
			s.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	s.err = io.ErrNoProgress
}

func (s *lineSource) rest() []byte { return s.buf[s.start:s.end] }
