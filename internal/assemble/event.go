package assemble

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// AddEvent takes an event of a span that may be open, may wait or may have been
// written. Its record is written at once unless the span waits. It returns the id that
// the span has, or will have, in the file.
func (a *Assembler) AddEvent(key Key, e Event) (id uint64) {
	if s := a.waiting.spans[key]; s != nil {
		if m := e.mark(); !s.has(m) {
			s.marks[m] = struct{}{}
			s.Events = append(s.Events, e)
			s.size += e.size()
			a.waiting.bytes += e.size()
			id = s.id
			a.bound()
			return id
		}
		return s.id
	}
	r := a.expect(key)
	m := e.mark()
	if r.marked(m) {
		return r.id // the span brought it
	}
	a.family.mark(r, m)
	tid := a.tid(a.lanes.homeOf(r.id))
	if !r.done {
		at := e.Time / 1000
		r.extend(at, at)
		a.touch(r)
		a.announce()
	}
	a.event(&e, r.id, tid)
	return r.id
}

// WriteEvent writes the record of an event whose span is in another file of the
// process, by the id that the span has there.
func (a *Assembler) WriteEvent(e *Event, id uint64) { a.event(e, id, a.tid(0)) }

// Begin says that a span has begun, for one that may last: name, parent (zero
// if it is not known) and start in microseconds. It does nothing if that is
// known or the span has come.
func (a *Assembler) Begin(key, parent Key, name *dftracer.Key, start int64, args ...dftracer.Arg) {
	if a.waiting.spans[key] != nil {
		return
	}
	r := a.expect(key)
	if r.done || r.begun != nil {
		return
	}
	above := dftracer.NoParent
	if !parent.IsZero() && parent != key {
		p := a.expect(parent)
		if !p.done || p.contains(start, start) {
			r.parent, above = p, int64(p.id)
		}
		if !p.done {
			p.extend(start, start)
		}
	}
	if r.in == nil {
		return // expecting the parent made it forgotten: the limit is 1
	}
	lane := a.lanes.keep(r.id, start)
	r.begun = &begun{key: name, start: start}
	r.extend(start, start)
	dft.WriteBegin(a.w, &dftracer.Event{
		ID: r.id, Name: dft.KeyName(*name), Cat: dft.KeyCat(*name), TID: a.tid(lane), TS: start, Parent: above, Args: args,
	})
	a.counts.Begins++
}

// writeEvents writes the events of a span that were not written before it.
func (a *Assembler) writeEvents(s *Span, tid int64) {
	written := slices.Clone(s.self.marks)
	for i := range s.Events {
		e := &s.Events[i]
		m := e.mark()
		if slices.Contains(written, m) {
			continue
		}
		a.event(e, s.self.id, tid)
		if a.o.LiveEvents {
			a.family.mark(s.self, m)
		}
	}
}
