package tracefile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"strconv"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Parse fills ev from one line without its line feed. It reuses the memory of
// ev.Args.
func (p *Parser) Parse(line []byte, ev *Event) error {
	args := ev.Args[:0]
	*ev = Event{Parent: NoParent, Args: args}
	if p.Fast(line, ev) {
		if ev.Phase == PhaseUnknown {
			return errNoPhase
		}
		return nil
	}
	p.Slow++
	*ev = Event{Parent: NoParent, Args: args}
	return p.general(line, ev)
}

// The members of a line as the first eight bytes at their place, so that each
// is found by one comparison.
const (
	five, six, seven = 1<<40 - 1, 1<<48 - 1, 1<<56 - 1

	textID    = '"' | 'i'<<8 | 'd'<<16 | '"'<<24 | ':'<<32
	textTS    = '"' | 't'<<8 | 's'<<16 | '"'<<24 | ':'<<32
	textPhase = '"' | 'p'<<8 | 'h'<<16 | '"'<<24 | ':'<<32
	textCat   = '"' | 'c'<<8 | 'a'<<16 | 't'<<24 | '"'<<32 | ':'<<40
	textPID   = '"' | 'p'<<8 | 'i'<<16 | 'd'<<24 | '"'<<32 | ':'<<40
	textTID   = '"' | 't'<<8 | 'i'<<16 | 'd'<<24 | '"'<<32 | ':'<<40
	textDur   = '"' | 'd'<<8 | 'u'<<16 | 'r'<<24 | '"'<<32 | ':'<<40
	textName  = '"' | 'n'<<8 | 'a'<<16 | 'm'<<24 | 'e'<<32 | '"'<<40 | ':'<<48
	textArgs  = '"' | 'a'<<8 | 'r'<<16 | 'g'<<24 | 's'<<32 | '"'<<40 | ':'<<48
	textType  = '"' | 't'<<8 | 'y'<<16 | 'p'<<24 | 'e'<<32 | '"'<<40 | ':'<<48
	textHash  = '"' | 'h'<<8 | 'h'<<16 | 'a'<<24 | 's'<<32 | 'h'<<40 | '"'<<48 | ':'<<56
	textLevel = '"' | 'l'<<8 | 'e'<<16 | 'v'<<24 | 'e'<<32 | 'l'<<40 | '"'<<48 | ':'<<56
	textIndex = '"' | 'p'<<8 | '_'<<16 | 'i'<<24 | 'd'<<32 | 'x'<<40 | '"'<<48 | ':'<<56
)

// eight returns the eight bytes at i, with zeros after the end of the line.
func eight(b []byte, i int) uint64 {
	if i+8 > len(b) {
		return loadTail(b, i)
	}
	return binary.LittleEndian.Uint64(b[i:])
}

func loadTail(b []byte, i int) (w uint64) {
	if i+8 <= cap(b) && i < len(b) { // lines are usually inside a text
		return binary.LittleEndian.Uint64(b[i:i+8]) & (math.MaxUint64 >> (64 - 8*(len(b)-i)))
	}
	for j := len(b) - 1; j >= i; j-- {
		w = w<<8 | uint64(b[j])
	}
	return w
}

// Fast parses the common form and reports whether it could. A line it accepts
// is valid JSON.
func (p *Parser) Fast(b []byte, ev *Event) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	i := 1
	p.Seen = 0
	for {
		ok := false
		switch w := eight(b, i); {
		case w&five == textID:
			p.Seen |= HasID
			ev.ID, i, ok = Digits(b, i+5)
		case w&seven == textName:
			if n := p.sameHead(b[i:], ev); n > 0 {
				i, ok = i+n, true
				break
			}
			p.Seen |= HasName
			ev.Name, i, ok = p.str(b, i+7)
		case w&six == textCat:
			p.Seen |= HasCat
			ev.Cat, i, ok = p.str(b, i+6)
		case w&six == textPID:
			if n := p.sameLane(b[i:], ev); n > 0 {
				ev.TS, i, ok = posInt(b, i+n)
				break
			}
			p.Seen |= HasPID
			ev.PID, i, ok = posInt(b, i+6)
		case w&six == textTID:
			p.Seen |= HasTID
			ev.TID, i, ok = posInt(b, i+6)
		case w&five == textTS:
			p.Seen |= HasTS
			ev.TS, i, ok = posInt(b, i+5)
		case w&six == textDur:
			p.Seen |= HasDur
			ev.Dur, i, ok = posInt(b, i+6)
		case w&five == textPhase:
			if n := p.sameTail(b[i:], ev); n > 0 {
				i, ok = p.fastMembers(b, i+n, ev)
				break
			}
			ev.Phase, i, ok = phaseAt(b, i+5)
		case w&seven == textType:
			var t uint64
			t, i, ok = Digits(b, i+7)
			if ok = ok && t <= math.MaxUint8; ok {
				ev.Type = Type(t)
			}
		case w&seven == textArgs:
			i, ok = p.fastArgs(b, i+7, ev)
		default:
			_, next := plainString(b, i)
			if next < 0 || next >= len(b) || b[next] != ':' {
				return false
			}
			var a Arg
			i, ok = p.value(b, next+1, &a)
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

func (p *Parser) fastArgs(b []byte, i int, ev *Event) (int, bool) {
	if i+1 >= len(b) || b[i] != '{' {
		return i, false
	}
	i++
	if b[i] == '}' {
		return i + 1, true
	}
	return p.fastMembers(b, i, ev)
}

// fastMembers parses the arguments from index i, and the closing braces.
func (p *Parser) fastMembers(b []byte, i int, ev *Event) (int, bool) {
	p.Seen |= HasArgs
	for {
		ok := false
		switch w := eight(b, i); w {
		case textHash:
			p.Seen |= HasHost
			ev.HostHash, i, ok = p.hashText(b, i+8)
		case textLevel:
			var n int64
			n, i, ok = posInt(b, i+8)
			if ok = ok && n <= math.MaxInt32; ok {
				ev.Level = int(n)
			}
		case textIndex:
			if i += 8; i < len(b) && b[i] == '-' {
				var n int64
				n, i, ok = posInt(b, i+1)
				ok = ok && n > 0 // -0 is an ordinary 0
				ev.Parent = NoParent
			} else {
				ev.Parent, i, ok = posInt(b, i)
			}
		default:
			n := len(ev.Args)
			ev.Args = append(ev.Args, Arg{})
			a := &ev.Args[n]
			if slot := &p.names[n%len(p.names)]; slot.mask != 0 && w&slot.mask == slot.text {
				a.Key, i, ok = slot.key, i+len(slot.key)+3, true
			} else if a.Key, i, ok = p.name(b, i, n); !ok {
				return i, false
			}
			if v, next, whole := Digits(b, i); whole && v <= math.MaxInt64 {
				a.num, i = v, next
			} else {
				i, ok = p.value(b, i, a)
			}
		}
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

// sameHead returns the length of the name and the category if b begins with
// these two. It finds those of earlier lines by their first bytes.
func (p *Parser) sameHead(b []byte, ev *Event) int {
	const name, cat = len(`"name":`), len(`,"cat":`)
	if len(b) < name+17 {
		return 0
	}
	hash := (binary.LittleEndian.Uint64(b[name+1:]) ^ binary.LittleEndian.Uint64(b[name+9:])*hashFactor) * hashFactor
	h := &p.heads[hash>>(64-headBits)]
	if h.text == "" || len(b) < len(h.text) || string(b[:len(h.text)]) != h.text {
		first, i := plainString(b, name)
		if i < 0 || eight(b, i)&seven != ','|textCat<<8 {
			return 0
		}
		second, i := plainString(b, i+cat)
		if i < 0 || len(first) > maxInterned || len(second) > maxInterned {
			return 0
		}
		*h = head{string(b[:i]), p.intern.get(first), p.intern.get(second)}
	}
	ev.Name, ev.Cat = h.name, h.cat
	p.Seen |= HasName | HasCat
	return len(h.text)
}

// sameLane returns the length of the text before the time if b begins like the
// previous line: the same process and lane. Otherwise it stores the new
// beginning and returns 0.
func (p *Parser) sameLane(b []byte, ev *Event) int {
	if len(p.lane) == 0 || !bytes.HasPrefix(b, p.lane) {
		pid, i, ok := posInt(b, 6)
		if !ok || eight(b, i)&seven != ','|textTID<<8 {
			return 0
		}
		tid, i, ok := posInt(b, i+7)
		if !ok || eight(b, i)&six != ','|textTS<<8 {
			return 0
		}
		p.lane, p.pid, p.tid = append(p.lane[:0], b[:i+6]...), pid, tid
	}
	ev.PID, ev.TID = p.pid, p.tid
	p.Seen |= HasPID | HasTID | HasTS
	return len(p.lane)
}

// sameTail returns the length of the text before the second argument if b
// begins like the previous line: the same phase and host. Otherwise it stores
// the new beginning and returns 0.
func (p *Parser) sameTail(b []byte, ev *Event) int {
	if len(p.tail) == 0 || !bytes.HasPrefix(b, p.tail) {
		const args = `,"args":{"hhash":`
		phase, i, ok := phaseAt(b, 5)
		if !ok || !bytes.HasPrefix(b[i:], []byte(args)) {
			return 0
		}
		host, next := plainString(b, i+len(args))
		if next < 0 || next >= len(b) || b[next] != ',' {
			return 0
		}
		p.tail, p.phase, p.host = append(p.tail[:0], b[:next+1]...), phase, p.intern.get(host)
	}
	ev.Phase, ev.HostHash = p.phase, p.host
	p.Seen |= HasHost
	return len(p.tail)
}

// holdsString reports whether the string s, which needs no escapes, is at i
// with its quotes.
func holdsString(b []byte, i int, s string) bool {
	end := i + 1 + len(s)
	return end < len(b) && b[i] == '"' && b[end] == '"' && string(b[i+1:end]) == s
}

// name parses the name of the n-th argument and the colon after it.
func (p *Parser) name(b []byte, i, n int) (string, int, bool) {
	slot := &p.names[n%len(p.names)]
	if end := i + len(slot.key) + 2; holdsString(b, i, slot.key) && end < len(b) && b[end] == ':' {
		return slot.key, end + 1, true
	}
	key, next := plainString(b, i)
	if next < 0 || next >= len(b) || b[next] != ':' {
		return "", i, false
	}
	*slot = argName{key: p.intern.get(key)}
	if n := next + 1 - i; n <= 8 {
		slot.mask = math.MaxUint64 >> (64 - 8*n)
		slot.text = eight(b, i) & slot.mask
	}
	return slot.key, next + 1, true
}

// value parses any value into a. It does not change a.Key.
func (p *Parser) value(b []byte, i int, a *Arg) (int, bool) {
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

// plainString returns the bytes of the string at i and the index after it. The
// index is -1 if there is no string or it has escapes or bytes that need them.
func plainString(b []byte, i int) ([]byte, int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	i++
	j := i
	for ; j+8 <= len(b); j += 8 {
		if other := jsontext.NotPlain(binary.LittleEndian.Uint64(b[j:])); other != 0 {
			j += bits.TrailingZeros64(other) / 8
			break
		}
	}
	for ; j < len(b); j++ {
		if !jsontext.Plain[b[j]] {
			if b[j] == '"' {
				return b[i:j], j + 1
			}
			return nil, -1
		}
	}
	return nil, -1
}

// str parses the string at i, including escapes.
func (p *Parser) str(b []byte, i int) (string, int, bool) {
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

func (p *Parser) hashText(b []byte, i int) (string, int, bool) {
	if i < len(b) && b[i] == '"' {
		return p.str(b, i)
	}
	_, next, ok := Digits(b, i)
	if !ok {
		return "", i, false
	}
	return p.intern.get(b[i:next]), next, true
}

// Digits parses an unsigned integer in the only form that JSON allows.
func Digits(b []byte, i int) (uint64, int, bool) {
	w := eight(b, i)
	v, n := leading(w)
	if n == 8 {
		if i+17 > len(b) || byte(w) == '0' {
			return longDigits(b, i)
		}
		low, m := leading(binary.LittleEndian.Uint64(b[i+8:])) // up to 16 digits
		if next := b[i+8+int(m)]; next-'0' <= 9 || next == '.' || next|0x20 == 'e' {
			return longDigits(b, i)
		}
		return v*powers[m] + low, i + 8 + int(m), true
	}
	next := byte(w >> (8 * n))
	return v, i + int(n), n > 0 && (n == 1 || byte(w) != '0') && next != '.' && next|0x20 != 'e'
}

// powers holds the powers of ten.
var powers = [16]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// longDigits is Digits for eight digits and more.
func longDigits(b []byte, i int) (uint64, int, bool) {
	start := i
	var v uint64
	for i+8 <= len(b) {
		part, n := leading(binary.LittleEndian.Uint64(b[i:]))
		if n < 8 {
			break
		}
		v = v*1e8 + part
		i += 8
	}
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

// leading returns the number at the start of eight bytes, and how many of the
// bytes are digits.
func leading(w uint64) (v uint64, n uint) {
	w ^= 0x3030303030303030 // digits become 0 to 9
	other := (w | (w + 0x7676767676767676)) & 0x8080808080808080
	n = uint(bits.TrailingZeros64(other)) / 8
	w <<= 64 - 8*n // drops the bytes after the digits and shifts in leading zeros
	w = w * (10<<8 + 1) >> 8 & 0x00ff00ff00ff00ff
	w = w * (100<<16 + 1) >> 16 & 0x0000ffff0000ffff
	return w * (10000<<32 + 1) >> 32, n
}

func posInt(b []byte, i int) (int64, int, bool) {
	v, i, ok := Digits(b, i)
	return int64(v), i, ok && v <= math.MaxInt64
}

// number parses any JSON number.
func number(b []byte, i int, a *Arg) (int, bool) {
	if v, next, ok := Digits(b, i); ok {
		a.num = v
		if v > math.MaxInt64 {
			a.kind = KindUint
		}
		return next, true
	}
	if b[i] == '-' {
		if v, next, ok := Digits(b, i+1); ok && v <= 1<<63 {
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
		return i, false // out of range: the general parser keeps it as text
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

// closing returns the index after the bracket that matches the one at i, or -1.
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

var (
	errNoPhase   = errors.New("record has no ph")
	errBadPhase  = errors.New("unknown ph")
	errNotObject = errors.New("not a JSON object")
)

// Parser parses lines into events. The common form, compact and with plain
// values, takes one pass over the bytes; other valid JSON goes through
// encoding/json. The zero value is ready for use. It is not safe for concurrent
// use.
type Parser struct {
	intern  interner
	scratch []byte
	Slow    int  // lines that took the general parser
	Seen    Keys // of the last line; only the fast parser sets it

	// Remembered from earlier lines, because neighbouring lines are alike: the text
	// from the process to the time, the text from the phase to the first argument,
	// and the names of arguments.
	lane, tail []byte
	pid, tid   int64  // in lane
	phase      Phase  // in tail
	host       string // in tail
	names      [8]argName
	heads      [1 << headBits]head
}

// head is the text of a name and a category, and these two.
type head struct{ text, name, cat string }

const headBits = 6

// argName is the name of an argument, with its quotes and its colon as a number
// if these are at most eight bytes.
type argName struct {
	key        string
	text, mask uint64
}

// Keys is a set of members of a record.
type Keys uint16

// The members in [Keys].
const (
	HasID Keys = 1 << iota // id
	HasName
	HasCat
	HasPID
	HasTID
	HasTS
	HasDur
	HasArgs // not empty
	HasHost
)

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
