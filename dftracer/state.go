package dftracer

import (
	"cmp"
	"maps"
	"slices"
)

// traceState is what must be known of a trace in order to end it.
type traceState struct {
	dialect  Dialect
	lines    int // records
	facts    int // of them metadata
	opened   bool
	closed   bool // "]" was seen
	ended    bool // the end event was seen
	finished bool // the end was appended
	bare     bool // start has no args: metadata is off
	nested   bool
	pid      int64
	tid      int64
	host     string
	lastID   uint64
	lastTS   int64 // the latest moment any record speaks of
	topTID   int64
	open     map[uint64]*begun
}

// begun is a span that is open according to its begin record.
type begun struct {
	event   Event
	crossed bool // its lane has an event that overlaps it partially
}

func (s *traceState) clone() traceState {
	c := *s
	c.open = maps.Clone(s.open)
	for id, b := range c.open {
		copied := *b
		c.open[id] = &copied
	}
	return c
}

// complete reports whether nothing has to be appended.
func (s *traceState) complete() bool { return s.ended && (s.closed || !s.opened) }

// bracket notes a line that is no record and reports whether it is framing.
func (s *traceState) bracket(line []byte) bool {
	for _, c := range line {
		switch c {
		case '[':
			s.opened = true
			return true
		case ']':
			s.closed = true
			return true
		}
	}
	return false
}

func (s *traceState) note(ev *Event, d Dialect) {
	s.lines++
	s.dialect = d
	s.lastID = max(s.lastID, ev.ID)
	s.topTID = max(s.topTID, ev.TID)
	if s.host == "" {
		s.host = ev.HostHash
	}
	if ev.Phase == PhaseMetadata {
		s.facts++
		if s.pid == 0 {
			s.pid, s.tid = ev.PID, ev.TID
		}
		if b, ok := beginOf(ev); ok {
			if s.open == nil {
				s.open = make(map[uint64]*begun)
			}
			s.open[b.ID] = &begun{event: b}
			s.lastTS = max(s.lastTS, b.TS)
			s.lastID = max(s.lastID, b.ID)
		}
		return
	}
	s.lastTS = max(s.lastTS, ev.End())
	if ev.Phase != PhaseComplete {
		return
	}
	if ev.Cat == CatDFTracer {
		switch ev.Name {
		case NameStart:
			s.bare = ev.HostHash == ""
			s.nested = ev.Level > 0
			s.pid, s.tid = ev.PID, ev.TID
		case NameEnd:
			s.ended = true
		}
	}
	delete(s.open, ev.ID)
	for _, b := range s.open {
		if b.event.PID == ev.PID && b.event.TID == ev.TID && ev.TS < b.event.TS && b.event.TS < ev.End() {
			b.crossed = true
		}
	}
}

// beginOf returns the span that a begin record is about.
func beginOf(ev *Event) (Event, bool) {
	if ev.Name != NameCustom || len(ev.Args) < 5 {
		return Event{}, false
	}
	key, name := ev.Meta()
	id, ok := ev.Arg("begin_id")
	if key != KeySpanBegin || !ok {
		return Event{}, false
	}
	cat, _ := ev.Arg("begin_cat")
	ts, _ := ev.Arg("begin_ts")
	span := Event{Phase: PhaseComplete, Type: ev.Type, ID: id.Uint64(), Name: name, Cat: cat.Text(), PID: ev.PID, TID: ev.TID,
		TS: ts.Int64(), Level: ev.Level, Parent: ev.Parent, HostHash: ev.HostHash}
	for _, a := range ev.Args {
		switch a.Key {
		case "name", "value", "begin_id", "begin_cat", "begin_ts":
		default:
			span.Args = append(span.Args, a)
		}
	}
	return span, true
}

// BeginOf returns the span that a begin record, as Writer.Begin writes it, is
// about, and whether ev is one. The span has no duration yet.
func BeginOf(ev *Event) (Event, bool) {
	if ev == nil || ev.Phase != PhaseMetadata {
		return Event{}, false
	}
	return beginOf(ev)
}

// closing returns the lines that end the trace: open spans, innermost first,
// the end event and the bracket.
func (s *traceState) closing() ([]byte, int) {
	if s.complete() {
		return nil, 0
	}
	bare := s.bare || s.host == ""
	nest := NestingOff
	if s.nested {
		nest = NestingOn
	}
	enc := newEncoder(s.dialect, bare, nest, Process{PID: int(s.pid)})
	var c clock
	var text []byte
	add := func(ev *Event) {
		if !bare {
			ev.HostHash = cmp.Or(ev.HostHash, s.host)
		}
		text, _ = appendFitting(text, ev, func(dst []byte, ev *Event) []byte { return enc.append(dst, &c, ev) })
	}
	open := slices.SortedFunc(maps.Values(s.open), func(a, b *begun) int {
		return cmp.Or(cmp.Compare(b.event.TS, a.event.TS), cmp.Compare(b.event.ID, a.event.ID))
	})
	for _, b := range open {
		ev := b.event
		ev.Dur = s.lastTS - ev.TS
		if b.crossed {
			ev.TID = s.topTID + 1 // all of them end now, so they nest there
		}
		ev.Args = append(slices.Clone(ev.Args), Int("truncated", 1))
		add(&ev)
	}
	if !s.ended {
		n := s.lines + len(open)
		if s.dialect == V22 {
			n -= s.facts
		}
		add(&Event{ID: s.lastID + 1, Name: NameEnd, Cat: CatDFTracer, Type: TypeDFTracer, PID: s.pid, TID: s.tid, TS: s.lastTS,
			Level: 1, Args: []Arg{Int("num_events", int64(n)), Int("recovered", 1), Int("truncated_spans", int64(len(open)))}})
	}
	if s.opened && !s.closed {
		text = append(text, ']')
	}
	return text, len(open)
}
