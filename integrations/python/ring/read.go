package ring

import (
	"encoding/binary"
	"errors"
	"time"
)

const (
	batchSlots = 256
	lookAhead  = 256 // slots, while the writer is in the region
	maxHoles   = 4096
)

var errChanged = errors.New("the ring was changed by somebody else than its writer")

// Read reads what has come and calls take for each record. It gives the number
// of slots that were read. An error is one of the file: the ring cannot be
// read any more.
func (r *Ring) Read(take func(*Record)) (n int, err error) {
	defer guard(&err)()
	before := r.stats.Slots
	defer func() { n = int(r.stats.Slots - before) }()
	if err := r.fill(take); err != nil {
		return 0, err
	}
	for {
		last := load(r.head, atActivations)
		r.refused = int64(min(load(r.head, atRefused), 1<<48))
		if r.next.activation > last+1 || last > 1<<50 {
			return 0, errChanged
		}
		if r.next.activation > last {
			return 0, nil
		}
		if r.next.region < 0 && !r.find() {
			if r.next.activation == last && !r.ended {
				return 0, nil // the writer is between two uses of a region
			}
			if r.next.activation <= r.emptied(last) { // by a reader before this one, which has it
				r.next = cursor{activation: r.next.activation + 1, region: -1}
				continue
			}
			r.lose(regionSlots)
			continue
		}
		more, err := r.run(take, r.next.activation < last || r.ended)
		if err != nil || !more {
			return 0, err
		}
	}
}

// Finish reads the rest of a ring whose writer is gone: slots that it took and
// did not write are lost.
func (r *Ring) Finish(take func(*Record)) error {
	r.ended = true
	_, err := r.Read(take)
	for _, h := range r.holes {
		if h.region >= 0 {
			r.stats.Lost++
		}
	}
	r.holes = nil
	return err
}

// find looks for the region of the next activation, which has not been emptied.
func (r *Ring) find() bool {
	used := min(load(r.head, atUsed), maxRegions)
	for n := range int(used) {
		if load(r.head, tableAt+16*n) == r.next.activation {
			if load(r.head, tableAt+16*n+8) == r.next.activation {
				return false
			}
			r.next.region = n
			return true
		}
	}
	return false
}

// emptied is the last activation that a reader has given back.
func (r *Ring) emptied(last uint64) (most uint64) {
	for n := range int(min(load(r.head, atUsed), maxRegions)) {
		if at := load(r.head, tableAt+16*n+8); at <= last {
			most = max(most, at)
		}
	}
	return most
}

// current reports whether a region still is in the use that c says.
func (r *Ring) current(c cursor) bool {
	return load(r.head, tableAt+16*c.region) == c.activation
}

// lose gives up the rest of an activation.
func (r *Ring) lose(slots int) {
	r.stats.Lost += int64(slots)
	holes := r.holes[:0]
	for _, h := range r.holes {
		if h.activation == r.next.activation {
			r.stats.Lost++
			continue
		}
		holes = append(holes, h)
	}
	r.holes = holes
	r.next = cursor{activation: r.next.activation + 1, region: -1}
}

// run reads slots of one activation. It reports whether to go on with the next
// slots or activation.
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
		if r.settle > 0 {
			time.Sleep(r.settle)
		}
		copy(r.batch, b[from*slotSize:(from+n)*slotSize])
		if !r.current(r.next) {
			r.lose(regionSlots - from)
			return true, nil
		}
		if err := r.side.read(); err != nil {
			return false, err
		}
		// A thread that has written one of these has written its holes before.
		if err := r.fill(take); err != nil {
			return false, err
		}
		r.next.slot += n
		for i := range n {
			r.slot(r.batch[i*slotSize:(i+1)*slotSize], take)
		}
		return true, nil
	}
	if from < regionSlots {
		if !r.writtenBehind(b, from, complete) {
			if !complete {
				return false, nil
			}
			return r.unused(from), nil
		}
		if load(b, from*slotSize+atWord) != 0 {
			return true, nil // in the meantime
		}
		r.wait(r.next)
		r.next.slot++
		return true, nil
	}
	r.done(r.next)
	r.next = cursor{activation: r.next.activation + 1, region: -1}
	return true, nil
}

// writtenBehind reports whether a slot behind one that is not written is.
func (r *Ring) writtenBehind(b []byte, slot int, complete bool) bool {
	if complete {
		for i := regionSlots - 1; i > slot; i-- { // mostly the last one is
			if load(b, i*slotSize+atWord) != 0 {
				return true
			}
		}
		return false
	}
	for i := slot + 1; i < min(slot+lookAhead, regionSlots); i++ {
		if load(b, i*slotSize+atWord) != 0 {
			return true
		}
	}
	return false
}

// unused handles the end of an activation whose last slots are empty: those of
// a writer that is gone, or of threads that have not written theirs.
func (r *Ring) unused(from int) bool {
	if r.next.activation >= load(r.head, atActivations) {
		r.next.slot = regionSlots // the writer ended here
		r.next.activation++
		r.next.region = -1
		return false
	}
	for i := from; i < regionSlots; i++ {
		r.wait(cursor{r.next.activation, r.next.region, i})
	}
	r.next.slot = regionSlots
	return true
}

// wait notes a hole, in place of the oldest one if there are too many.
func (r *Ring) wait(c cursor) {
	if len(r.holes) >= maxHoles {
		r.holes = r.holes[1:]
		r.stats.Lost++
	}
	r.holes = append(r.holes, hole{c, time.Now()})
}

// fill reads holes that were written in the meantime, and gives up old ones.
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
			r.stats.Lost++
		case load(b, h.slot*slotSize+atWord) != 0:
			if r.settle > 0 {
				time.Sleep(r.settle)
			}
			copy(r.late[:], b[h.slot*slotSize:(h.slot+1)*slotSize])
			if err := r.side.read(); err != nil {
				return err
			}
			r.slot(r.late[:], take)
			touched = append(touched, h.cursor)
		case time.Since(h.since) > r.o.Patience:
			r.stats.Lost++
			touched = append(touched, h.cursor)
		default:
			r.holes = append(r.holes, h)
		}
	}
	for _, c := range touched {
		if c.activation < r.next.activation {
			r.done(c)
		}
	}
	return nil
}

// done notes that a region was read, unless a slot of it is waited for.
func (r *Ring) done(c cursor) {
	if !r.o.Drain || !r.current(c) {
		return
	}
	for _, h := range r.holes {
		if h.activation == c.activation {
			return
		}
	}
	r.held = append(r.held, c)
}

// Held is how many regions were read and not given back.
func (r *Ring) Held() int { return len(r.held) }

// Release gives the regions that were read back to the writer. Call it when what
// was read is in a file: a reader that is killed before leaves the regions to the
// next one. Without it the writer goes on in new space.
func (r *Ring) Release() (err error) {
	defer guard(&err)()
	for _, c := range r.held {
		b := r.regions[c.region]
		if b == nil || !r.current(c) {
			continue
		}
		for i := range regionSlots {
			store(b, i*slotSize+atWord, 0)
		}
		store(r.head, tableAt+16*c.region+8, c.activation)
	}
	r.held = r.held[:0]
	return nil
}

// slot decodes a slot and calls take.
func (r *Ring) slot(b []byte, take func(*Record)) {
	r.stats.Slots++
	word := binary.LittleEndian.Uint64(b[atWord:])
	kind, flags := Kind(word>>32), byte(word>>40)
	if kind >= kinds || word>>43 != 0 {
		r.stats.Bad++
		return
	}
	if kind == kindText {
		if !r.chains.add(b) {
			r.stats.Bad++
		}
		return
	}
	rec := &r.record
	*rec = Record{Kind: kind, Crossed: flags&flagCrossed != 0, Failed: flags&flagFailed != 0, Next: -1}
	rec.Thread = r.side.threads[binary.LittleEndian.Uint32(b[atThread:])]
	rec.Name = r.side.names[uint32(word)]
	rec.Depth = int(binary.LittleEndian.Uint32(b[atDepth:])) - 1
	start, end := binary.LittleEndian.Uint64(b[atStart:]), binary.LittleEndian.Uint64(b[atEnd:])
	rec.Value = int64(binary.LittleEndian.Uint64(b[atValue:]))
	args := binary.LittleEndian.Uint64(b[atArgs:])
	nameless := kind == KindPosition && uint32(word) == 0
	if rec.Thread == nil || rec.Name == nil && !nameless || rec.Depth < 1 || rec.Depth > maxDepth || start > 1<<62 || end > 1<<62 {
		r.stats.Bad++
		return
	}
	rec.Start = int64(start) - r.anchor + r.opened
	rec.End = max(int64(end)-r.anchor+r.opened, rec.Start)
	switch {
	case kind == KindPosition:
		rec.Epoch = int64(args)
	case flags&flagNext != 0:
		rec.Next = int64(min(args, 1<<62))
	case args != 0:
		rec.Args = r.chains.take(args)
		rec.ArgsLost = rec.Args == nil
	}
	if kind == KindSpan {
		r.stats.Spans++
	}
	take(rec)
}

// maxDepth bounds how deep spans may nest.
const maxDepth = 1 << 16
