package fsread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds the memory of a line of any file. The longest known lines are
// batches of OTLP spans that waited for their receiver: one line holds as much
// as a receiver accepts, and JSON is several times as long. Lines of traces
// have 16 KiB, merged ones sometimes more.
const MaxLine = 64 << 20

// ErrLongLine is returned for a line with more than MaxLine bytes.
var ErrLongLine = fmt.Errorf("line is longer than %d MiB", MaxLine>>20)

// MaxEmpty bounds successive empty lines. Writers of traces write at most one,
// and a compressed file of one MiB may have 10^9, which take minutes to read.
const MaxEmpty = 1 << 20

// ErrEmptyLines ends a text that has more than MaxEmpty empty lines in a row.
var ErrEmptyLines = fmt.Errorf("more than %d empty lines in a row, which no trace has; if you trust the file, remove them: grep . FILE, or zcat FILE | grep . | gzip", MaxEmpty)

// Lines splits text into lines without copying them. The zero value has none.
type Lines struct {
	r          io.Reader
	buf        []byte
	own        []byte // memory to read into, if buf is that of a caller
	start, end int    // the unread part of buf
	read       int64  // bytes read from r
	err        error
	begun      bool // the first line was returned
	skipping   bool // inside a line that is too long
	empty      int  // successive empty lines
	stop       func() error
}

// Reset starts reading lines from r and reuses the memory. stop, if not nil, is
// called before each read of r; its error ends the text.
func (l *Lines) Reset(r io.Reader, stop func() error) {
	*l = Lines{r: r, buf: l.own, own: l.own, stop: stop}
}

// ResetText starts reading the lines of a text that is in memory.
func (l *Lines) ResetText(text []byte, stop func() error) {
	*l = Lines{buf: text, own: l.own, end: len(text), read: int64(len(text)), err: io.EOF}
	if stop != nil {
		if err := stop(); err != nil {
			l.end, l.read, l.err = 0, 0, err
		}
	}
}

// Next returns a line without its line feed, and the first line also without a
// byte order mark. The line is valid until the next call. In place of a line that
// is too long, Next returns [ErrLongLine], and at the end of the text the reader's
// error; [Lines.Rest] returns the text after the last line feed.
func (l *Lines) Next() ([]byte, error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); i >= 0 {
			line := l.withoutMark(l.buf[l.start : l.start+scanned+i])
			l.start += scanned + i + 1
			l.begun = true
			if l.skipping {
				l.skipping = false
				return nil, ErrLongLine
			}
			if len(line) > 0 && line[0] > ' ' || len(bytes.TrimSpace(line)) > 0 {
				l.empty = 0
			} else if l.empty++; l.empty > MaxEmpty {
				l.start, l.end, l.err = 0, 0, ErrEmptyLines
				return nil, l.err
			}
			return line, nil
		}
		scanned = l.end - l.start
		if l.err != nil {
			return nil, l.err
		}
		if scanned >= MaxLine {
			l.skipping = true
		}
		if l.skipping {
			l.start, l.end, scanned = 0, 0, 0
		}
		l.fill()
	}
}

// Line is like [Lines.Next], but returns the text after the last line feed as a
// line too.
func (l *Lines) Line() ([]byte, error) {
	line, err := l.Next()
	if err == nil || errors.Is(err, ErrLongLine) {
		return line, err
	}
	rest, long := l.Rest()
	if l.start, l.skipping = l.end, false; len(rest) > 0 || long != nil {
		return rest, long
	}
	return nil, err
}

func (l *Lines) fill() {
	if l.stop != nil {
		if l.err = l.stop(); l.err != nil {
			return
		}
	}
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.end -= l.start
		l.start = 0
	}
	if l.end == len(l.buf) {
		bigger := make([]byte, max(64<<10, 2*len(l.buf)))
		copy(bigger, l.buf[:l.end])
		l.buf, l.own = bigger, bigger
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.read += int64(n)
		if err != nil {
			l.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// Rest returns the text after the last line feed that [Lines.Next] found, or
// [ErrLongLine].
func (l *Lines) Rest() ([]byte, error) {
	if l.skipping {
		return nil, ErrLongLine
	}
	return l.withoutMark(l.buf[l.start:l.end]), nil
}

// byteOrderMark begins texts of some editors and of Windows.
const byteOrderMark = "\xEF\xBB\xBF"

// withoutMark returns the first line without its byte order mark, and other lines as they are.
func (l *Lines) withoutMark(line []byte) []byte {
	if l.begun {
		return line
	}
	return bytes.TrimPrefix(line, []byte(byteOrderMark))
}

// At returns the offset of the next line in the text.
func (l *Lines) At() int64 { return l.read - int64(l.end-l.start) }
