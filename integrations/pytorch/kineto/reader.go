package kineto

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

const (
	windowSize = 256 << 10
	// maxEvent bounds one event; what is longer is skipped as damaged.
	maxEvent = 4 << 20
	// maxMember bounds a top-level member that is kept.
	maxMember = 1 << 20
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
	err       error
	info      Info
}

// NewReader returns a reader of the decompressed JSON in src. Use Walk for
// files as PyTorch leaves them.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, windowSize)}
}

// Info returns what is known so far; it is complete after io.EOF. The pointer
// stays valid and is owned by the reader.
func (r *Reader) Info() *Info {
	r.info.Bytes = r.base + int64(r.end)
	return &r.info
}

// Next reads the next event into ev. It returns io.EOF after the last one,
// also when the file ends early (Info says so), a *RefusedError for a file of
// another kind, and the source's own error when reading fails. The error stays.
func (r *Reader) Next(ev *Event) error {
	for r.err == nil {
		switch r.state {
		case stateStart:
			r.err = r.start()
		case stateMembers:
			r.err = r.member()
		case stateEvents:
			if r.event(ev) {
				return nil
			}
		case stateDone:
			r.err = io.EOF
		}
	}
	return r.err
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
	// A full window, so that an event which needs the window to grow is looked
	// at again only when the window has doubled.
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

// peek skips blanks and returns the next byte without taking it.
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
	if r.readErr != nil && !damaged(r.readErr) {
		return r.readErr
	}
	r.info.Truncated = true
	r.info.TruncatedAt = r.base + int64(r.end)
	r.info.Cause = r.readErr
	return nil
}

// damaged reports whether a read error means a cut or corrupt archive rather
// than a failing disk.
func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}

func (r *Reader) start() error {
	for r.end-r.pos < 16 && r.fill() {
	}
	b := r.buf[r.pos:r.end]
	if what := foreignMagic(b); what != nil {
		return what
	}
	if bytes.HasPrefix(b, []byte("\xEF\xBB\xBF")) {
		r.pos += 3
	}
	c, ok := r.peek()
	switch {
	case !ok:
		if r.readErr != nil {
			return r.early()
		}
		return &RefusedError{What: "an empty file", Hint: "the profiler may not have finished writing it"}
	case c == '{':
		r.info.Root = RootObject
		r.pos++
		r.state = stateMembers
		return nil
	case c == '[':
		r.pos++
		return r.startArray()
	}
	return &RefusedError{What: "no JSON object or array at the start"}
}

func (r *Reader) startArray() error {
	c, ok := r.peek()
	if ok && c == '[' {
		return &RefusedError{What: "a memory timeline (rows of [time, action, bytes, category])", Hint: "export the profiler trace with export_chrome_trace"}
	}
	if ok && c != '{' && c != ']' {
		return &RefusedError{What: "a JSON array of other things than events"}
	}
	r.info.Root = RootArray
	r.arrayRoot, r.sawEvents = true, true
	r.state = stateEvents
	return nil
}

// member reads one top-level member, or enters the events.
func (r *Reader) member() error {
	c, ok := r.peek()
	if !ok {
		return r.early()
	}
	switch c {
	case ',':
		r.pos++
		return nil
	case '}':
		r.pos++
		r.state = stateDone
		if !r.sawEvents {
			return r.refuseObject()
		}
		return nil
	case '"':
	default:
		return r.damagedMember("no member name where one is due")
	}
	key, ok := r.take(func(b []byte, i int) int { return skipString(b, i) })
	if !ok {
		return r.early()
	}
	name := UnquoteText(key)
	if c, ok = r.peek(); !ok {
		return r.early()
	}
	if c != ':' {
		return r.damagedMember("no colon after a member name")
	}
	r.pos++
	if c, ok = r.peek(); !ok {
		return r.early()
	}
	if name == "traceEvents" && c == '[' {
		r.pos++
		r.sawEvents, r.needComma = true, false
		r.state = stateEvents
		return nil
	}
	if name == "nodes" && !r.sawEvents && c == '[' {
		return &RefusedError{What: "a PyTorch execution trace (schema, nodes), which holds no times", Hint: "export the profiler trace with export_chrome_trace"}
	}
	raw, complete := r.value()
	if !complete {
		return r.damagedMember("a value that is not JSON")
	}
	r.keepMember(name, raw)
	return nil
}

// take reads one token with scan, growing the window as needed.
func (r *Reader) take(scan func(b []byte, i int) int) ([]byte, bool) {
	for {
		n := scan(r.buf[:r.end], r.pos)
		if n >= 0 {
			tok := r.buf[r.pos:n]
			r.pos = n
			return tok, true
		}
		if n == scanBad || !r.fill() {
			return nil, false
		}
	}
}

// value reads one top-level value. One longer than maxMember is passed over
// without being held; raw is nil then.
func (r *Reader) value() (raw []byte, complete bool) {
	for {
		n := skipValue(r.buf[:r.end], r.pos)
		if !r.sawEvents && bytes.Contains(r.buf[r.pos:max(n, r.pos)], eventsKey) {
			return nil, false // an unescaped quote made the value run into the events
		}
		if n == scanShort && !r.sawEvents && bytes.Contains(r.buf[r.pos:r.end], eventsKey) {
			return nil, false
		}
		if n >= 0 {
			raw = append(raw, r.buf[r.pos:n]...)
			r.pos = n
			return raw, true
		}
		if n == scanBad {
			return nil, false
		}
		if r.end-r.pos > maxMember {
			return nil, r.passOver()
		}
		if !r.fill() {
			return nil, false
		}
	}
}

// passOver skips a long container or string with no more than the window.
func (r *Reader) passOver() bool {
	depth, inString, escaped := 0, false, false
	for {
		for ; r.pos < r.end; r.pos++ {
			c := r.buf[r.pos]
			switch {
			case escaped:
				escaped = false
			case inString:
				escaped = c == '\\'
				inString = c != '"'
			case c == '"':
				inString = true
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			if depth == 0 && !inString && !escaped {
				r.pos++
				return true
			}
		}
		if !r.fill() {
			return false
		}
	}
}

func (r *Reader) keepMember(name string, raw []byte) {
	switch name {
	case "baseTimeNanoseconds":
		if n, ok := parseInt(raw); ok && n >= 0 {
			r.info.Base, r.info.HasBase = n, true
			r.info.BaseAfterEvents = r.sawEvents
		}
	}
	if len(r.info.Top) < 1000 {
		r.info.Top = append(r.info.Top, TopMember{Key: name, Raw: raw})
	}
}

var eventsKey = []byte(`"traceEvents"`)

// damagedMember gives up on the members before the events and looks for the
// events themselves, or ends the reading after them.
func (r *Reader) damagedMember(reason string) error {
	from := r.offset()
	if r.sawEvents {
		return r.damagedTail(from, reason)
	}
	mark := eventsKey
	for {
		if j := bytes.Index(r.buf[r.pos:r.end], mark); j >= 0 {
			r.pos += j
			r.defect(from, r.offset(), reason)
			return nil
		}
		if keep := r.end - len(mark); keep > r.pos {
			r.pos = keep
		}
		if !r.fill() {
			if from == 1 || r.info.Top == nil {
				return &RefusedError{What: "no JSON of a profiler trace"}
			}
			r.defect(from, r.base+int64(r.end), reason)
			return r.early()
		}
	}
}

var baseKey = []byte(`"baseTimeNanoseconds":`)

// damagedTail reads what is left behind the events for the one member that
// matters there, the time base.
func (r *Reader) damagedTail(from int64, reason string) error {
	last := byte(0)
	for {
		window := r.buf[r.pos:r.end]
		if j := bytes.Index(window, baseKey); j >= 0 && !r.info.HasBase {
			v := skipSpace(window, j+len(baseKey))
			n := v
			for n < len(window) && window[n]-'0' <= 9 {
				n++
			}
			if base, ok := parseInt(window[v:n]); ok && n < len(window) {
				r.info.Base, r.info.HasBase, r.info.BaseAfterEvents = base, true, true
			}
		}
		if t := bytes.TrimRight(window, " \t\r\n"); len(t) > 0 {
			last = t[len(t)-1]
		}
		// Keep enough for a key that lies across two windows.
		r.pos = max(r.pos, r.end-64)
		if !r.fill() {
			break
		}
	}
	r.pos = r.end
	r.defect(from, r.base+int64(r.end), reason+" after the events")
	if last != '}' || r.readErr != nil {
		return r.early()
	}
	r.state = stateDone
	return nil
}

func (r *Reader) refuseObject() error {
	if _, ok := r.info.Member("schema"); ok {
		return &RefusedError{What: "a PyTorch execution trace (schema), which holds no times", Hint: "export the profiler trace with export_chrome_trace"}
	}
	return &RefusedError{What: "a JSON object without traceEvents"}
}

// event reads one event, or leaves the array. It reports whether ev holds one.
func (r *Reader) event(ev *Event) bool {
	c, ok := r.peek()
	if !ok {
		r.err = r.early()
		return false
	}
	switch {
	case c == ',':
		r.pos++
		r.needComma = false
		return false
	case c == ']':
		r.pos++
		r.state = stateMembers
		if r.arrayRoot {
			r.state = stateDone
		}
		return false
	case c != '{':
		r.resync("bytes between two events")
		return false
	}
	if r.needComma {
		r.defect(r.offset(), r.offset(), "no comma between two events")
	}
	for {
		ev.reset(r.offset())
		n := scanEvent(r.buf[:r.end], r.pos, ev)
		switch {
		case n >= 0:
			r.pos = n
			r.needComma = true
			r.count(ev)
			return true
		case n == scanShort:
			if r.fill() {
				continue
			}
			if r.eof {
				r.shortAtEnd()
				return false
			}
			r.resync("an event longer than 4 MiB")
			return false
		}
		r.resync("not valid JSON (an unescaped quote or a stray byte)")
		return false
	}
}

// shortAtEnd handles an event that runs past the end: either the file was cut
// there, or an unbalanced quote swallowed the rest and there are events left.
func (r *Reader) shortAtEnd() {
	if pos, found, _ := nextEvent(r.buf[:r.end], r.pos+1); found {
		r.defect(r.offset(), r.base+int64(pos), "an event that does not end")
		r.pos = pos
		r.needComma = false
		return
	}
	r.defect(r.offset(), r.base+int64(r.end), "the file ends inside this event")
	r.pos = r.end
	r.err = r.early()
}

// resync skips to the next event and notes what was passed.
func (r *Reader) resync(reason string) {
	from := r.offset()
	r.needComma = false
	i := r.pos + 1
	for {
		pos, found, keep := nextEvent(r.buf[:r.end], i)
		if found {
			r.pos = pos
			r.defect(from, r.offset(), reason)
			return
		}
		r.pos = min(max(keep, r.pos), r.end)
		if !r.fill() {
			// The last event was the damaged one: what follows the array is
			// lost with it.
			r.pos = r.end
			r.defect(from, r.offset(), reason)
			r.state = stateDone
			if r.readErr != nil {
				r.err = r.early()
			}
			return
		}
		i = r.pos
	}
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
