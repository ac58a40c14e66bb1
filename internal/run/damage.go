package run

import (
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/internal/infile"
)

// What is wrong with a file says something of its process only where nothing else explains
// it. These endings without an end record are told apart:
//
//	the writer was killed, or writes on   whole gzip members, or a stream that stops at a flush; whole lines
//	the file was cut or damaged           a stream that stops elsewhere, a wrong checksum, bytes that
//	                                      are no gzip, half a line, lines that are no records
//
// A file that was cut exactly between two members, at a flush or at the end of a line looks
// like that of a killed writer. A writer that does not flush at the end of a record and was
// killed looks like a file that was cut.

// fewBad is the share of records, one in so many, up to which unreadable lines leave a rank
// comparable: none of its steps may lack one, or some.
const fewBad = 100

// EndLost reports whether the files of a process show neither how it ended nor where it
// stood then: no end is on record, and they are damaged or cut off.
func (p *Process) EndLost() bool { return p.Cut && p.End == NoEnd }

// tear notes how one of the files ends that is torn, by what ended its gzip stream: nil for
// half a line.
func (p *Process) tear(path string, torn bool, cause error) {
	switch {
	case !torn, errors.Is(cause, io.ErrUnexpectedEOF) && endsFlushed(path):
	case errors.Is(cause, gzip.ErrHeader):
		p.tail = true
	default:
		p.Cut = true
	}
}

// settleDamage decides whether records are missing, once the end is known: nothing of a
// trace stands behind its end record.
func (p *Process) settleDamage() {
	if p.End == NoEnd {
		p.Cut = p.Cut || p.tail || p.Bad > 0
	} else {
		p.Cut = p.Cut || int64(p.Bad)*fewBad > p.Spans
	}
}

func endsFlushed(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	return err == nil && infile.EndsFlushed(f, info.Size())
}
