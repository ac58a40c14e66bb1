package kineto

import (
	"bytes"
	"math"
)

// scanEvent parses the object at b[i] into ev; the slices in ev point into b.
// For a damaged object, ev has how far it was read.
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
				return ev.bad(i)
			}
			if i = skipSpace(b, i+1); i >= len(b) {
				return scanShort
			}
		}
		if b[i] != '"' {
			return ev.bad(i)
		}
		k := i + 1
		i = skipString(b, i)
		if i < 0 {
			return i
		}
		key := b[k : i-1]
		if i+2 < len(b) && b[i] == ':' && b[i+1] == ' ' && b[i+2] > ' ' {
			i += 2 // as the profiler writes it
		} else {
			if i = skipSpace(b, i); i >= len(b) {
				return scanShort
			}
			if b[i] != ':' {
				return ev.bad(i)
			}
			if i = skipSpace(b, i+1); i >= len(b) {
				return scanShort
			}
		}
		if n := ev.setNumber(key, b, i); n > 0 {
			i = n
			continue
		}
		v := i
		if i = skipValue(b, i); i < 0 {
			ev.scanned = v
			return i
		}
		if !ev.set(key, b[v:i]) {
			return ev.bad(i)
		}
	}
}

func (ev *Event) bad(i int) int {
	ev.scanned = i
	return scanBad
}

// setNumber stores a plain number of the columns that every event has and
// returns the index after it, or 0 for other values, which set handles.
func (ev *Event) setNumber(key, b []byte, i int) int {
	if b[i]-'0' > 9 || len(key) < 2 || len(key) > 3 {
		return 0
	}
	v, n := uint64(0), i
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		v = v*10 + uint64(b[n]-'0')
	}
	if n-i > 16 || n+4 >= len(b) {
		return 0
	}
	switch string(key) {
	case "pid":
		if endsNumber(b[n]) {
			ev.PID = ID{Num: int64(v), IsNum: true, Text: b[i:n]}
			return n
		}
	case "tid":
		if endsNumber(b[n]) {
			ev.TID = ID{Num: int64(v), IsNum: true, Text: b[i:n]}
			return n
		}
	case "ts", "dur":
		v *= 1000
		fraction := b[n] == '.'
		if fraction {
			// Three decimals, as every version writes them.
			d := b[n+1 : n+4]
			if d[0]-'0' > 9 || d[1]-'0' > 9 || d[2]-'0' > 9 {
				return 0
			}
			v += uint64(d[0]-'0')*100 + uint64(d[1]-'0')*10 + uint64(d[2]-'0')
			n += 4
		}
		if v >= math.MaxInt64 || n == len(b) || !endsNumber(b[n]) {
			return 0
		}
		if len(key) == 3 {
			ev.Dur = int64(v)
		} else {
			ev.TS, ev.HasTS = int64(v), true
			ev.fraction = ev.fraction || fraction
		}
		return n
	}
	return 0
}

// set stores one member of an event; it returns false if the value is of the
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

// nextEvent returns the first byte at or after i that opens an event: a brace
// whose first key is one that the exporters write first. keepFrom is how much
// of the window has to be kept if nothing was found.
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

// followsEvent reports whether the brace at b[i] is after a comma or an opening
// bracket, as for an event.
func followsEvent(b []byte, i int) bool {
	for i--; i >= 0 && isSpace(b[i]); i-- {
	}
	return i >= 0 && (b[i] == ',' || b[i] == '[')
}
