package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

const (
	magic     = "CHARLMCK"
	version   = 1
	maxHeader = 1 << 16
	chunk     = 8192 // floats converted at a time
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write encodes s and returns the number of bytes written.
func Write(w io.Writer, s *State) (int64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	header, err := json.Marshal(s)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: header: %w", err)
	}
	e := &encoder{w: w}
	head := append([]byte(nil), magic...)
	head = binary.LittleEndian.AppendUint32(head, version)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(header)))
	e.write(append(head, header...))
	e.floats(s.Params)
	e.floats(s.M)
	e.floats(s.V)
	e.write(binary.LittleEndian.AppendUint32(nil, e.crc))
	return e.n, e.err
}

// encoder writes values and keeps its first error.
type encoder struct {
	w   io.Writer
	n   int64
	crc uint32
	err error
}

func (e *encoder) write(p []byte) {
	if e.err != nil {
		return
	}
	e.crc = crc32.Update(e.crc, castagnoli, p)
	n, err := e.w.Write(p)
	e.n += int64(n)
	e.err = err
}

func (e *encoder) floats(f []float32) {
	buf := make([]byte, 0, 4*chunk)
	for len(f) > 0 {
		k := min(len(f), chunk)
		buf = buf[:0]
		for _, v := range f[:k] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		e.write(buf)
		f = f[k:]
	}
}

// Read decodes a state from r, which must hold exactly one checkpoint. Any
// damage is an error that wraps [ErrCorrupt].
func Read(r io.Reader) (*State, error) {
	d := &decoder{r: r}
	head := d.read(len(magic) + 8)
	if d.err == nil && string(head[:len(magic)]) != magic {
		return nil, corrupt("it does not start with %q", magic)
	}
	var s State
	if d.err == nil {
		if v := binary.LittleEndian.Uint32(head[len(magic):]); v != version {
			return nil, corrupt("version %d, this program reads version %d", v, version)
		}
		size := binary.LittleEndian.Uint32(head[len(magic)+4:])
		if size > maxHeader {
			return nil, corrupt("a header of %d bytes", size)
		}
		header := d.read(int(size))
		if d.err == nil {
			if err := json.Unmarshal(header, &s); err != nil {
				return nil, corrupt("header: %v", err)
			}
			if err := s.Model.Validate(); err != nil {
				return nil, corrupt("header: %v", err)
			}
			n := s.Model.NumParams()
			s.Params, s.M, s.V = d.floats(n), d.floats(n), d.floats(n)
		}
	}
	want := d.crc
	sum := d.read(4)
	if d.err != nil {
		return nil, corrupt("%v", d.err)
	}
	if got := binary.LittleEndian.Uint32(sum); got != want {
		return nil, corrupt("checksum %08x, the content has %08x", got, want)
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n != 0 {
		return nil, corrupt("bytes after the end")
	}
	if err := s.check(); err != nil {
		return nil, corrupt("%v", err)
	}
	return &s, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("checkpoint: %w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// decoder reads values and keeps its first error.
type decoder struct {
	r   io.Reader
	crc uint32
	err error
}

func (d *decoder) read(n int) []byte {
	if d.err != nil {
		return nil
	}
	p := make([]byte, n)
	if _, d.err = io.ReadFull(d.r, p); d.err != nil {
		return nil
	}
	d.crc = crc32.Update(d.crc, castagnoli, p)
	return p
}

// floats grows its result with the received data, so that a wrong size in the
// header costs no memory.
func (d *decoder) floats(n int) []float32 {
	out := make([]float32, 0, min(n, chunk))
	for len(out) < n {
		p := d.read(4 * min(n-len(out), chunk))
		if d.err != nil {
			return nil
		}
		for ; len(p) > 0; p = p[4:] {
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(p)))
		}
	}
	return out
}
