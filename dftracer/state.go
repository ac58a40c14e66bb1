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
	metadata int // of them metadata
	opened   bool
	closed   bool // "]" was seen
	ended    bool // the end event was seen
	bare     bool // start has no args: metadata is off
	nested   bool
	pid      int64
	tid      int64
	host     string
	lastID   uint64
	lastTS   int64 // the latest moment any record speaks of
	topTID   int64
	open     map[uint64]*begun
	lanes    map[traceLane][]*begun // those that are not crossed, by time
	seen     idSet             // of the events
	parents  map[uint64]*absent
	heads    []string // names of the first records
	part     bool     // of a rotated trace: parents may be in another one
}

// traceLane is where spans have to nest.
type traceLane struct{ pid, tid int64 }

// begun is a span that is open according to its begin record.
type begun struct {
	event   Event
	crossed bool // its lane has an event that overlaps it partially
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
	if len(s.heads) < maxHeads {
		s.heads = append(s.heads, ev.Name)
	}
	s.lastID = max(s.lastID, ev.ID)
	s.topTID = max(s.topTID, ev.TID)
	if s.host == "" {
		s.host = ev.HostHash
	}
	if ev.Phase == PhaseMetadata {
		s.metadata++
		if s.pid == 0 {
			s.pid, s.tid = ev.PID, ev.TID
		}
		if key, value := ev.Meta(); key == KeyHeartbeat && ev.Name == NameCustom {
			at := String("", value)
			s.lastTS = max(s.lastTS, at.Int64())
		}
		if b, ok := BeginOf(ev); ok {
			s.begin(b)
			s.lastTS = max(s.lastTS, b.TS)
			s.lastID = max(s.lastID, b.ID)
		} else if key, _ := ev.Meta(); ev.Name == NameCustom && key == KeyPart {
			s.part = true
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
	s.cross(ev)
	s.relate(ev)
}

// begin notes a span that is open.
func (s *traceState) begin(b Event) {
	if s.open == nil {
		s.open = make(map[uint64]*begun)
		s.lanes = make(map[traceLane][]*begun)
	}
	span := &begun{event: b}
	s.open[b.ID] = span
	at := traceLane{b.PID, b.TID}
	list := s.lanes[at]
	i := len(list)
	for i > 0 && list[i-1].event.TS > b.TS { // nearly always in order
		i--
	}
	s.lanes[at] = slices.Insert(list, i, span)
}

// cross marks the open spans of the event's lane that begin inside of it. They
// need not be looked at again.
func (s *traceState) cross(ev *Event) {
	at := traceLane{ev.PID, ev.TID}
	list := s.lanes[at]
	after := func(b *begun, ts int64) int { return cmp.Compare(b.event.TS, ts) }
	from, _ := slices.BinarySearchFunc(list, ev.TS+1, after)
	to, _ := slices.BinarySearchFunc(list, ev.End(), after)
	if from >= to {
		return
	}
	for _, b := range list[from:to] {
		b.crossed = true
	}
	s.lanes[at] = slices.Delete(list, from, to)
}

// closing returns what the trace lacks: open spans, innermost first, and the end event
// where there is none, as lines, and the bracket.
func (s *traceState) closing() (text []byte, bracket string, closed, invented int) {
	unfinished := s.unfinished()
	add, enc := s.encoder(&text)
	heads := 0
	for _, ev := range s.missingHeads() {
		if enc.hasID(ev.Phase) {
			s.lastID++
			ev.ID = s.lastID
		}
		add(&ev)
		heads++
	}
	open := slices.SortedFunc(maps.Values(s.open), func(a, b *begun) int {
		return cmp.Or(cmp.Compare(b.event.TS, a.event.TS), cmp.Compare(b.event.ID, a.event.ID))
	})
	for _, b := range open {
		ev := b.event
		ev.Dur = max(s.lastTS-ev.TS, 0)
		if b.crossed {
			ev.TID = s.topTID + 1 // all of them end now, so they nest there
		}
		ev.Args = append(slices.Clone(ev.Args), Int("truncated", 1))
		add(&ev)
	}
	for i := range unfinished {
		add(&unfinished[i])
	}
	if !s.ended {
		n := s.lines + heads + len(open) + len(unfinished)
		if s.dialect == V22 {
			n -= s.metadata
		}
		args := []Arg{Int("num_events", int64(n)), Int("recovered", 1), Int("truncated_spans", int64(len(open)))}
		if len(unfinished) > 0 {
			args = append(args, Int("unfinished_spans", int64(len(unfinished))))
		}
		add(&Event{ID: s.lastID + 1, Name: NameEnd, Cat: CatDFTracer, Type: TypeDFTracer, PID: s.pid, TID: s.tid, TS: s.lastTS, Level: 1, Args: args})
	}
	if s.opened && !s.closed {
		bracket = "]"
	}
	return text, bracket, len(open), len(unfinished)
}

// encoder returns a function that appends a record in the form of the trace.
func (s *traceState) encoder(text *[]byte) (func(*Event), *encoder) {
	bare := s.bare || s.host == ""
	enc := newEncoder(s.dialect, bare, s.nested, int(s.pid), "")
	var c clock
	return func(ev *Event) {
		if !bare {
			ev.HostHash = cmp.Or(ev.HostHash, s.host)
		}
		*text, _ = appendFitting(*text, ev, func(dst []byte, ev *Event) []byte { return enc.append(dst, &c, ev) })
	}, enc
}
