package ring

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// maxSide bounds how much of the side file is read at a time, and the length of
// a line.
const maxSide = 1 << 20

// side is the file beside a ring buffer: lines of JSON that are appended before
// the first slot that needs them.
type side struct {
	file    *os.File
	at      int64
	buf     []byte
	rest    []byte // an incomplete line
	skip    bool   // the line is too long
	names   map[uint32]*Name
	threads map[uint32]*Thread
	metas   []Meta // not fetched yet
	who     Who
	bad     int64

	// Names above the bound: each id has the common name of its category.
	others     int64
	otherNames map[uint32]*Name
	categories map[string]*Name
}

// line is any line of the side file.
type line struct {
	Name    *string         `json:"name"`
	Cat     string          `json:"cat"`
	N       *uint32         `json:"n"`
	Above   uint32          `json:"above"`
	Calls   int             `json:"calls"`
	Args    json.RawMessage `json:"args"`
	Numbers [3]string       `json:"numbers"`
	Parts   []uint32        `json:"parts"`
	T       *uint32         `json:"t"`
	TID     int64           `json:"tid"`
	Thread  string          `json:"thread"`
	Lane    bool            `json:"lane"`
	Meta    *string         `json:"meta"`
	Value   any             `json:"value"`
	Who     *Who            `json:"who"`
}

func openSide(path string) (*side, error) {
	f, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	return &side{file: f, buf: make([]byte, 16<<10), names: make(map[uint32]*Name), threads: make(map[uint32]*Thread)}, nil
}

// name returns an entry of the table of names, or nil.
func (s *side) name(id uint32) *Name {
	if n := s.names[id]; n != nil {
		return n
	}
	return s.otherNames[id]
}

// read reads new lines.
func (s *side) read() error {
	for {
		n, err := s.file.ReadAt(s.buf, s.at)
		s.at += int64(n)
		part := s.buf[:n]
		for len(part) > 0 {
			text, after, found := bytes.Cut(part, []byte("\n"))
			part = after
			if s.skip = s.skip || len(s.rest)+len(text) > maxSide; !s.skip {
				s.rest = append(s.rest, text...)
			}
			if !found {
				break
			}
			if s.skip {
				s.bad++
			} else {
				s.take(s.rest)
			}
			s.rest, s.skip = s.rest[:0], false
		}
		switch {
		case errors.Is(err, io.EOF):
			if cap(s.rest) > len(s.buf) {
				s.rest = bytes.Clone(s.rest)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *side) take(text []byte) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		s.bad++
		return
	}
	switch {
	case l.Who != nil:
		s.who = *l.Who
	case l.Meta != nil:
		if len(s.metas) < maxMetas {
			s.metas = append(s.metas, Meta{*l.Meta, l.Value})
		} else {
			s.bad++
		}
	case l.T != nil && len(s.threads) < maxThreads:
		s.threads[*l.T] = &Thread{Number: *l.T, TID: max(l.TID, 0), Name: l.Thread, Lane: l.Lane}
	case l.N != nil && l.Name != nil && s.name(*l.N) == nil:
		if len(s.names) < maxNames {
			s.names[*l.N] = &Name{ID: *l.N, Cat: l.Cat, Name: *l.Name, Above: l.Above, Calls: l.Calls != 0, Args: l.Args, Numbers: l.Numbers, Parts: l.Parts}
		} else {
			s.putUnnamed(*l.N, l.Cat)
		}
	default:
		s.bad++
	}
}

// putUnnamed handles a name without room. It keeps the category, unless there
// are too many of these.
func (s *side) putUnnamed(id uint32, cat string) {
	if s.otherNames == nil {
		s.otherNames, s.categories = make(map[uint32]*Name), make(map[string]*Name)
	}
	n := s.categories[cat]
	if n == nil && len(s.categories) < maxCategories {
		n = &Name{ID: id, Cat: cat, Name: "(other)"}
		s.categories[cat] = n
	}
	if n == nil || len(s.otherNames) >= maxThreads {
		s.bad++
		return
	}
	s.others++
	s.otherNames[id] = n
}

// Bounds of texts whose slot has not come: a writer has one per thread.
const (
	maxChains = 1024
	maxWaits  = 1 << 20 // bytes
)

// chains assembles texts from the slots with their pieces.
type chains struct {
	open  map[uint64]*chain
	order []uint64
	bytes int
}

// chain is a text whose pieces come in order, so only its end can be lost.
type chain struct {
	text []byte
	size int
}

// add adds a piece; it returns false for an invalid one.
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

// take removes and returns a complete text.
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
