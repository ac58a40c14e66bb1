package dftracer

import (
	"errors"
	"io"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/infile"
)

// pieces cuts the file and passes the parts on until emit returns false.
func (s *scan) pieces(emit func(*piece) bool) error {
	var head [10]byte
	n, err := s.f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n < len(head) || !infile.IsGzip(head[:]) {
		for off := int64(0); off < s.size; off += pieceSize {
			if !emit(&piece{Piece: dft.Piece{Offset: off, Size: min(pieceSize, s.size-off)}}) {
				break
			}
		}
		return nil
	}
	find := dft.MemberFinder{R: s.f, Head: head, Size: s.size}
	off := int64(0)
	for off < s.size {
		next, err := find.Next(off + 1)
		if err != nil {
			return err
		}
		if !emit(&piece{Piece: dft.Piece{Offset: off, Size: next - off, Gzip: true}}) {
			break
		}
		off = next
	}
	return nil
}

// open returns the text of a piece.
func (s *scan) open(p *piece, m *dft.Members) (io.Reader, error) {
	if !p.Gzip {
		return io.NewSectionReader(s.f, p.Offset, p.Size), nil
	}
	// The member is read to its own end, not to that of the piece: the next
	// piece may begin with bytes that only look like a member.
	m.Start(s.f, p.Offset, s.size)
	m.Room = p.Size
	return m, m.Next()
}
