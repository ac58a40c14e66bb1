package dftracer

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

var (
	errNoPhase   = errors.New("record has no ph")
	errBadPhase  = errors.New("unknown ph")
	errNotObject = errors.New("not a JSON object")
)

// parser turns lines into events. The common form, compact and with plain
// values, takes one pass over the bytes; everything else that is valid JSON
// goes through encoding/json.
type parser struct {
	intern  interner
	scratch []byte
	slow    int  // lines that took the general way
	seen    keys // of the line that was parsed last; set by the fast way only
}

// keys says which members a record has.
type keys uint16

const (
	hasID keys = 1 << iota
	hasName
	hasCat
	hasPID
	hasTID
	hasTS
	hasDur
	hasArgs // with something in them
	hasHost
)

// parse fills ev from one line without its line feed. Args reuse ev's memory.
func (p *parser) parse(line []byte, ev *Event) error {
	args := ev.Args[:0]
	*ev = Event{Parent: NoParent, Args: args}
	if p.fast(line, ev) {
		if ev.Phase == PhaseUnknown {
			return errNoPhase
		}
		return nil
	}
	p.slow++
	*ev = Event{Parent: NoParent, Args: args}
	return p.general(line, ev)
}

// fast reports whether it understood the line. A line it takes is valid JSON.
func (p *parser) fast(b []byte, ev *Event) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	i := 1
	p.seen = 0
	for {
		key, next := plainString(b, i)
		if next < 0 || next >= len(b) || b[next] != ':' {
			return false
		}
		i = next + 1
		ok := false
		switch string(key) {
		case "id":
			p.seen |= hasID
			ev.ID, i, ok = digits(b, i)
		case "name":
			p.seen |= hasName
			ev.Name, i, ok = p.str(b, i)
		case "cat":
			p.seen |= hasCat
			ev.Cat, i, ok = p.str(b, i)
		case "pid":
			p.seen |= hasPID
			ev.PID, i, ok = posInt(b, i)
		case "tid":
			p.seen |= hasTID
			ev.TID, i, ok = posInt(b, i)
		case "ts":
			p.seen |= hasTS
			ev.TS, i, ok = posInt(b, i)
		case "dur":
			p.seen |= hasDur
			ev.Dur, i, ok = posInt(b, i)
		case "ph":
			ev.Phase, i, ok = phaseAt(b, i)
		case "type":
			var t uint64
			t, i, ok = digits(b, i)
			if ok = ok && t <= math.MaxUint8; ok {
				ev.Type = Type(t)
			}
		case "args":
			i, ok = p.fastArgs(b, i, ev)
		default:
			var a Arg
			i, ok = p.value(b, i, &a)
		}
		if !ok || i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i == len(b)-1
		default:
			return false
		}
	}
}

func (p *parser) fastArgs(b []byte, i int, ev *Event) (int, bool) {
	if i+1 >= len(b) || b[i] != '{' {
		return i, false
	}
	i++
	if b[i] == '}' {
		return i + 1, true
	}
	p.seen |= hasArgs
	for {
		key, next := plainString(b, i)
		if next < 0 || next+1 >= len(b) || b[next] != ':' {
			return i, false
		}
		i = next + 1
		ok := false
		var a Arg
		if len(key) == 5 {
			switch string(key) {
			case "hhash":
				p.seen |= hasHost
				ev.HostHash, i, ok = p.hashText(b, i)
				goto next
			case "level":
				var n int64
				n, i, ok = posInt(b, i)
				if ok = ok && n <= math.MaxInt32; ok {
					ev.Level = int(n)
				}
				goto next
			case "p_idx":
				if b[i] == '-' {
					var n int64
					n, i, ok = posInt(b, i+1)
					ok = ok && n > 0 // -0 is 0
					ev.Parent = NoParent
				} else {
					ev.Parent, i, ok = posInt(b, i)
				}
				goto next
			}
		}
		a.Key = p.intern.get(key)
		i, ok = p.value(b, i, &a)
		ev.Args = append(ev.Args, a)
	next:
		if !ok || i >= len(b) {
			return i, false
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i + 1, true
		default:
			return i, false
		}
	}
}

// value reads any value into a. It leaves a's key alone.
func (p *parser) value(b []byte, i int, a *Arg) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		s, next, ok := p.str(b, i)
		a.kind, a.str = KindString, s
		return next, ok
	case c == '-' || '0' <= c && c <= '9':
		return number(b, i, a)
	case c == '{' || c == '[':
		end := closing(b, i)
		if end < 0 || !json.Valid(b[i:end]) {
			return i, false
		}
		a.kind, a.str = KindRaw, string(b[i:end])
		return end, true
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if end := i + len(word); end <= len(b) && string(b[i:end]) == word {
			a.kind, a.str = KindRaw, word
			return end, true
		}
	}
	return i, false
}

// plainString returns the bytes of the string at i and the index behind it,
// or -1 when it is none or has anything but plain characters.
func plainString(b []byte, i int) ([]byte, int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	i++
	for j := i; j < len(b); j++ {
		if !plain[b[j]] {
			if b[j] == '"' {
				return b[i:j], j + 1
			}
			return nil, -1
		}
	}
	return nil, -1
}

// str reads the string at i, escapes and all.
func (p *parser) str(b []byte, i int) (string, int, bool) {
	if s, next := plainString(b, i); next >= 0 {
		return p.intern.get(s), next, true
	}
	if i >= len(b) || b[i] != '"' {
		return "", i, false
	}
	out, next := unquote(p.scratch[:0], b, i+1)
	if next < 0 {
		return "", i, false
	}
	p.scratch = out
	return p.intern.get(out), next, true
}

func (p *parser) hashText(b []byte, i int) (string, int, bool) {
	if i < len(b) && b[i] == '"' {
		return p.str(b, i)
	}
	_, next, ok := digits(b, i)
	if !ok {
		return "", i, false
	}
	return p.intern.get(b[i:next]), next, true
}

// digits reads an unsigned integer that is written in the one way JSON allows.
func digits(b []byte, i int) (uint64, int, bool) {
	start := i
	var v uint64
	for i < len(b) {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		v = v*10 + uint64(c)
		i++
	}
	n := i - start
	if n == 0 || n > 1 && b[start] == '0' || i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return 0, i, false
	}
	if n >= 20 {
		var err error
		if v, err = strconv.ParseUint(view(b[start:i]), 10, 64); err != nil {
			return 0, i, false
		}
	}
	return v, i, true
}

func posInt(b []byte, i int) (int64, int, bool) {
	v, i, ok := digits(b, i)
	return int64(v), i, ok && v <= math.MaxInt64
}

// number reads any JSON number.
func number(b []byte, i int, a *Arg) (int, bool) {
	if v, next, ok := digits(b, i); ok {
		a.num = v
		if v > math.MaxInt64 {
			a.kind = KindUint
		}
		return next, true
	}
	if b[i] == '-' {
		if v, next, ok := digits(b, i+1); ok && v <= 1<<63 {
			a.num = -v
			return next, true
		}
	}
	end := i
	for end < len(b) && (b[end]-'0' <= 9 || b[end] == '.' || b[end] == '-' || b[end] == '+' || b[end]|0x20 == 'e') {
		end++
	}
	if !json.Valid(b[i:end]) {
		return i, false
	}
	f, err := strconv.ParseFloat(view(b[i:end]), 64)
	if err != nil {
		return i, false // out of range: the general way keeps it as text
	}
	a.kind, a.num = KindFloat, math.Float64bits(f)
	return end, true
}

func phaseAt(b []byte, i int) (Phase, int, bool) {
	if i+1 >= len(b) {
		return 0, i, false
	}
	if c := b[i]; '1' <= c && c <= '4' && b[i+1]-'0' > 9 && b[i+1] != '.' && b[i+1]|0x20 != 'e' {
		return Phase(c - '0'), i + 1, true
	}
	if b[i] != '"' || i+2 >= len(b) || b[i+2] != '"' {
		return 0, i, false
	}
	ph := phaseOfLetter(b[i+1])
	return ph, i + 3, ph != PhaseUnknown
}

func phaseOfLetter(c byte) Phase {
	switch c {
	case 'X':
		return PhaseComplete
	case 'C':
		return PhaseCounter
	case 'A':
		return PhaseAggregated
	case 'M':
		return PhaseMetadata
	}
	return PhaseUnknown
}

// closing returns the index behind the bracket that matches the one at i, or -1.
func closing(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}
