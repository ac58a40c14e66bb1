package tracefile

import (
	"math"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Encoder encodes events as lines of one dialect. It is immutable, so
// goroutines may share it.
type Encoder struct {
	dialect Dialect
	args    bool // events have args (metadata is on)
	nest    bool // args have level and p_idx
	NoTIDs  bool // every event is on lane 0
	Pid     int64
	host    string // this host's hash as JSON

	proc    string // `,"pid":1,"tid":`
	openX   string // from the phase to the host hash, which is not in it
	openM   string
	tailX   string // openX with this host's hash
	tailC   string
	tailA   string
	closing string // the end of an X or C line
}

const argsOpening = `,"args":{"hhash":`

// NewEncoder returns the Encoder of a process. noMetadata leaves arguments out;
// nest adds levels and parents.
func NewEncoder(d Dialect, noMetadata, nest bool, pid int, host string) *Encoder {
	e := &Encoder{dialect: d, args: !noMetadata, nest: nest && !noMetadata, Pid: int64(pid)}
	e.host = string(AppendHash(HashOf(d, host), nil, d))
	e.proc = `,"pid":` + string(jsontext.AppendInt(nil, e.Pid)) + `,"tid":`
	e.openX, e.tailC, e.closing = e.phase(PhaseComplete), e.phase(PhaseCounter), "}\n"
	e.tailA, e.openM = e.tailC, e.phase(PhaseMetadata)+argsOpening
	if d == V22 {
		e.tailA = e.phase(PhaseAggregated)
	}
	if e.tailX = e.openX; e.args {
		e.openX += argsOpening
		e.tailX, e.closing = e.openX+e.host, "}}\n"
	}
	return e
}

// HasID reports whether records of a phase have an id.
func (e *Encoder) HasID(p Phase) bool {
	return p <= PhaseComplete || p == PhaseMetadata && e.dialect != V22
}

// phase returns the member of a line with the phase.
func (e *Encoder) phase(p Phase) string {
	if e.dialect == V22 {
		return `,"ph":` + string(rune('0'+p))
	}
	return `,"ph":"` + string(rune(p.letter())) + `"`
}

// AppendSpan is like Append for a complete event with an encoded Key. text
// holds arguments that are already encoded.
func (e *Encoder) AppendSpan(dst []byte, c *Clock, key *Key, s *Span, args []Arg, text []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendUint(dst, s.ID)
	dst = append(dst, key.head...)
	if e.dialect == V22 {
		dst = appendType(dst, key.typ, TypeCPPApp)
	}
	if s.TID != c.tid || len(c.lane) == 0 {
		c.tid = s.TID
		c.lane = append(jsontext.AppendUint(append(c.lane[:0], e.proc...), e.lane(s.TID)), `,"ts":`...)
	}
	dst = append(dst, c.lane...)
	dst = c.append(dst, max(s.TS, 0))
	dst = append(dst, `,"dur":`...)
	dst = jsontext.AppendUint(dst, uint64(max(s.Dur, 0)))
	if !e.args {
		return append(append(dst, e.tailX...), "}\n"...)
	}
	if len(c.tail) == 0 || s.Level != c.level || s.Parent != c.parent {
		c.level, c.parent = s.Level, s.Parent
		if c.tail = append(c.tail[:0], e.tailX...); e.nest {
			c.tail = appendNesting(c.tail, s.Level, s.Parent)
		}
	}
	dst = append(dst, c.tail...)
	dst = e.appendArgs(dst, args)
	dst = append(dst, text...)
	return append(dst, "}}\n"...)
}

// Append encodes any event. The ID must be set for phases that have one.
func (e *Encoder) Append(dst []byte, c *Clock, ev *Event) []byte {
	switch ev.Phase {
	case PhaseMetadata:
		return e.appendMetadata(dst, ev, e.nest || ev.isBegin())
	case PhaseCounter, PhaseAggregated:
		return e.appendCounter(dst, c, ev)
	}
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendUint(dst, ev.ID)
	dst = appendHead(dst, ev.Cat, ev.Name)
	if e.dialect == V22 {
		dst = appendType(dst, ev.Type, TypeCPPApp)
	}
	dst = e.appendProcess(dst, ev)
	dst = append(dst, `,"ts":`...)
	dst = c.append(dst, max(ev.TS, 0))
	dst = append(dst, `,"dur":`...)
	dst = jsontext.AppendUint(dst, uint64(max(ev.Dur, 0)))
	dst = append(dst, e.openX...)
	if e.args {
		dst = e.appendHost(dst, ev.HostHash)
		if e.nest {
			dst = appendNesting(dst, ev.Level, ev.Parent)
		}
		dst = append(e.appendArgs(dst, ev.Args), ev.encoded...)
	}
	return append(dst, e.closing...)
}

// appendCounter encodes a counter sample, or several events in one. These have no
// id and no duration; their phase comes before pid and tid.
func (e *Encoder) appendCounter(dst []byte, c *Clock, ev *Event) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, ev.Name)
	dst = append(dst, `,"cat":`...)
	dst = jsontext.AppendString(dst, ev.Cat)
	if e.dialect == V22 {
		dst = appendType(dst, ev.Type, TypeCPPApp)
	}
	dst = append(dst, `,"ts":`...)
	dst = c.append(dst, max(ev.TS, 0))
	if ev.Phase == PhaseAggregated {
		dst = append(dst, e.tailA...)
	} else {
		dst = append(dst, e.tailC...)
	}
	dst = e.appendProcess(dst, ev)
	if e.args {
		dst = e.appendHost(append(dst, argsOpening...), ev.HostHash)
		dst = e.appendArgs(dst, ev.Args)
	}
	return append(dst, e.closing...)
}

// appendMetadata encodes a metadata record. It has its arguments even if event
// arguments are off, because it would be useless without them.
func (e *Encoder) appendMetadata(dst []byte, ev *Event, nest bool) []byte {
	cat := ev.Cat
	if cat == "" {
		cat = CatDFTracer
	}
	if e.dialect == V22 {
		dst = append(dst, `{"name":`...)
	} else {
		dst = append(dst, `{"id":`...)
		dst = jsontext.AppendUint(dst, ev.ID)
		dst = append(dst, `,"name":`...)
	}
	dst = jsontext.AppendString(dst, ev.Name)
	dst = append(dst, `,"cat":`...)
	dst = jsontext.AppendString(dst, cat)
	if e.dialect == V22 {
		dst = appendType(dst, ev.Type, TypeDFTracer)
	}
	dst = e.appendProcess(dst, ev)
	dst = e.appendHost(append(dst, e.openM...), ev.HostHash)
	if nest && (ev.Level != 0 || ev.Parent > 0) {
		dst = appendNesting(dst, ev.Level, ev.Parent)
	}
	dst = e.appendArgs(dst, ev.Args)
	return append(dst, "}}\n"...)
}

// isBegin reports whether a metadata record announces an open span. Its level
// and parent are written in every dialect, because nothing else has them.
func (ev *Event) isBegin() bool { return len(ev.Args) > 0 && ev.Args[0].str == KeySpanBegin }

func (e *Encoder) appendProcess(dst []byte, ev *Event) []byte {
	if ev.PID == 0 || ev.PID == e.Pid {
		dst = append(dst, e.proc...)
	} else {
		dst = append(dst, `,"pid":`...)
		dst = jsontext.AppendUint(dst, uint64(max(ev.PID, 0)))
		dst = append(dst, `,"tid":`...)
	}
	return jsontext.AppendUint(dst, e.lane(ev.TID))
}

// lane returns the tid that is written for an event.
func (e *Encoder) lane(tid int64) uint64 {
	if e.NoTIDs {
		return 0
	}
	return uint64(max(tid, 0))
}

func (e *Encoder) appendHost(dst []byte, hash string) []byte {
	if hash == "" {
		return append(dst, e.host...)
	}
	if e.dialect == V1 && isDecimal(hash) {
		return append(dst, hash...)
	}
	return jsontext.AppendString(dst, hash)
}

func isDecimal(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 20 && (s[0] != '0' || len(s) == 1)
}

func appendType(dst []byte, t, unset Type) []byte {
	if t == TypeUnknown {
		t = unset
	}
	dst = append(dst, `,"type":`...)
	return jsontext.AppendUint(dst, uint64(t))
}

func appendNesting(dst []byte, level int, parent int64) []byte {
	if level > 0 {
		dst = append(dst, `,"level":`...)
		dst = jsontext.AppendUint(dst, uint64(level))
	}
	if parent <= 0 {
		return append(dst, `,"p_idx":-1`...)
	}
	dst = append(dst, `,"p_idx":`...)
	return jsontext.AppendUint(dst, uint64(parent))
}

func (e *Encoder) appendArgs(dst []byte, args []Arg) []byte {
	start := len(dst)
	for i := range args {
		a := &args[i]
		named, ok := jsontext.AppendKey(dst, a.Key)
		if !ok || owned(a.Key) {
			return e.appendDistinct(dst[:start], args)
		}
		dst = appendValue(named, a, e.dialect)
	}
	return dst
}

// appendDistinct is appendArgs for args with keys that cannot be written as
// they are.
func (e *Encoder) appendDistinct(dst []byte, args []Arg) []byte {
	args = distinct(args)
	for i := range args {
		dst, _ = jsontext.AppendKey(dst, args[i].Key)
		dst = appendValue(dst, &args[i], e.dialect)
	}
	return dst
}

func appendValue(dst []byte, a *Arg, d Dialect) []byte {
	switch a.kind {
	case KindInt:
		if a.num < 10 {
			return append(dst, byte('0'+a.num))
		}
		return jsontext.AppendInt(dst, int64(a.num))
	case KindString:
		return jsontext.AppendString(dst, a.str)
	case KindFloat:
		return jsontext.AppendFloat(dst, math.Float64frombits(a.num))
	}
	return AppendArg(*a, dst, d)
}

// Clock appends timestamps. Neighbouring events share their seconds, process and
// lane, and siblings their level and parent, so this text is made once and copied.
type Clock struct {
	sec  int64
	n    int
	text [20]byte

	tid  int64
	lane []byte // `,"pid":1,"tid":2,"ts":`

	level  int
	parent int64
	tail   []byte // from the phase to the parent
}

const microsPerSecond = 1_000_000

func (c *Clock) append(dst []byte, ts int64) []byte {
	if ts < microsPerSecond {
		return jsontext.AppendInt(dst, ts)
	}
	sec := ts / microsPerSecond
	us := uint32(ts - sec*microsPerSecond)
	if sec != c.sec {
		c.sec = sec
		c.n = len(jsontext.AppendInt(c.text[:0], sec))
	}
	dst = append(dst, c.text[:c.n]...)
	return jsontext.AppendSix(dst, us)
}
