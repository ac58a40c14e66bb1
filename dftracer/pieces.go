package dftracer

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// pieces cuts the file and passes the parts on until emit returns false.
func (s *scan) pieces(emit func(*piece) bool) error {
	var head [10]byte
	n, err := s.f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n < len(head) || head[0] != 0x1f || head[1] != 0x8b {
		for off := int64(0); off < s.size; off += pieceSize {
			if !emit(&piece{off: off, end: min(off+pieceSize, s.size)}) {
				break
			}
		}
		return nil
	}
	off := int64(0)
	for off < s.size {
		next, err := nextMember(s.f, head, off+1, s.size)
		if err != nil {
			return err
		}
		if !emit(&piece{off: off, end: next, gzip: true}) {
			break
		}
		off = next
	}
	return nil
}

// nextMember returns the offset at or after off at which a gzip member with
// the same kind of header as head begins, or size. Ten equal bytes inside
// compressed data are as good as impossible; open copes with them anyway.
func nextMember(r io.ReaderAt, head [10]byte, off, size int64) (int64, error) {
	buf := make([]byte, 256<<10)
	for off < size {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		b := buf[:n]
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], head[:4])
			if i < 0 {
				break
			}
			at += i
			if at+len(head) <= n && sameHeader(b[at:at+len(head)], head) {
				return off + int64(at), nil
			}
		}
		if n < len(buf) {
			break
		}
		off += int64(n - len(head) + 1)
	}
	return size, nil
}

// sameHeader compares all but the time, unless that is zero.
func sameHeader(b []byte, head [10]byte) bool {
	if !bytes.Equal(head[4:8], []byte{0, 0, 0, 0}) {
		return b[9] == head[9]
	}
	return bytes.Equal(b[4:8], head[4:8]) && b[9] == head[9]
}

// open returns the text of a piece.
func (s *scan) open(p *piece) (io.Reader, error) {
	if !p.gzip {
		return io.NewSectionReader(s.f, p.off, p.end-p.off), nil
	}
	// The member is read to its own end, not to that of the piece: the next
	// piece may begin with bytes that only look like a member.
	m := newMembers(s.f, p.off, s.size)
	m.room = p.end - p.off
	return m, m.next()
}

// members reads gzip members, one after the other, until they reach a given length.
type members struct {
	src  counted
	buf  *bufio.Reader // the decompressor takes no more from it than it needs
	z    *gzip.Reader
	room int64
}

func newMembers(r io.ReaderAt, off, size int64) *members {
	m := &members{src: counted{r: io.NewSectionReader(r, off, size-off)}}
	m.buf = bufio.NewReaderSize(&m.src, 64<<10)
	return m
}

// consumed returns how many compressed bytes were used.
func (m *members) consumed() int64 { return m.src.n - int64(m.buf.Buffered()) }

// next begins the next member.
func (m *members) next() (err error) {
	if m.z == nil {
		m.z, err = gzip.NewReader(m.buf)
	} else {
		err = m.z.Reset(m.buf)
	}
	if err == nil {
		m.z.Multistream(false)
	}
	return err
}

func (m *members) Read(b []byte) (int, error) {
	for {
		n, err := m.z.Read(b)
		if errors.Is(err, io.EOF) {
			err = nil
			if n == 0 {
				if m.consumed() >= m.room {
					return 0, io.EOF
				}
				if err = m.next(); err == nil {
					continue
				}
			}
		}
		return n, err
	}
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
