package ring

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// stepReader reads the regions with steps, which are separate from those with
// slots.
type stepReader struct {
	*mapped
	*decoder
	queue   []cursor // the regions in order; the first one is being read
	step    step     // the current step
	ofStep  Record
	reading bool
	seen    uint64   // the activations that were searched for regions
	slots   uint64   // the latest activation without steps
	found   uint64   // the latest activation with steps
	apart   []uint64 // the activations with steps
}

// step is the current step: a copy of its words, which the writer may continue,
// and the spans of it that were delivered.
type step struct {
	words        [stepWords]uint64
	given        uint   // its delivered spans, by their bits
	parts, place uint64 // of the previous step
}

// part is a span of a step: the wait (bit 0), a span inside, or the step
// itself.
type part struct {
	bit        int
	start, end uint64 // end 0 means open
}

// whole is the bit of the step itself.
const whole = 1 + (stepWords-stepParts)/2

// eachPart calls take for the spans of a step that have begun.
func (s *step) eachPart(take func(part)) {
	w := &s.words
	if w[stepStart] != w[stepBegan] && (w[stepStart] != 0 || w[stepEnd] == 0) {
		take(part{0, w[stepBegan], w[stepStart]})
	}
	for i := stepParts; i < stepWords; i += 2 {
		if w[i] != 0 {
			take(part{1 + (i-stepParts)/2, w[i], w[i+1]})
		}
	}
	if w[stepStart] != 0 {
		take(part{whole, w[stepStart], w[stepEnd]})
	}
}

// first returns the undelivered span that ended first.
func (s *step) first() (first part, found bool) {
	s.eachPart(func(p part) {
		inner := p.end == first.end && p.start > first.start && p.bit != whole
		if p.end != 0 && s.given&(1<<p.bit) == 0 && (!found || p.end < first.end || inner) {
			first, found = p, true
		}
	})
	return first, found
}

// countAround returns how many undelivered parts are around a moment, without
// one of them.
func (s *step) countAround(at uint64, without int) (n int) {
	s.eachPart(func(p part) {
		if p.bit != 0 && p.bit != whole && p.bit != without && s.given&(1<<p.bit) == 0 && p.start <= at && (p.end == 0 || at < p.end) {
			n++
		}
	})
	return n
}

// inherit completes the words of a step that continues like the previous one.
func (s *step) inherit() {
	if w := &s.words; w[stepWord] == 0 {
		w[stepWord], w[stepKind], w[stepPlace] = s.parts, s.parts, s.place
	}
}

// words copies the words of a step; it returns false if the step has not begun.
func (r *stepReader) words(c cursor, to *[stepWords]uint64) (begun bool, err error) {
	b, err := r.region(c.region)
	if err != nil {
		return false, err
	}
	at := c.slot * stepSize
	if begun = load(b, at+8*stepBegan) != 0; begun {
		for i := range to { // the end first, because the others are written before it
			k := (stepEnd + i) % stepWords
			to[k] = load(b, at+8*k)
		}
	}
	return begun, nil
}

// discover looks for regions with steps, which appear beside the slots.
func (r *stepReader) discover() {
	newest := uint64(math.MaxUint64)
	if !r.ended {
		newest = load(r.head, atActivations)
	}
	if r.seen == newest {
		return
	}
	r.seen = newest
	known := len(r.queue)
	for n := range r.used() {
		holds, emptied := r.entry(n)
		switch at := holds &^ stepsBit; {
		case at > newest:
		case holds&stepsBit == 0:
			r.slots = max(r.slots, at)
		case holds != emptied && at > r.found:
			r.queue = append(r.queue, cursor{activation: at, region: n})
		}
	}
	fresh := r.queue[known:]
	slices.SortFunc(fresh, func(a, b cursor) int { return cmp.Compare(a.activation, b.activation) })
	if len(fresh) > 0 {
		r.stored() // the writer has cleared the region before
	}
	for _, c := range fresh {
		r.found = c.activation
		r.apart = append(r.apart, c.activation)
	}
}

// knownBetween returns how many activations between two are known to have
// steps, because their losses are counted where they are read. It forgets those
// before the second one.
func (r *stepReader) knownBetween(before, first uint64) (n uint64) {
	for len(r.apart) > 0 && r.apart[0] < first {
		if r.apart[0] > before {
			n++
		}
		r.apart = r.apart[1:]
	}
	return n
}

// pass delivers the spans of steps that ended before a moment of the writer's
// clock.
func (r *stepReader) pass(until uint64, take func(*Record)) error {
	r.reading = true
	for len(r.queue) > 0 {
		c := r.queue[0]
		if c.slot == regionSteps {
			r.done(c)
			r.queue = r.queue[1:]
			continue
		}
		var after [stepWords]uint64
		behind := len(r.queue) > 1 // the writer has moved on to another step
		if !behind && c.slot+1 < regionSteps {
			behind, _ = r.words(cursor{region: c.region, slot: c.slot + 1}, &after)
		}
		begun, err := r.words(c, &r.step.words)
		if err != nil || !r.current(c) {
			r.giveUp()
			if err != nil {
				return err
			}
			continue
		}
		if !begun {
			if !behind {
				break
			}
			r.countLost(stepSize / slotSize) // its start was interrupted
		} else {
			r.step.inherit()
			p, found := r.step.first()
			for ; found && p.end < until; p, found = r.step.first() {
				r.step.given |= 1 << p.bit
				r.deliver(p, take)
			}
			end := r.step.words[stepEnd]
			if found || end == 0 && !behind || end >= until {
				break
			}
			r.step.eachPart(func(p part) {
				if p.end == 0 { // it was interrupted
					r.countLost(1)
				}
			})
			r.step = step{parts: r.step.words[stepKind], place: r.step.words[stepPlace]}
		}
		r.queue[0].slot++
	}
	r.reading = false
	return nil
}

// giveUp gives up the rest of the steps of a region.
func (r *stepReader) giveUp() {
	r.countLost(uint64(regionSteps-r.queue[0].slot) * stepSize / slotSize)
	r.queue, r.step, r.reading = r.queue[1:], step{}, false
}

// deliver delivers a span of a step as a record.
func (r *stepReader) deliver(p part, take func(*Record)) {
	r.stats.Slots++
	w, rec := &r.step.words, &r.ofStep
	*rec = Record{Next: -1}
	word, flags := w[stepWord], byte(w[stepWord]>>40)
	known := r.side.name(uint32(w[stepKind]))
	switch kind := Kind(word >> 32); {
	case known == nil || len(known.Parts) > whole || word>>41 != 0 || kind != KindSpan && kind != KindDrop:
		r.stats.Bad++
		return
	case p.bit == whole:
		rec.Kind, rec.Crossed, rec.Value = kind, flags&flagCrossed != 0, int64(min(w[stepSamples], 1<<62))
		if next := w[stepNext]; next != 0 && next <= 1<<62 {
			rec.Next = int64(next)
		}
	case p.bit < len(known.Parts):
		word = uint64(known.Parts[p.bit])
	default:
		r.stats.Bad++
		return
	}
	if !r.place(rec, word, w[stepPlace], p.start, p.end) {
		r.stats.Bad++
		return
	}
	if p.bit != 0 && p.bit != whole {
		rec.Depth += 1 + r.step.countAround(p.start, p.bit)
	}
	if rec.Kind == KindSpan {
		r.stats.Spans++
	}
	take(rec)
}

// merge delivers the spans of steps that ended before a record of their thread,
// or with a record around them, and puts the record below the parts around it,
// which are not on the thread's stack. Before a record of a device it delivers the spans of steps that ended
// before the host launched the work, so that the work gets the step of its launch.
func (r *stepReader) merge(rec *Record, take func(*Record)) error {
	if r.discover(); len(r.queue) == 0 {
		return nil
	}
	if rec.Thread.Lane { // a device's, which the host launched earlier: in the step that was current then
		return r.pass(r.clock(rec.Start-rec.Value), take)
	}
	w := &r.step.words
	here := func() bool { return len(r.queue) > 0 && w[stepPlace]&math.MaxUint32 == uint64(rec.Thread.Number) }
	if w[stepBegan] != 0 && !here() {
		return nil
	}
	end := r.clock(rec.End)
	if !rec.Dated { // otherwise what is written next may be in a part that has ended by then
		if err := r.pass(end, take); err != nil {
			return err
		}
	}
	switch depth := int(w[stepPlace] >> 32); {
	case w[stepBegan] == 0 || !here():
	case rec.Depth >= depth:
		rec.Depth += r.step.countAround(r.clock(rec.Start), 0)
	default:
		return r.pass(end+1, take)
	}
	return nil
}

// last returns the last begun step in the known regions.
func (r *stepReader) last(to *step) (c cursor, found bool) {
	for i := len(r.queue) - 1; i >= 0 && !found; i-- {
		c = r.queue[i]
		n := sort.Search(regionSteps, func(k int) bool {
			begun, err := r.words(cursor{region: c.region, slot: k}, &to.words)
			return err != nil || !begun
		})
		c.slot = n - 1
		found = n > 0
	}
	if found {
		found, _ = r.words(c, &to.words)
	}
	return c, found && r.current(c)
}

// latest returns a moment after everything written of steps.
func (r *stepReader) latest() (at uint64) {
	var s step
	if len(r.queue) == 0 {
		return 0
	}
	r.reading = true
	if _, found := r.last(&s); found {
		s.eachPart(func(p part) { at = max(at, p.start, p.end) })
		at = min(at, math.MaxUint64-1) + 1
	}
	r.reading = false
	return at
}

// open calls take for the open parts of the last step.
func (r *stepReader) open(take func(Cell)) {
	var s step
	c, found := r.last(&s)
	if !found {
		return
	}
	for before := c; s.words[stepWord] == 0; { // like the previous one
		var b step
		if before.slot--; before.slot < 0 {
			return
		}
		if begun, err := r.words(before, &b.words); err != nil || !begun {
			continue
		}
		if b.words[stepWord] != 0 {
			s.parts, s.place = b.words[stepKind], b.words[stepPlace]
			s.inherit()
		}
	}
	known, thread := r.side.name(uint32(s.words[stepKind])), r.side.threads[uint32(s.words[stepPlace])]
	if known == nil || thread == nil || thread.Number >= cellThreads {
		return
	}
	s.eachPart(func(p part) {
		n := known
		if p.bit < len(known.Parts) && p.bit != whole {
			n = r.side.name(known.Parts[p.bit])
		}
		if p.end == 0 && p.start < 1<<62 && n != nil {
			take(Cell{Name: n, Thread: thread, Start: r.epoch(p.start)})
		}
	})
}
