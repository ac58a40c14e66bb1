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

// slot decodes a slot and calls take.
func (r *decoder) slot(b []byte, take func(*Record)) {
	r.stats.Slots++
	word := binary.LittleEndian.Uint64(b[atWord:])
	kind, flags := Kind(word>>32), byte(word>>40)
	if kind >= kinds || word>>44 != 0 || flags&flagNumbers != 0 && (kind != KindSpan || flags&flagNext != 0) {
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
	rec.Name = r.side.name(uint32(word))
	rec.Depth = int(binary.LittleEndian.Uint32(b[atDepth:])) - 1
	start, end := binary.LittleEndian.Uint64(b[atStart:]), binary.LittleEndian.Uint64(b[atEnd:])
	rec.Value = int64(binary.LittleEndian.Uint64(b[atValue:]))
	args := binary.LittleEndian.Uint64(b[atArgs:])
	nameless := (kind == KindPosition || kind == KindFile) && uint32(word) == 0
	if rec.Thread == nil || rec.Name == nil && !nameless || rec.Depth < 1 || rec.Depth > maxDepth || start > 1<<62 || end > 1<<62 {
		r.stats.Bad++
		return
	}
	if rec.Start = int64(start) - r.anchor + r.Opened; rec.Start < 0 {
		r.stats.Bad++
		return
	}
	rec.End = max(int64(end)-r.anchor+r.Opened, rec.Start)
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

// maxDepth is how deep spans may be said to nest.
const maxDepth = 1 << 24
