package ring

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// maxSide bounds what is read of the side file at a time, and a line of it.
const maxSide = 1 << 20

// side is the file beside a ring: lines of JSON that are appended before the
// first slot that needs them.
type side struct {
	file    *os.File
	at      int64
	rest    []byte // of a line whose end has not come
	names   map[uint32]*Name
	threads map[uint32]*Thread
	metas   []Meta // not fetched yet
	who     Who
	bad     int64
}

// line is any line of the side file.
type line struct {
	Name   *string `json:"name"`
	Cat    string  `json:"cat"`
	N      *uint32 `json:"n"`
	Above  uint32  `json:"above"`
	T      *uint32 `json:"t"`
	TID    int64   `json:"tid"`
	Thread string  `json:"thread"`
	Lane   bool    `json:"lane"`
	Meta   *string `json:"meta"`
	Value  any     `json:"value"`
	Who    *Who    `json:"who"`
}

func openSide(path string) (*side, error) {
	f, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	return &side{file: f, names: make(map[uint32]*Name), threads: make(map[uint32]*Thread)}, nil
}

// read takes the lines that have come.
func (s *side) read() error {
	buf := make([]byte, 16<<10)
	for {
		n, err := s.file.ReadAt(buf, s.at)
		s.at += int64(n)
		s.rest = append(s.rest, buf[:n]...)
		for {
			text, after, found := bytes.Cut(s.rest, []byte("\n"))
			if !found {
				break
			}
			s.take(text)
			s.rest = after
		}
		if len(s.rest) > maxSide {
			s.rest = nil
			s.bad++
		}
		switch {
		case errors.Is(err, io.EOF):
			s.rest = bytes.Clone(s.rest)
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
		if len(s.metas) < maxID {
			s.metas = append(s.metas, Meta{*l.Meta, l.Value})
		}
	case l.T != nil && len(s.threads) < maxID:
		s.threads[*l.T] = &Thread{Number: *l.T, TID: max(l.TID, 0), Name: l.Thread, Lane: l.Lane}
	case l.N != nil && l.Name != nil && len(s.names) < maxID && s.names[*l.N] == nil:
		s.names[*l.N] = &Name{ID: *l.N, Cat: l.Cat, Name: *l.Name, Above: l.Above}
	default:
		s.bad++
	}
}
