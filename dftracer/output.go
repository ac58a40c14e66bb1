package dftracer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// output is where the pump puts bytes. Only the pump's goroutine uses it.
type output interface {
	// write appends p. On an error it returns what still has to be written
	// once resume succeeds.
	write(p []byte) (rest []byte, err error)
	// check notices that the output vanished while no write failed.
	check() error
	// gone reports whether the output was deleted with all that was in it.
	gone() bool
	// resume makes a failed output usable; fresh means that nothing written
	// before is in it.
	resume() (fresh bool, err error)
	// next ends this part and starts the next one.
	next() error
	size() int64
	sync() error
	Close() error
}

// stream is an output over any io.Writer.
type stream struct {
	w io.Writer
	n int64
}

func (s *stream) write(p []byte) ([]byte, error) {
	n, err := s.w.Write(p)
	n = min(max(n, 0), len(p))
	s.n += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return p[n:], err
	}
	return nil, nil
}

func (s *stream) check() error          { return nil }
func (s *stream) gone() bool            { return false }
func (s *stream) resume() (bool, error) { return false, nil }
func (s *stream) next() error           { return errors.ErrUnsupported }
func (s *stream) size() int64           { return s.n }
func (s *stream) Close() error          { return nil }

func (s *stream) sync() error {
	if f, ok := s.w.(interface{ Sync() error }); ok {
		return f.Sync()
	}
	return nil
}

// errRemoved says that the file is no longer under its name.
var errRemoved = errors.New("file was removed or renamed")

// file is an output that never keeps half a write: it remembers how long the
// file was when all was well and cuts it there before going on.
type file struct {
	path  string // as asked for; parts are counted from it
	now   string // of the current part
	part  int
	f     *os.File
	good  int64
	pid   int
	moved bool
}

func openFile(path string, existing Existing) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_TRUNC
	switch existing {
	case ExistingKeep:
		if err := keepOld(path); err != nil {
			return nil, err
		}
	case ExistingFail:
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, err
	}
	return &file{path: path, now: path, f: f, pid: os.Getpid()}, nil
}

// keepOld renames a file that is in the way.
func keepOld(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	stem, ext := splitExt(path)
	for n := 1; ; n++ {
		old := fmt.Sprintf("%s.old%d%s", stem, n, ext)
		if _, err := os.Lstat(old); errors.Is(err, os.ErrNotExist) {
			return os.Rename(path, old)
		} else if err != nil {
			return err
		}
	}
}

func (o *file) write(p []byte) ([]byte, error) {
	if os.Getpid() != o.pid {
		return p, errors.New("file belongs to another process")
	}
	n, err := o.f.WriteAt(p, o.good)
	if err != nil {
		// Some of p may be in the file, whatever n says. This is best effort,
		// so that a crash during the outage leaves a clean end; resume insists.
		_ = o.f.Truncate(o.good)
		return p, err
	}
	o.good += int64(n)
	return nil, nil
}

func (o *file) check() error {
	named, err := os.Stat(o.now)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			o.moved = true
			return errRemoved
		}
		return nil // cannot tell; a write will
	}
	open, err := o.f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(named, open) {
		o.moved = true
		return errRemoved
	}
	return nil
}

func (o *file) gone() bool {
	info, err := o.f.Stat()
	return err == nil && linkCount(info) == 0
}

func (o *file) resume() (bool, error) {
	if o.moved || o.check() != nil {
		return true, o.reopen()
	}
	return false, o.f.Truncate(o.good)
}

// reopen starts a new file under the old name, or under the name of a later
// part when somebody else has taken the old one.
func (o *file) reopen() error {
	if err := os.MkdirAll(filepath.Dir(o.now), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(o.now, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return o.next()
	}
	if err != nil {
		return err
	}
	return o.replace(f, o.now)
}

func (o *file) next() error {
	for {
		o.part++
		path := partPath(o.path, o.part)
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			o.part--
			return err
		}
		return o.replace(f, path)
	}
}

func (o *file) replace(f *os.File, path string) error {
	// What was written to the old file is beyond help when closing it fails.
	_ = o.f.Close()
	o.f, o.now, o.good, o.moved = f, path, 0, false
	return nil
}

func (o *file) size() int64 { return o.good }
func (o *file) sync() error { return o.f.Sync() }

func (o *file) Close() error { return o.f.Close() }
