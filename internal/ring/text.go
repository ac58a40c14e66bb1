package ring

import "encoding/binary"

// Bounds of the texts whose slot has not come: a writer has one per thread.
const (
	maxChains = 1024
	maxWaits  = 1 << 20 // bytes
)

// chains puts texts together from the slots that hold pieces of them.
type chains struct {
	open  map[uint64]*chain
	order []uint64
	bytes int
}

// chain is a text of which the pieces come in their order, so that what is lost
// is the end of it.
type chain struct {
	text []byte
	size int
}

// add takes a piece; it reports false for one that cannot be true.
func (c *chains) add(slot []byte) bool {
	id := binary.LittleEndian.Uint64(slot[atChain:])
	at := int(binary.LittleEndian.Uint32(slot[atPiece:]))
	size := int(binary.LittleEndian.Uint32(slot[atLength:]))
	if id == 0 || size == 0 || size > maxText || at%textSize != 0 || at >= size {
		return false
	}
	t := c.open[id]
	if t == nil {
		if c.open == nil {
			c.open = make(map[uint64]*chain)
		}
		for len(c.order) > 0 && (len(c.order) >= maxChains || c.bytes+size > maxWaits) {
			c.forget(c.order[0])
			c.order = c.order[1:]
		}
		t = &chain{size: size}
		c.open[id] = t
		c.order = append(c.order, id)
		c.bytes += size
	}
	if t.size != size {
		return false
	}
	if at == len(t.text) {
		t.text = append(t.text, slot[atText:atText+min(textSize, size-at)]...)
	}
	return true
}

func (c *chains) forget(id uint64) {
	if t := c.open[id]; t != nil {
		c.bytes -= t.size
		delete(c.open, id)
	}
}

// take returns a text that is complete, and forgets it.
func (c *chains) take(id uint64) []byte {
	t := c.open[id]
	if t == nil {
		return nil
	}
	c.forget(id)
	if len(c.order) > 0 && c.order[0] == id {
		c.order = c.order[1:]
	}
	if t.size != len(t.text) {
		return nil
	}
	return t.text
}
