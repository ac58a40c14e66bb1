package recovery

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// idSet is a set of ids, which are nearly always dense.
type idSet map[uint64]*[8]uint64

func (s *idSet) add(id uint64) {
	if *s == nil {
		*s = make(idSet)
	}
	block := (*s)[id/512]
	if block == nil {
		block = new([8]uint64)
		(*s)[id/512] = block
	}
	block[id%512/64] |= 1 << (id % 64)
}

func (s idSet) has(id uint64) bool {
	block := s[id/512]
	return block != nil && block[id%512/64]&(1<<(id%64)) != 0
}

// absent is a parent that has children in the trace but no record: it was still
// running when the process died, and had not run long enough to have a begin
// record.
type absent struct {
	pid, from, to int64
	level         int // 0 if unknown
}

// traceState is what is needed to end a trace.
type traceState struct {
	dialect  tracefile.Dialect
	lines    int // records
	metadata int // those that are metadata
	opened   bool
	closed   bool // "]" was seen
	ended    bool // the end event was seen
	bare     bool // the start event has no args: metadata is off
	nested   bool
	pid      int64
	tid      int64
	host     string
	lastID   uint64
	lastTS   int64 // the latest time of any record
	topTID   int64
	open     map[uint64]*begun
	lanes    map[traceLane][]*begun // those without a partial overlap, sorted by time
	seen     idSet                  // of the events
	parents  map[uint64]*absent
	heads    []string // names of the first records
	damaged  bool     // records were lost for another reason than the end of the writer
	part     bool     // of a rotated trace: parents may be in another part
}

// traceLane is a lane, on which spans must nest.
type traceLane struct{ pid, tid int64 }

// begun is a span that is open according to its begin record.
type begun struct {
	event   tracefile.Event
	crossed bool // an event on its lane overlaps it partially
}

// complete reports whether the trace needs no addition.
func (s *traceState) complete() bool { return s.ended && (s.closed || !s.opened) }

// bracket notes a line that is not a record and reports whether it is framing.
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

func (s *traceState) note(ev *tracefile.Event, d tracefile.Dialect) {
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
	if ev.Phase == tracefile.PhaseMetadata {
		s.metadata++
		if s.pid == 0 {
			s.pid, s.tid = ev.PID, ev.TID
		}
		if key, value := ev.Meta(); key == tracefile.KeyHeartbeat && ev.Name == tracefile.NameCustom {
			at := tracefile.String("", value)
			s.lastTS = max(s.lastTS, at.Int64())
		}
		if b, ok := tracefile.BeginOf(ev); ok {
			s.begin(b)
			s.lastTS = max(s.lastTS, b.TS)
			s.lastID = max(s.lastID, b.ID)
		} else if key, _ := ev.Meta(); ev.Name == tracefile.NameCustom && key == tracefile.KeyPart {
			s.part = true
		}
		return
	}
	s.lastTS = max(s.lastTS, ev.End())
	if ev.Phase != tracefile.PhaseComplete {
		return
	}
	if ev.Cat == tracefile.CatDFTracer {
		switch ev.Name {
		case tracefile.NameStart:
			s.bare = ev.HostHash == ""
			s.nested = ev.Level > 0
			s.pid, s.tid = ev.PID, ev.TID
		case tracefile.NameEnd:
			s.ended = true
		}
	}
	delete(s.open, ev.ID)
	s.cross(ev)
	s.relate(ev)
}

// begin notes an open span.
func (s *traceState) begin(b tracefile.Event) {
	if s.open == nil {
		s.open = make(map[uint64]*begun)
		s.lanes = make(map[traceLane][]*begun)
	}
	span := &begun{event: b}
	s.open[b.ID] = span
	at := traceLane{b.PID, b.TID}
	list := s.lanes[at]
	i := len(list)
	for i > 0 && list[i-1].event.TS > b.TS { // they are nearly always in order
		i--
	}
	s.lanes[at] = slices.Insert(list, i, span)
}

// cross marks the open spans of the event's lane that begin inside the event.
// They need not be checked again.
func (s *traceState) cross(ev *tracefile.Event) {
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

// closing returns what the trace lacks: as lines, the open spans, innermost
// first, and the end event if it is missing; and the bracket.
func (s *traceState) closing() (text []byte, bracket string, closed, invented int) {
	unfinished := s.unfinished()
	add, enc := s.encoder(&text, s.bare || s.host == "")
	heads := 0
	for _, ev := range s.missingHeads() {
		if enc.HasID(ev.Phase) {
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
			ev.TID = s.topTID + 1 // all of them end now, so they nest on that lane
		}
		ev.Args = append(slices.Clone(ev.Args), tracefile.Int("truncated", 1))
		add(&ev)
	}
	for i := range unfinished {
		add(&unfinished[i])
	}
	if s.damaged && !s.ended {
		ev := tracefile.Record(tracefile.NameCustom, tracefile.KeyDamaged, tracefile.String("", "1"))
		ev.PID, ev.TID = s.pid, s.tid
		if enc.HasID(ev.Phase) {
			s.lastID++
			ev.ID = s.lastID
			heads++
		}
		add(&ev)
	}
	if !s.ended {
		n := s.lines + heads + len(open) + len(unfinished)
		if s.dialect == tracefile.V22 {
			n -= s.metadata
		}
		args := []tracefile.Arg{tracefile.Int("num_events", int64(n)), tracefile.Int("recovered", 1), tracefile.Int("truncated_spans", int64(len(open)))}
		if len(unfinished) > 0 {
			args = append(args, tracefile.Int("unfinished_spans", int64(len(unfinished))))
		}
		add, _ = s.encoder(&text, false) // an end event without arguments would mean that the program ended normally
		add(&tracefile.Event{ID: s.lastID + 1, Name: tracefile.NameEnd, Cat: tracefile.CatDFTracer, Type: tracefile.TypeDFTracer, PID: s.pid, TID: s.tid, TS: s.lastTS, Level: 1, Args: args})
	}
	if s.opened && !s.closed {
		bracket = "]"
	}
	return text, bracket, len(open), len(unfinished)
}

// encoder returns a function that appends a record to text in the form of the
// trace; with bare, records have no arguments.
func (s *traceState) encoder(text *[]byte, bare bool) (func(*tracefile.Event), *tracefile.Encoder) {
	enc := tracefile.NewEncoder(s.dialect, bare, s.nested, int(s.pid), "")
	var c tracefile.Clock
	return func(ev *tracefile.Event) {
		if !bare {
			ev.HostHash = cmp.Or(ev.HostHash, s.host)
		}
		*text, _ = tracefile.AppendFitting(*text, ev, func(dst []byte, ev *tracefile.Event) []byte { return enc.Append(dst, &c, ev) })
	}, enc
}

// relate notes an event and the parent that it names.
func (s *traceState) relate(ev *tracefile.Event) {
	s.seen.add(ev.ID)
	delete(s.parents, ev.ID)
	s.expect(ev)
}

// expect notes a parent without an event so far.
func (s *traceState) expect(ev *tracefile.Event) {
	if ev.Parent <= 0 || s.seen.has(uint64(ev.Parent)) {
		return
	}
	if s.parents == nil {
		s.parents = make(map[uint64]*absent)
	}
	a := s.parents[uint64(ev.Parent)]
	if a == nil {
		a = &absent{pid: ev.PID, from: ev.TS}
		s.parents[uint64(ev.Parent)] = a
	}
	a.from, a.to = min(a.from, ev.TS), max(a.to, ev.End())
	if ev.Level > 1 {
		a.level = ev.Level - 1
	}
}

// unfinished returns an event for every parent without a record, so that every
// p_idx of the trace names an event. The original span is unknown: the event
// covers its children and ends with the last of them. These events are on
// separate lanes.
func (s *traceState) unfinished() []tracefile.Event {
	if s.part {
		return nil
	}
	for _, b := range s.open { // will be written, and may also name a parent without a record
		ev := b.event
		ev.Dur = max(s.lastTS-ev.TS, 0)
		s.expect(&ev)
	}
	var all []tracefile.Event
	for id, a := range s.parents {
		if s.open[id] != nil {
			continue
		}
		s.lastID = max(s.lastID, id)
		all = append(all, tracefile.Event{Phase: tracefile.PhaseComplete, Type: tracefile.TypeDFTracer, ID: id, Name: nameUnfinished, Cat: tracefile.CatDFTracer,
			PID: a.pid, TS: a.from, Dur: a.to - a.from, Level: a.level, Parent: tracefile.NoParent, Args: []tracefile.Arg{tracefile.Int("truncated", 1)}})
	}
	slices.SortFunc(all, func(a, b tracefile.Event) int { return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(a.ID, b.ID)) })
	tracefile.AssignLanes(all, s.topTID+2) // the lane before is for crossed spans
	return all
}

// nameUnfinished is the name of a span that is known only from its children.
const nameUnfinished = "unfinished"

// maxHeads is the number of records before the first event of a file.
const maxHeads = 7

// missingHeads returns the missing first records of a file that was cut inside
// them. Their original values are unknown.
func (s *traceState) missingHeads() []tracefile.Event {
	if len(s.heads) != s.lines || slices.Contains(s.heads, tracefile.NameStart) {
		return nil
	}
	want := []tracefile.Event{tracefile.Record(tracefile.NameHostHash, identity.UnknownHost, tracefile.HashArg("", tracefile.HashOf(s.dialect, identity.UnknownHost))),
		tracefile.Record(tracefile.NameThreadName, strconv.FormatInt(s.pid, 10), tracefile.String("", tracefile.NameThreadName))}
	if s.dialect == tracefile.V22 {
		want = append(want, tracefile.Record(tracefile.NameCustom, tracefile.KeyTimeMetric, tracefile.String("", "US")))
	}
	if len(s.heads) > len(want) { // metadata is on
		text := func(kind string) tracefile.Event {
			return tracefile.Record(kind, "unknown", tracefile.HashArg("", tracefile.HashOf(s.dialect, "unknown")))
		}
		if s.dialect != tracefile.V1 {
			want = append(want, text(tracefile.NameFileHash))
		}
		want = append(want, text(tracefile.NameStringHash), text(tracefile.NameStringHash))
	}
	want = append(want, tracefile.Event{Name: tracefile.NameStart, Cat: tracefile.CatDFTracer, Type: tracefile.TypeDFTracer, TS: s.lastTS, Level: 1, Args: []tracefile.Arg{tracefile.Int("recovered", 1)}})
	for i, name := range s.heads {
		if i >= len(want) || want[i].Name != name {
			return nil // something else
		}
	}
	want = want[len(s.heads):]
	for i := range want {
		want[i].PID, want[i].TID = s.pid, s.tid
	}
	return want
}
