// Package fsread is how files are read: what a file is by what is in it, its text
// where it is compressed, its lines, and which files paths stand for.
package fsread

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// IsGzip reports whether the first bytes of a file are those of gzip.
func IsGzip(head []byte) bool { return len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b }

// Text returns what the bytes of a file hold: r itself or, where it is compressed,
// the text of all its gzip members. The error of a torn one comes with the
// reading; see [Torn].
func Text(r *bufio.Reader) (io.Reader, error) { return textBy(r, new(gzip.Reader)) }

// textBy is Text with a reader for what is compressed.
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

// Torn reports whether an error of a compressed file means that it was cut off or
// damaged: what was read before is good, and no disk has failed.
func Torn(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}

// flushMark is how a deflate stream ends that was flushed and goes on: an empty stored block.
var flushMark = []byte{0, 0, 0xff, 0xff}

// EndsFlushed reports whether a compressed file that lacks the end of its stream stops where
// its writer flushed it: the writer was killed there, or still writes. A file that was cut
// ends like this only where it was cut at a flush, and then nothing tells the two apart.
func EndsFlushed(r io.ReaderAt, size int64) bool {
	mark := make([]byte, len(flushMark))
	n, _ := r.ReadAt(mark, max(size-int64(len(mark)), 0)) // what cannot be read does not end so
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
