package ring

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

const (
	lookAhead = 256 // slots, while the writer is in the region
	maxHoles  = 4096
	maxRounds = 128 // rounds per Read: batches, and holes between them

	maxActivation = 1 << 40 // centuries
)

var errChanged = errors.New("another program than its writer has changed the ring")

// Read reads new records and calls take for each, up to a part of a full ring
// buffer: the rest comes with the next call. It returns the number of slots
// read. An error is about the file: the ring buffer cannot be read any more.
func (r *Ring) Read(take func(*Record)) (n int, err error) {
	before := r.stats.Slots
	_, err = r.read(take)
	return int(r.stats.Slots - before), err
}

// read implements Read; more means that there is more to read.
func (r *Ring) read(take func(*Record)) (more bool, err error) {
	defer guard(&err)()
	var broken error
	merged := func(rec *Record) {
		if err := r.steps.merge(rec, take); err != nil {
			broken = err
		}
		take(rec)
	}
	if err := r.fill(merged); err != nil {
		return false, err
	}
	for range maxRounds {
		r.steps.discover()
		latest := r.steps.latest() // everything written by now precedes every unwritten slot
		last := load(r.head, atActivations)
		r.refused = int64(min(load(r.head, atRefused), 1<<48))
		if !r.ended && (r.next.activation > last+1 || last > maxActivation) {
			return false, errChanged
		}
		if r.ended || r.newest < last {
			r.newest = last
		}
		if r.next.region < 0 && !r.find() {
			return false, r.flush(latest, take)
		}
		if holds, _ := r.entry(r.next.region); holds == r.next.activation|stepsBit { // pass reads it
			r.next = cursor{activation: r.next.activation + 1, region: -1}
			continue
		}
		more, err := r.run(merged, r.next.activation < r.steps.slots || r.ended)
		if err = cmp.Or(err, broken); err != nil {
			return false, err
		}
		if !more {
			return false, r.flush(latest, take)
		}
	}
	return true, nil
}

// flush delivers the ended spans of steps that precede every unread slot.
func (r *Ring) flush(until uint64, take func(*Record)) error {
	if len(r.steps.queue) == 0 {
		return nil
	}
	r.stored() // until is later than the end of a step that may not be visible as a whole
	if err := r.side.read(); err != nil && !r.ended {
		return err
	}
	return r.steps.pass(until, take)
}

// Finish reads the rest of a ring buffer whose writer is gone: slots that were
// taken and not written are lost. Unreadable parts are lost, too, and the rest
// is read; the error is the first one, or that of ctx, which ends the reading.
func (r *Ring) Finish(ctx context.Context, take func(*Record)) (first error) {
	first = r.side.read()
	r.ended, r.steps.seen = true, 0
	for {
		if err := ctx.Err(); err != nil {
			return cmp.Or(first, err)
		}
		waited := len(r.holes) > 0
		more, err := r.read(take)
		for range r.holes {
			r.countLost(1)
		}
		r.holes = nil
		first = cmp.Or(first, err)
		switch {
		case r.steps.reading: // the disk cannot read it
			r.steps.giveUp()
		case err != nil && r.next.region >= 0:
			r.lose(regionSlots - r.next.slot)
		case !more && (err == nil || !waited):
			return first
		}
	}
}

// find looks for the region with the next activation or, if no region has it
// any more, with the first one after it. Activations in between are lost,
// unless a reader has released them.
func (r *Ring) find() bool {
	last := r.newest
	if r.ended {
		last = math.MaxUint64
	}
	first, region, emptied := uint64(math.MaxUint64), -1, uint64(0)
	for n := range r.used() {
		at, done := r.entry(n)
		at, done = at&^stepsBit, done&^stepsBit
		if done <= r.newest {
			emptied = max(emptied, done)
		}
		if at >= r.next.activation && at <= last && at < first && at != done {
			first, region = at, n
		}
	}
	switch {
	case region >= 0:
	case !r.ended: // the writer is between two uses of a region
		first = r.newest
	case r.newest <= maxActivation:
		first = r.newest + 1
	default:
		return false
	}
	if first > r.next.activation {
		if emptied < first-1 {
			before := max(emptied, r.next.activation-1)
			r.countLost(min(first-1-before-r.steps.knownBetween(before, first), maxActivation) * regionSlots)
		}
		r.giveUp(first)
	}
	r.next.region = region
	return region >= 0
}

// lose gives up the rest of an activation.
func (r *Ring) lose(slots int) {
	r.countLost(uint64(slots))
	r.giveUp(r.next.activation + 1)
}

// giveUp continues with another activation, without the holes of this one.
func (r *Ring) giveUp(next uint64) {
	holes := r.holes[:0]
	for _, h := range r.holes {
		if h.activation == r.next.activation {
			r.countLost(1)
			continue
		}
		holes = append(holes, h)
	}
	r.holes = holes
	r.next = cursor{activation: next, region: -1}
}

// run reads slots of one activation. It reports whether to continue with the
// next slots or activation.
func (r *Ring) run(take func(*Record), complete bool) (more bool, err error) {
	b, err := r.region(r.next.region)
	if err != nil {
		return false, err
	}
	from := r.next.slot
	n := 0
	for n < batchSlots && from+n < regionSlots && load(b, (from+n)*slotSize+atWord) != 0 {
		n++
	}
	if n > 0 {
		r.stored()
		copy(r.batch, b[from*slotSize:(from+n)*slotSize])
		if !r.current(r.next) {
			r.lose(regionSlots - from)
			return true, nil
		}
		if err := r.side.read(); err != nil && !r.ended {
			return false, err
		}
		// A thread that has written one of these has written its holes before.
		if err := r.fill(take); err != nil {
			return false, err
		}
		for i := range n {
			r.next.slot++
			r.slot(r.batch[i*slotSize:(i+1)*slotSize], take)
		}
		return true, nil
	}
	if from < regionSlots {
		if !r.writtenBehind(b, from, complete) {
			if !complete {
				return false, nil
			}
			r.unused(from)
			return true, nil
		}
		if load(b, from*slotSize+atWord) != 0 {
			return true, nil // meanwhile
		}
		r.wait(r.next)
		r.next.slot++
		return true, nil
	}
	r.finish(r.next)
	r.next = cursor{activation: r.next.activation + 1, region: -1}
	return true, nil
}

// writtenBehind reports whether a slot after an unwritten one is written.
func (r *Ring) writtenBehind(b []byte, slot int, complete bool) bool {
	if complete {
		if r.next.end == 0 {
			r.next.end = regionSlots // mostly the last one is
			for r.next.end > slot+1 && load(b, (r.next.end-1)*slotSize+atWord) == 0 {
				r.next.end--
			}
		}
		return slot+1 < r.next.end
	}
	for i := slot + 1; i < min(slot+lookAhead, regionSlots); i++ {
		if load(b, i*slotSize+atWord) != 0 {
			return true
		}
	}
	return false
}

// unused handles the end of an activation whose last slots are empty: the
// writer is gone, or threads have not written theirs.
func (r *Ring) unused(from int) {
	if r.next.activation >= r.steps.slots { // the writer ended here
		r.next = cursor{activation: r.next.activation + 1, region: -1}
		return
	}
	for i := from; i < regionSlots; i++ {
		r.wait(cursor{activation: r.next.activation, region: r.next.region, slot: i})
	}
	r.next.slot = regionSlots
}

// wait notes a hole, in place of the oldest one if there are too many. Without
// a writer no hole is filled.
func (r *Ring) wait(c cursor) {
	if r.ended {
		r.countLost(1)
		return
	}
	if len(r.holes) >= maxHoles {
		r.holes = r.holes[1:]
		r.countLost(1)
	}
	r.holes = append(r.holes, hole{c, time.Now()})
}

// fill reads holes that were written meanwhile, and gives up old ones.
func (r *Ring) fill(take func(*Record)) error {
	if len(r.holes) == 0 {
		return nil
	}
	holes := r.holes
	r.holes = make([]hole, 0, len(holes))
	var touched []cursor
	for _, h := range holes {
		b, err := r.region(h.region)
		if err != nil {
			return err
		}
		switch {
		case !r.current(h.cursor):
			r.countLost(1)
		case load(b, h.slot*slotSize+atWord) != 0:
			r.stored()
			copy(r.late[:], b[h.slot*slotSize:(h.slot+1)*slotSize])
			if err := r.side.read(); err != nil {
				return err
			}
			r.slot(r.late[:], take)
			touched = append(touched, h.cursor)
		case time.Since(h.since) > r.patience:
			r.countLost(1)
			touched = append(touched, h.cursor)
		default:
			r.holes = append(r.holes, h)
		}
	}
	for _, c := range touched {
		if c.activation < r.next.activation {
			r.finish(c)
		}
	}
	return nil
}

// finish notes that the slots of a region were read, unless one is waited for.
func (r *Ring) finish(c cursor) {
	if !slices.ContainsFunc(r.holes, func(h hole) bool { return h.activation == c.activation }) {
		r.done(c)
	}
}
