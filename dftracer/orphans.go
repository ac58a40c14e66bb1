package dftracer

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/identity"
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

// absent is a parent that has children in the trace and is not there itself: it
// was still running when the process died, and not for long enough to have a
// begin record.
type absent struct {
	pid, from, to int64
	level         int // 0 is unknown
}

// relate notes which event is there, and which parent it asks for.
func (s *traceState) relate(ev *Event) {
	s.seen.add(ev.ID)
	delete(s.parents, ev.ID)
	s.expect(ev)
}

// expect notes a parent that is not there yet.
func (s *traceState) expect(ev *Event) {
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

// unfinished returns an event for every parent that was never written, so that
// no p_idx of the trace points at nothing. What such a span was is not known: it
// is around its children, and ends where the last of them does. They are on
// lanes of their own.
func (s *traceState) unfinished() []Event {
	if s.part {
		return nil
	}
	for _, b := range s.open { // will be written, and may have such a parent too
		ev := b.event
		ev.Dur = max(s.lastTS-ev.TS, 0)
		s.expect(&ev)
	}
	var all []Event
	for id, a := range s.parents {
		if s.open[id] != nil {
			continue
		}
		s.lastID = max(s.lastID, id)
		all = append(all, Event{Phase: PhaseComplete, Type: TypeDFTracer, ID: id, Name: nameUnfinished, Cat: CatDFTracer,
			PID: a.pid, TS: a.from, Dur: a.to - a.from, Level: a.level, Parent: NoParent, Args: []Arg{Int("truncated", 1)}})
	}
	slices.SortFunc(all, func(a, b Event) int { return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(a.ID, b.ID)) })
	AssignLanes(all, s.topTID+2) // the one before is that of crossed spans
	return all
}

// nameUnfinished is the name of a span of which only children are known.
const nameUnfinished = "unfinished"

// maxHeads is how many records a file begins with before its first event.
const maxHeads = 7

// missingHeads returns what is missing of the first records, where the file was
// cut inside of them. What they would have said is unknown.
func (s *traceState) missingHeads() []Event {
	if len(s.heads) != s.lines || slices.Contains(s.heads, NameStart) {
		return nil
	}
	want := []Event{meta(NameHostHash, identity.UnknownHost, HashArg("", s.dialect.Hash(identity.UnknownHost))),
		meta(NameThreadName, strconv.FormatInt(s.pid, 10), String("", NameThreadName))}
	if s.dialect == V22 {
		want = append(want, meta(NameCustom, "time_metric", String("", "US")))
	}
	if len(s.heads) > len(want) { // metadata is on
		text := func(kind string) Event { return meta(kind, "unknown", HashArg("", s.dialect.Hash("unknown"))) }
		if s.dialect != V1 {
			want = append(want, text(NameFileHash))
		}
		want = append(want, text(NameStringHash), text(NameStringHash))
	}
	want = append(want, Event{Name: NameStart, Cat: CatDFTracer, Type: TypeDFTracer, TS: s.lastTS, Level: 1, Args: []Arg{Int("recovered", 1)}})
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
