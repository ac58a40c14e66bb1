package pfw

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/dftracer"
)

// begin writes that a span has begun. The span must not have ended: readers
// take a begin without an end for a span that was cut short.
func (p *Processor) begin(o *open, key *dftracer.Key, tid, epoch, step int64, attrs []attribute.KeyValue) {
	level, parent := o.position()
	args := appendProgress(nil, epoch, step, attrs)
	p.w.Begin(&dftracer.Event{
		ID: o.id, Name: key.Name(), Cat: key.Cat(), TID: tid, TS: o.start,
		Level: level, Parent: parent, Args: appendAttrs(args, attrs),
	})
}

// watch writes the begin of everything that stays open for long.
func (p *Processor) watch() {
	p.stop = make(chan struct{})
	p.watcher.Go(func() {
		t := time.NewTicker(max(p.opts.BeginAfter/2, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-t.C:
				p.beginOld(p.clock.now() - p.opts.BeginAfter.Microseconds())
				p.files.flush(p.clock.now() / 1e6)
			}
		}
	})
}

func (p *Processor) unwatch() {
	if p.stop != nil {
		close(p.stop)
		p.watcher.Wait()
	}
}

// beginOld writes the begin of what began before a time.
func (p *Processor) beginOld(before int64) {
	for _, e := range p.open.allSpans() {
		p.beginLate(&e.open, before, func() { p.beginSpan(e) })
	}
	for _, s := range p.open.allScopes() {
		p.beginLate(&s.open, before, s.writeBegin)
	}
}

// beginLate writes the begin of o unless it has one, is too young or has ended.
func (p *Processor) beginLate(o *open, before int64, write func()) {
	if o.begun || o.start >= before {
		return
	}
	p.whileOpen(o, func() {
		o.begun = true
		write()
	})
}

// whileOpen writes something about o unless it has ended, and keeps it from
// ending meanwhile.
func (p *Processor) whileOpen(o *open, write func()) {
	p.roots.lift(o) // what begins below o must not wait for the disk
	p.beginning.Lock()
	defer p.beginning.Unlock()
	if o.hold() {
		defer o.release()
		write()
	}
}

func (p *Processor) beginSpan(e *spanEntry) {
	attrs := e.span.Attributes()
	var cat, event string
	for i := range attrs {
		switch attrs[i].Key {
		case AttrCategory:
			cat = attrs[i].Value.AsString()
		case AttrName:
			event = attrs[i].Value.AsString()
		}
	}
	key := p.keys.find(e.span.InstrumentationScope().Name, e.span.Name(), cat, event)
	p.begin(&e.open, key, p.roots.tid(&e.open), e.epoch, e.step, attrs)
}
