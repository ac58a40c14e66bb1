package fsread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine bounds the memory that a line of any file may take. The longest lines
// that are known are batches of OTLP spans that waited for their receiver: one
// line for as much as a receiver takes, which is written some times as long in
// JSON. Lines of traces have 16 KiB, merged ones have been seen with more.
const MaxLine = 64 << 20

// ErrLongLine is returned for a line that has more than MaxLine bytes.
var ErrLongLine = fmt.Errorf("line is longer than %d MiB", MaxLine>>20)

// MaxEmpty bounds the empty lines that follow each other. No writer of traces writes two,
// and a compressed file of one MiB may have 10^9, which take minutes to read.
const MaxEmpty = 1 << 20

// ErrEmptyLines ends a text that has more than MaxEmpty empty lines in a row.
var ErrEmptyLines = fmt.Errorf("more than %d empty lines in a row, which no trace has; if you trust the file, remove them: grep . FILE, or zcat FILE | grep . | gzip", MaxEmpty)

// Lines cuts text into lines without copying them. The zero value has none.
type Lines struct {
	r          io.Reader
	buf        []byte
	start, end int   // unread part of buf
	read       int64 // bytes of r
	err        error
	skipping   bool // inside a line that is too long
	empty      int  // lines that came last
	stop       func() error
}

// Reset begins to read lines from r, with the memory of what was read before.
// Stop, when not nil, is asked before each reading of r; its error ends the text.
func (l *Lines) Reset(r io.Reader, stop func() error) {
	*l = Lines{r: r, buf: l.buf, stop: stop}
}

// Next returns a line without its line feed, valid until the next call, or
// [ErrLongLine] in the place of one that was skipped. When the text ends it
// returns the reader's error; [Lines.Rest] has what follows the last line feed.
func (l *Lines) Next() ([]byte, error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+scanned+i]
			l.start += scanned + i + 1
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

// Line is [Lines.Next] which takes what follows the last line feed for a line.
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
		l.buf = bigger
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

// Rest returns what follows the last line feed that [Lines.Next] has met, or
// [ErrLongLine].
func (l *Lines) Rest() ([]byte, error) {
	if l.skipping {
		return nil, ErrLongLine
	}
	return l.buf[l.start:l.end], nil
}

// At returns how many bytes of the text come before what is read next.
func (l *Lines) At() int64 { return l.read - int64(l.end-l.start) }
