package kineto

import (
	"bytes"
	"errors"
	"io"
)

// Next reads the next event into ev. It returns io.EOF after the last one, also
// if the file is truncated (see Info), a *RefusedError for a file of another
// kind, and the source's own error if reading fails. Later calls return the
// same error.
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
			if errors.Is(r.readErr, io.ErrUnexpectedEOF) {
				r.info.Cause = r.readErr
			}
			r.err = io.EOF
		}
	}
	return r.err
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
		return &RefusedError{What: "a JSON array whose items are not events"}
	}
	if bytes.Contains(r.buf[r.pos:min(r.end, r.pos+4096)], []byte(`"dynamo_timed"`)) {
		return &RefusedError{What: "a compile timeline of tlparse", Hint: "pass the TORCH_TRACE log that it was made from: dedicated_log_torch_trace_*.log"}
	}
	r.info.Root = RootArray
	r.arrayRoot, r.sawEvents = true, true
	r.state = stateEvents
	return nil
}

// event reads one event, or ends the array. It reports whether ev holds one.
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
		r.resync(1, "stray bytes between two events")
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
			r.resync(r.end-r.pos, "an event longer than 4 MiB")
			return false
		}
		r.resync(ev.scanned-r.pos, "not valid JSON (an unescaped quote or a stray byte)")
		return false
	}
}

// shortAtEnd handles an event that extends beyond the end: either the file was
// truncated there, or an unbalanced quote swallowed the rest and there are more
// events.
func (r *Reader) shortAtEnd() {
	if pos, found, _ := nextEvent(r.buf[:r.end], r.pos+r.search(r.end-r.pos)); found {
		r.defect(r.offset(), r.base+int64(pos), "an event is not terminated")
		r.pos = pos
		r.needComma = false
		return
	}
	r.defect(r.offset(), r.base+int64(r.end), "the file ends inside this event")
	r.pos = r.end
	r.err = r.early()
}

// search returns where the search for the next event begins after a damaged one
// that was read for n bytes: after its first byte or, if too much was searched
// already, after all of it.
func (r *Reader) search(n int) int {
	r.searched += int64(n)
	if r.searched <= searchLeast+searchRate*(r.base+int64(r.end)) {
		return 1
	}
	r.info.Unsearched++
	return max(n, 1)
}

// resync skips to the next event and notes what was skipped. n is how many
// bytes of the damaged event were read.
func (r *Reader) resync(n int, reason string) {
	from := r.offset()
	r.needComma = false
	i := r.pos + r.search(n)
	for {
		pos, found, keep := nextEvent(r.buf[:r.end], i)
		if found {
			r.pos = pos
			r.defect(from, r.offset(), reason)
			return
		}
		r.pos = min(max(keep, r.pos), r.end)
		if !r.fill() {
			if !r.eof { // more blanks after a brace than the window has
				r.pos = r.end
				i = r.pos
				continue
			}
			// The last event was the damaged one: the text after the array is lost with it.
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
