package ring

import "encoding/binary"

// decoder makes records of slots.
type decoder struct {
	Head
	anchor int64 // what the writer's clock said at Opened
	side   *side
	chains chains
	record Record
	stats  Stats
}

// maxLost bounds what is counted as lost: what a damaged head or table says may be anything.
const maxLost = 1 << 60

// lost counts slots.
func (r *decoder) lost(slots uint64) {
	r.stats.Lost = min(r.stats.Lost+int64(slots), maxLost)
}

// epoch returns a moment of the writer's clock in nanoseconds since the Unix epoch.
func (r *decoder) epoch(clock uint64) int64 { return int64(clock) - r.anchor + r.Opened }

// clock is the opposite of epoch.
func (r *decoder) clock(epoch int64) uint64 { return uint64(epoch - r.Opened + r.anchor) }

// slot decodes a slot and calls take.
func (r *decoder) slot(b []byte, take func(*Record)) {
	r.stats.Slots++
	word := binary.LittleEndian.Uint64(b[atWord:])
	kind, flags := Kind(word>>32), byte(word>>40)
	if kind >= kinds || word>>44 != 0 || flags&(flagNumbers|flagDated) != 0 && kind != KindSpan {
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
	*rec = Record{Kind: kind, Crossed: flags&flagCrossed != 0, Failed: flags&flagFailed != 0, Dated: flags&flagDated != 0, Next: -1}
	rec.Value = int64(binary.LittleEndian.Uint64(b[atValue:]))
	args := binary.LittleEndian.Uint64(b[atArgs:])
	if !r.place(rec, word, binary.LittleEndian.Uint64(b[atThread:]), binary.LittleEndian.Uint64(b[atStart:]), binary.LittleEndian.Uint64(b[atEnd:])) {
		r.stats.Bad++
		return
	}
	switch {
	case kind == KindPosition:
		rec.Epoch = int64(args)
	case flags&flagNumbers != 0:
		rec.Call, rec.File = true, int64(binary.LittleEndian.Uint64(b[atFile:]))
		rec.Numbers = [3]int64{int64(args), rec.Value, int64(binary.LittleEndian.Uint64(b[atValue+8:]))}
		rec.Value = 0
		if rec.File < 0 {
			rec.Args = r.chains.take(uint64(-rec.File))
			rec.File = 0
		}
	case args != 0:
		rec.Args = r.chains.take(args)
		rec.ArgsLost = rec.Args == nil
	}
	if kind == KindSpan {
		r.stats.Spans++
	}
	take(rec)
}

// place says whose a record is, and where it lies. It reports false where that cannot be true.
func (r *decoder) place(rec *Record, word, place, start, end uint64) bool {
	rec.Thread = r.side.threads[uint32(place)]
	rec.Name = r.side.name(uint32(word))
	rec.Depth = int(place>>32) - 1
	nameless := (rec.Kind == KindPosition || rec.Kind == KindFile) && uint32(word) == 0
	if rec.Thread == nil || rec.Name == nil && !nameless || rec.Depth < 1 || rec.Depth > maxDepth || start > 1<<62 || end > 1<<62 {
		return false
	}
	if rec.Start = r.epoch(start); rec.Start < 0 {
		return false
	}
	rec.End = max(r.epoch(end), rec.Start)
	return true
}

// maxDepth is how deep spans may be said to nest.
const maxDepth = 1 << 24
