package pfw

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/spans"
)

// begin writes that a span has begun. The span must not have ended: readers
// take a begin without an end for a span that was cut short.
func (d *desk) begin(o *open, key *dftracer.Key, tid, epoch, step int64, attrs []attribute.KeyValue) {
	level, parent := o.position()
	args := appendProgress(nil, epoch, step, attrs)
	dft.WriteBegin(d.w, &dftracer.Event{
		ID: o.id, Name: dft.KeyName(*key), Cat: dft.KeyCat(*key), TID: tid, TS: o.start,
		Level: level, Parent: parent, Args: appendAttrs(args, attrs),
	})
}

// beginOld writes the begin of what began before a time.
func (d *desk) beginOld(before int64) {
	for _, e := range d.open.allSpans() {
		d.beginLate(&e.open, before, func() { d.beginSpan(e) })
	}
	for _, s := range d.open.allScopes() {
		d.beginLate(&s.open, before, func() { d.beginScope(s) })
	}
}

// beginLate writes the begin of o unless it has one, is too young or has ended.
func (d *desk) beginLate(o *open, before int64, write func()) {
	if o.begun || o.start >= before {
		return
	}
	d.whileOpen(o, func() {
		o.begun = true
		write()
	})
}

// whileOpen writes something about o unless it has ended, and keeps it from
// ending meanwhile.
func (d *desk) whileOpen(o *open, write func()) {
	d.roots.lift(o) // what begins below o must not wait for the disk
	d.beginning.Lock()
	defer d.beginning.Unlock()
	if o.hold() {
		defer o.release()
		write()
	}
}

func (d *desk) beginSpan(e *spanEntry) {
	attrs := e.span.Attributes()
	var cat, event string
	for i := range attrs {
		switch attrs[i].Key {
		case spans.AttrCategory:
			cat = attrs[i].Value.AsString()
		case spans.AttrName:
			event = attrs[i].Value.AsString()
		}
	}
	key := d.keys.find(e.span.InstrumentationScope().Name, e.span.Name(), cat, event)
	d.begin(&e.open, key, d.roots.tid(&e.open), e.epoch, e.step, attrs)
}

func (d *desk) beginScope(s *scopeEntry) {
	args := s.current()
	var shared []attribute.KeyValue
	if args != nil {
		shared = args.Attrs
	}
	epoch, step := d.standing(args)
	d.begin(&s.open, s.key, d.roots.tid(&s.open), epoch, step, shared)
}
