package recovery

import (
	"io"

	"github.com/klauspost/compress/gzip"
)

// ending is the end of a trace that is repaired. The end event and the framing that
// follows it wait, because what is missing goes in front of them.
type ending struct {
	anew   anew
	member *io.SectionReader // a whole one that has the end event and was not copied yet
	at     int64             // where the end event begins in its text
	tail   []byte            // lines after it, or after what was written
}

// release writes what waited: the trace goes on behind it.
func (e *ending) release() error {
	if m := e.member; m != nil {
		e.member = nil
		if err := e.anew.Close(); err != nil {
			return err
		}
		if _, err := io.Copy(e.anew.out, m); err != nil {
			return err
		}
	}
	_, err := e.anew.Write(e.tail)
	e.tail = nil
	return err
}

// insert writes text in front of the end event, and then what waited.
func (e *ending) insert(text []byte) error {
	if e.member == nil || len(text) == 0 {
		if _, err := e.anew.Write(text); err != nil {
			return err
		}
		return e.release()
	}
	z, err := gzip.NewReader(e.member)
	if err != nil {
		return err
	}
	e.member = nil
	if _, err := io.CopyN(&e.anew, z, e.at); err != nil {
		return err
	}
	if _, err := e.anew.Write(text); err != nil {
		return err
	}
	if _, err := io.Copy(&e.anew, z); err != nil {
		return err
	}
	return e.release()
}

// levelRepair is the level of members that are written anew.
const levelRepair = 6

// anew is what is written anew: text, or a gzip member of it that its first byte begins.
type anew struct {
	out  io.Writer
	gzip bool
	z    *gzip.Writer
	err  error // the first, for ever
}

func (a *anew) Write(p []byte) (n int, err error) {
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

// Close ends the member, if one was begun.
func (a *anew) Close() error {
	if a.z != nil && a.err == nil {
		a.err = a.z.Close()
	}
	a.z = nil
	return a.err
}
