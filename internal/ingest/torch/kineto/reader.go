package kineto

import (
	"io"

	"github.com/trainspan/trainspan/internal/platform/fsread"
)

const (
	windowSize = 256 << 10
	// maxEvent bounds one event; a longer one is skipped as damaged.
	maxEvent = 4 << 20
	// maxMember bounds a top-level member that is kept, maxMembers all of them.
	maxMember  = 1 << 20
	maxMembers = 16 << 20
	// Damaged events are searched for whole ones, which means to read the same
	// bytes again. After searchLeast bytes, and searchRate bytes per byte of the
	// file, they are skipped.
	searchLeast, searchRate = 16 << 20, 8
)

type readState uint8

const (
	stateStart readState = iota
	stateMembers
	stateEvents
	stateDone
)

// Reader reads events from one decompressed trace. It is not safe for
// concurrent use.
type Reader struct {
	src       io.Reader
	buf       []byte
	pos, end  int
	base      int64 // offset of buf[0] in the stream
	eof       bool
	readErr   error
	state     readState
	arrayRoot bool
	sawEvents bool
	needComma bool
	searched  int64 // bytes of damaged events
	members   int   // bytes of the kept members
	err       error
	info      Info
}

// NewReader returns a reader of the decompressed JSON in src. Use Walk for
// files as PyTorch writes them.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, windowSize)}
}

// Info returns what is known so far; it is complete after io.EOF. The pointer
// stays valid and belongs to the reader.
func (r *Reader) Info() *Info {
	r.info.Bytes = r.base + int64(r.end)
	return &r.info
}

// fill moves the unread bytes to the front and reads more. It reports whether
// the window grew.
func (r *Reader) fill() bool {
	if r.eof {
		return false
	}
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.base += int64(r.pos)
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= maxEvent {
			return false
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	// A full window, so that an event that needs a larger window is parsed again
	// only after it has doubled.
	had := r.end
	for idle := 0; r.end < len(r.buf); {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.eof = true
			if err != io.EOF {
				r.readErr = err
			}
			break
		}
		if n > 0 {
			idle = 0
		} else if idle++; idle == 100 {
			r.eof, r.readErr = true, io.ErrNoProgress
			break
		}
	}
	return r.end > had
}

// peek skips blanks and returns the next byte without consuming it.
func (r *Reader) peek() (byte, bool) {
	for {
		r.pos = skipSpace(r.buf[:r.end], r.pos)
		if r.pos < r.end {
			return r.buf[r.pos], true
		}
		if !r.fill() {
			return 0, false
		}
	}
}

func (r *Reader) offset() int64 { return r.base + int64(r.pos) }

// early ends the reading at a premature end of the stream.
func (r *Reader) early() error {
	r.state = stateDone
	if r.readErr != nil && !fsread.Torn(r.readErr) {
		return r.readErr
	}
	r.info.Truncated = true
	r.info.TruncatedAt = r.base + int64(r.end)
	r.info.Cause = r.readErr
	return nil
}

func (r *Reader) defect(from, to int64, reason string) {
	if from != to {
		r.info.Skipped++
		r.info.SkippedBytes += to - from
	}
	if len(r.info.Defects) < maxDefects {
		r.info.Defects = append(r.info.Defects, Defect{Offset: from, End: to, Reason: reason})
	}
}

func (r *Reader) count(ev *Event) {
	in := &r.info
	in.Events++
	if ev.inexact {
		in.InexactTimes++
	}
	in.FractionalTimes = in.FractionalTimes || ev.fraction
	if !ev.HasTS || ev.Phase == 'M' {
		return
	}
	if !in.HasTS {
		in.MinTS, in.MaxTS, in.HasTS = ev.TS, ev.TS, true
	}
	in.MinTS = min(in.MinTS, ev.TS)
	in.MaxTS = max(in.MaxTS, ev.TS)
}
