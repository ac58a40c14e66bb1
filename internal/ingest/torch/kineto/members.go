package kineto

import "bytes"

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
		return r.damagedMember("a member name is missing")
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
		return &RefusedError{What: "a PyTorch execution trace (schema, nodes), which has no times", Hint: "export the profiler trace with export_chrome_trace"}
	}
	raw, complete := r.value()
	if !complete {
		return r.damagedMember("a value is not valid JSON")
	}
	r.keepMember(name, raw)
	return nil
}

// take reads one token with scan, and grows the window as needed.
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

// value reads one top-level value. One longer than maxMember is skipped; raw is
// nil then.
func (r *Reader) value() (raw []byte, complete bool) {
	for {
		n := skipValue(r.buf[:r.end], r.pos)
		if !r.sawEvents && bytes.Contains(r.buf[r.pos:max(n, r.pos)], eventsKey) {
			return nil, false // an unescaped quote made the value extend into the events
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

// passOver skips a long container or string without growing the window.
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
	if r.members += len(raw); r.members > maxMembers {
		raw = nil
	}
	if len(r.info.Top) < 1000 {
		r.info.Top = append(r.info.Top, TopMember{Key: name, Raw: raw})
	}
}

var eventsKey = []byte(`"traceEvents"`)

// damagedMember gives up on the members before the events and looks for the
// events, or ends the reading after them.
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
				return &RefusedError{What: "invalid JSON, and no traceEvents"}
			}
			r.defect(from, r.base+int64(r.end), reason)
			return r.early()
		}
	}
}

var baseKey = []byte(`"baseTimeNanoseconds":`)

// damagedTail reads the rest after the events for the only member that matters
// there, the time base.
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
		// Keep enough for a key that crosses two windows.
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
		return &RefusedError{What: "a PyTorch execution trace (schema), which has no times", Hint: "export the profiler trace with export_chrome_trace"}
	}
	return &RefusedError{What: "a JSON object without traceEvents"}
}
