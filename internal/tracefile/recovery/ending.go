package recovery

import (
	"io"

	"github.com/klauspost/compress/gzip"
)

// ending is the end of a trace under repair. The end event and the framing
// after it are held back, because missing records go before them.
type ending struct {
	rewriter rewriter
	member   *io.SectionReader // a whole member with the end event that is not copied yet
	at       int64             // offset of the end event in its text
	tail     []byte            // the lines after it, or after what was written
}

// release writes what was held back. The trace continues after it.
func (e *ending) release() error {
	if m := e.member; m != nil {
		e.member = nil
		if err := e.rewriter.Close(); err != nil {
			return err
		}
		if _, err := io.Copy(e.rewriter.out, m); err != nil {
			return err
		}
	}
	_, err := e.rewriter.Write(e.tail)
	e.tail = nil
	return err
}

// insert writes text before the end event, and then what was held back.
func (e *ending) insert(text []byte) error {
	if e.member == nil || len(text) == 0 {
		if _, err := e.rewriter.Write(text); err != nil {
			return err
		}
		return e.release()
	}
	z, err := gzip.NewReader(e.member)
	if err != nil {
		return err
	}
	e.member = nil
	if _, err := io.CopyN(&e.rewriter, z, e.at); err != nil {
		return err
	}
	if _, err := e.rewriter.Write(text); err != nil {
		return err
	}
	if _, err := io.Copy(&e.rewriter, z); err != nil {
		return err
	}
	return e.release()
}

// levelRepair is the compression level of rewritten members.
const levelRepair = 6

// rewriter writes text, as plain text or as a gzip member that starts with the
// first byte.
type rewriter struct {
	out  io.Writer
	gzip bool
	z    *gzip.Writer
	err  error // the first error; later writes fail
}

func (a *rewriter) Write(p []byte) (n int, err error) {
	switch {
	case a.err != nil || len(p) == 0:
		return 0, a.err
	case !a.gzip:
		n, a.err = a.out.Write(p)
		return n, a.err
	case a.z == nil:
		if a.z, a.err = gzip.NewWriterLevel(a.out, levelRepair); a.err != nil {
			return 0, a.err
		}
	}
	n, a.err = a.z.Write(p)
	return n, a.err
}

// Close ends the member, if there is one.
func (a *rewriter) Close() error {
	if a.z != nil && a.err == nil {
		a.err = a.z.Close()
	}
	a.z = nil
	return a.err
}
