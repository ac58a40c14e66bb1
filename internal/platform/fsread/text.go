// Package fsread reads files: it identifies their kind by their contents,
// decompresses them, splits them into lines, and finds the files of the paths
// that users give.
package fsread

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/inflate"
)

// IsGzip reports whether a file begins like gzip.
func IsGzip(head []byte) bool { return len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b }

// Text returns the decompressed contents: r itself or, if it is compressed, the
// text of all its gzip members. A torn file returns its error while it is read;
// see [Torn].
func Text(r *bufio.Reader) (io.Reader, error) { return textBy(r, new(gzip.Reader)) }

// textBy is Text with an existing gzip reader.
func textBy(r *bufio.Reader, zip *gzip.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if IsGzip(head) {
		return zip, zip.Reset(r)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r, nil
}

// FileText is [Text] for a regular file, and faster: it reads members of moderate
// size at once. Close it when the text is no longer used; that does not close
// the file.
func FileText(f *os.File) (io.ReadCloser, error) {
	m := spareMembers.Get().(*members)
	m.from.Reset(f)
	m.plain, m.text, m.zipped, m.err = false, nil, false, nil
	head, err := m.from.Peek(2)
	switch {
	case IsGzip(head):
		if err = m.next(); err == nil {
			return m, nil
		}
	case err == nil || errors.Is(err, io.EOF):
		m.plain = true
		return m, nil
	}
	return nil, errors.Join(err, m.Close())
}

// members reads the members of a gzip file, or plain text.
type members struct {
	from   *bufio.Reader
	plain  bool
	whole  inflate.Decoder
	text   []byte // of a whole member, not yet read
	zip    gzip.Reader
	zipped bool // inside a member that zip reads
	err    error
}

const (
	maxPacked = 256 << 10 // bytes of a member that is read at once
	maxText   = 8 << 20   // its text
)

var spareMembers = sync.Pool{New: func() any { return &members{from: bufio.NewReaderSize(nil, maxPacked)} }}

// Close implements [io.Closer].
func (m *members) Close() error {
	m.from.Reset(nil)
	spareMembers.Put(m)
	return nil
}

// Read implements [io.Reader].
func (m *members) Read(p []byte) (n int, err error) {
	if m.plain {
		return m.from.Read(p)
	}
	for m.err == nil && n == 0 {
		switch {
		case len(m.text) > 0:
			n = copy(p, m.text)
			m.text = m.text[n:]
		case m.zipped:
			if n, m.err = m.zip.Read(p); errors.Is(m.err, io.EOF) {
				m.zipped, m.err = false, nil
			}
		default:
			m.err = m.next()
		}
	}
	return n, m.err
}

// next begins the next member.
func (m *members) next() error {
	packed, _ := m.from.Peek(maxPacked) // the general reader reports errors
	if text, n, ok := m.whole.Member(packed, maxText); ok {
		m.text = text
		_, err := m.from.Discard(n)
		return err
	}
	m.zipped = true
	err := m.zip.Reset(m.from)
	m.zip.Multistream(false)
	return err
}

// Torn reports whether an error of a compressed file means that it was cut off
// or damaged: what was read before is good, and the disk did not fail.
func Torn(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}

// flushMark is the end of a deflate stream that was flushed and not closed: an
// empty stored block.
var flushMark = []byte{0, 0, 0xff, 0xff}

// EndsFlushed reports whether a compressed file without the end of its stream
// stops where its writer flushed it: the writer was killed there, or still
// writes. A file that was truncated later ends like this only if it was cut at
// a flush, and then the two cannot be distinguished.
func EndsFlushed(r io.ReaderAt, size int64) bool {
	mark := make([]byte, len(flushMark))
	n, _ := r.ReadAt(mark, max(size-int64(len(mark)), 0)) // on an error the file does not end like this
	return n == len(mark) && bytes.Equal(mark, flushMark)
}

// Counter counts the bytes that are read from R.
type Counter struct {
	R io.Reader
	N int64
}

// Read implements io.Reader.
func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	return n, err
}
