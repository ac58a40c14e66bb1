package kineto

import "bytes"

// The scan functions work on a window of the file. Each returns the index
// after what it read; an index of scanShort means that the window ended first
// and the caller has to fetch more bytes and start over, scanBad that the
// bytes cannot be JSON of this shape.
const (
	scanShort = -1
	scanBad   = -2
)

// byteClass marks the bytes at which skipping a container has to look.
var byteClass = func() (t [256]uint8) {
	t['"'] = 1
	t['{'], t['['] = 2, 2
	t['}'], t[']'] = 3, 3
	return t
}()

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index after the string whose opening quote is b[i].
func skipString(b []byte, i int) int {
	i++
	for {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return scanShort
		}
		j += i
		if b[j-1] != '\\' {
			return j + 1
		}
		n := 0
		for k := j - 1; k >= i && b[k] == '\\'; k-- {
			n++
		}
		if n%2 == 0 {
			return j + 1
		}
		i = j + 1
	}
}

// skipValue returns the index after the value that starts at b[i]. Bare words
// such as N/A and NaN count as values; containers are matched by depth only.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return scanShort
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	case ',', '}', ']', ':':
		return scanBad
	}
	start := i
	for i < len(b) {
		switch c := b[i]; c {
		case ',', '}', ']', '\n', '\r', '\t', ' ':
			if i == start {
				return scanBad
			}
			return i
		case '"', '{', '[', ':':
			return scanBad
		}
		i++
	}
	return scanShort
}

func skipContainer(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch byteClass[b[i]] {
		case 0:
			i++
		case 1:
			// Most strings here are short keys: a plain loop beats a call.
			j := i + 1
			for j < len(b) && b[j] != '"' && b[j] != '\\' && j-i < 24 {
				j++
			}
			if j < len(b) && b[j] == '"' {
				i = j + 1
				continue
			}
			if i = skipString(b, i); i < 0 {
				return i
			}
		case 2:
			depth++
			i++
		case 3:
			depth--
			i++
			if depth == 0 {
				return i
			}
		}
	}
	return scanShort
}

// scanEvent parses the object at b[i] into ev; the slices in ev point into b.
func scanEvent(b []byte, i int, ev *Event) int {
	i++
	for first := true; ; first = false {
		i = skipSpace(b, i)
		if i >= len(b) {
			return scanShort
		}
		if b[i] == '}' {
			return i + 1
		}
		if !first {
			if b[i] != ',' {
				return scanBad
			}
			if i = skipSpace(b, i+1); i >= len(b) {
				return scanShort
			}
		}
		if b[i] != '"' {
			return scanBad
		}
		k := i + 1
		i = skipString(b, i)
		if i < 0 {
			return i
		}
		key := b[k : i-1]
		if i = skipSpace(b, i); i >= len(b) {
			return scanShort
		}
		if b[i] != ':' {
			return scanBad
		}
		if i = skipSpace(b, i+1); i >= len(b) {
			return scanShort
		}
		v := i
		if i = skipValue(b, i); i < 0 {
			return i
		}
		if !ev.set(key, b[v:i]) {
			return scanBad
		}
	}
}

// set stores one member of an event; false means that the value is of the
// wrong kind.
func (ev *Event) set(key, val []byte) bool {
	switch string(key) {
	case "ph":
		if len(val) == 3 && val[0] == '"' {
			ev.Phase = val[1]
			return true
		}
		return false
	case "cat":
		ev.Cat = unquote(val)
	case "name":
		ev.rawName = unquote(val)
	case "pid":
		ev.PID = makeID(val)
	case "tid":
		ev.TID = makeID(val)
	case "ts":
		ns, inexact, ok := parseNanos(val)
		if !ok {
			return false
		}
		ev.TS, ev.HasTS = ns, true
		ev.inexact = ev.inexact || inexact
		ev.fraction = ev.fraction || bytes.IndexByte(val, '.') >= 0
	case "dur":
		ns, inexact, ok := parseNanos(val)
		if !ok {
			return false
		}
		ev.Dur = ns
		ev.inexact = ev.inexact || inexact
	case "id":
		ev.Flow = unquote(val)
	case "args":
		if val[0] == '{' {
			ev.Args = Args(val)
		}
	}
	return true
}

func unquote(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// nextEvent finds the first byte at or after i that opens an event: a brace
// whose first key is one that the exporters write first. tail is how much of
// the window has to be kept when nothing was found.
func nextEvent(b []byte, i int) (pos int, found bool, keepFrom int) {
	for i < len(b) {
		j := bytes.IndexByte(b[i:], '{')
		if j < 0 {
			return 0, false, len(b)
		}
		i += j
		k := skipSpace(b, i+1)
		if len(b)-k < 8 {
			return 0, false, i
		}
		rest := b[k:]
		if bytes.HasPrefix(rest, []byte(`"ph"`)) || bytes.HasPrefix(rest, []byte(`"name":`)) && followsEvent(b, i) {
			return i, true, i
		}
		i++
	}
	return 0, false, len(b)
}

// followsEvent reports whether the brace at b[i] stands after a comma or an
// opening bracket, as an event does.
func followsEvent(b []byte, i int) bool {
	for i--; i >= 0 && isSpace(b[i]); i-- {
	}
	return i >= 0 && (b[i] == ',' || b[i] == '[')
}
