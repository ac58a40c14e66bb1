package dftracer

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
)

// insertUnfinished writes the spans of which only children are left in front of
// the end, which is there already.
func (r *recovery) insertUnfinished() error {
	lost := r.state.unfinished()
	if r.report.Unfinished = len(lost); len(lost) == 0 {
		return nil
	}
	var text []byte
	add, _ := r.state.encoder(&text)
	for i := range lost {
		add(&lost[i])
	}
	if r.gzip {
		var member bytes.Buffer
		z, err := gzip.NewWriterLevel(&member, levelSmall)
		if err != nil {
			return err
		}
		_, _ = z.Write(text) // Close returns its error
		if err := z.Close(); err != nil {
			return err
		}
		text = member.Bytes()
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	// What follows moves up, the last part of it first.
	buf := make([]byte, 64<<10)
	for end := r.sink.n; end > r.endAt; {
		n := min(end-r.endAt, int64(len(buf)))
		end -= n
		if _, err := r.temp.ReadAt(buf[:n], end); err != nil {
			return err
		}
		if _, err := r.temp.WriteAt(buf[:n], end+int64(len(text))); err != nil {
			return err
		}
	}
	_, err := r.temp.WriteAt(text, r.endAt)
	return err
}

// tally counts what is written.
type tally struct {
	w io.Writer
	n int64
}

func (t *tally) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += int64(n)
	return n, err
}

// ending remembers where the part begins in which the end event was found, if
// it was not known before.
func (r *recovery) ending(before bool) {
	if !before && r.state.ended {
		r.endAt = r.sink.n + int64(r.out.Buffered())
	}
}
