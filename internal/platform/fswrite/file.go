package fswrite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// Output is the destination of a [Sink]. Only one goroutine at a time uses it,
// except for Interrupt.
type Output interface {
	// Write appends a part of p and returns its length.
	Write(p []byte) (n int, err error)
	// Commit marks what was written so far as complete.
	Commit()
	// Undo removes what was written since Commit, and reports whether it could;
	// otherwise that stays and the rest has to follow it.
	Undo() bool
	// Check detects that the output vanished although no write failed.
	Check() error
	// Gone reports whether what was written has been deleted.
	Gone() bool
	// Resume makes a failed output usable again. fresh means that it has nothing
	// that was written before, and gone that this is not in another file either.
	Resume() (fresh, gone bool, err error)
	// Next continues in the next part.
	Next() error
	// Remove deletes the output.
	Remove() error
	Size() int64
	Path() string
	Sync() error
	Close() error
	// Interrupt makes a blocked Write return, if the system supports it.
	Interrupt()
}

// Errors of Check.
var (
	errRemoved = errors.New("file was removed or renamed")
	errClosed  = errors.New("file was closed by another part of the program")
	errForked  = errors.New("file belongs to another process")
)

// file is a regular file. It never keeps an incomplete block: it truncates the
// file to its last complete state before it continues.
type file struct {
	asked string // the path asked for, from which parts are numbered
	path  string // of the current part
	part  int
	f     *os.File
	made  bool     // Open made the file
	shut  bool     // f was closed by Close
	id    identity // when it was opened
	good  int64    // committed bytes
	at    int64    // written bytes
	pid   int
}

// orphans are files whose descriptor was closed by other code. They must never
// be closed, not even by the garbage collector, because the descriptor's number
// may belong to another file by now.
var orphans struct {
	sync.Mutex
	files []*os.File
}

func orphan(f *os.File) {
	orphans.Lock()
	defer orphans.Unlock()
	orphans.files = append(orphans.files, f)
}

func newFile(path string, f *os.File, size int64) (*file, error) {
	id, err := identify(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{asked: path, path: path, f: f, id: id, good: size, at: size, pid: os.Getpid()}, nil
}

// newMade returns a file that was created.
func newMade(path string, f *os.File) (*file, error) {
	o, err := newFile(path, f, 0)
	if err == nil {
		o.made = true
	}
	return o, err
}

func newAppended(path string, f *os.File) (Output, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newFile(path, f, size)
}

// ours returns an error unless the descriptor still belongs to the file we
// opened.
func (o *file) ours() (identity, error) {
	if os.Getpid() != o.pid {
		return identity{}, errForked
	}
	id, err := identify(o.f)
	if err == nil && !id.equal(&o.id) {
		err = errClosed
	}
	return id, err
}

func (o *file) Write(p []byte) (int, error) {
	info, err := o.ours()
	if err != nil {
		return 0, err
	}
	if info.size < o.good {
		return 0, errRemoved // emptied: writing on would leave a hole
	}
	n, err := o.f.WriteAt(p, o.at)
	o.at += int64(n)
	return n, err
}

func (o *file) Commit() { o.good = o.at }

func (o *file) Undo() bool {
	o.at = o.good
	if info, err := o.ours(); err == nil && info.size > o.good {
		// Best effort, so that a crash meanwhile leaves a clean end; Resume insists. A
		// file that was emptied is not filled with zeros.
		_ = o.f.Truncate(o.good)
	}
	return true
}

func (o *file) Check() error {
	info, err := o.ours()
	if err != nil {
		return err
	}
	named, err := identifyName(o.path)
	switch {
	case missing(err), err == nil && !named.equal(&o.id), info.size < o.good:
		return errRemoved
	}
	return nil // this error proves nothing; a write will show
}

// missing reports whether an error means that the file does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (o *file) Gone() bool {
	info, err := o.ours()
	return err == nil && (info.links == 0 || info.size < o.good)
}

func (o *file) Resume() (fresh, gone bool, err error) {
	info, err := o.ours()
	if errors.Is(err, errForked) {
		return false, false, err
	}
	alive := err == nil
	named, nameErr := identifyName(o.path)
	same := nameErr == nil && named.equal(&o.id)
	switch {
	case same && named.size < o.good: // emptied by another process
		return true, true, o.Next()
	case same && o.shut && named.size > o.good: // another process appended to it, or it is another file
		return true, false, o.Next()
	case same && alive:
		return false, false, o.f.Truncate(o.good)
	case same: // the descriptor is gone, but not the file
		f, err := openExisting(o.path)
		if err != nil {
			return false, false, err
		}
		locked := Lock(f)
		now, err := identify(f)
		if err != nil || !now.equal(&o.id) {
			return false, false, errors.Join(errClosed, f.Close())
		}
		if o.shut && (!locked || now.size > o.good) { // another process writes it, or wrote it since
			_ = f.Close()
			return true, false, o.Next()
		}
		o.drop()
		o.f, o.shut = f, false
		return false, false, o.f.Truncate(o.good)
	}
	gone = alive && info.links == 0 || !alive && missing(nameErr)
	if err := makeDir(o.path); err != nil {
		return false, false, err
	}
	f, err := create(o.path)
	if errors.Is(err, fs.ErrExist) {
		return true, gone, o.Next()
	}
	if err != nil {
		return false, false, err
	}
	return true, gone, o.replace(f, o.path)
}

func (o *file) Next() error {
	_, err := NextFree(o.part+1, func(n int) error {
		path := part(o.asked, n)
		f, err := create(path)
		if err != nil {
			return err
		}
		o.part = n
		return o.replace(f, path)
	})
	return err
}

func (o *file) replace(f *os.File, path string) error {
	id, err := identify(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := o.ours(); err == nil {
		_ = o.f.Close() // an error here cannot be repaired
	} else {
		o.drop()
	}
	o.f, o.shut, o.id, o.path, o.good, o.at = f, false, id, path, 0, 0
	return nil
}

// drop abandons a descriptor that other code closed.
func (o *file) drop() {
	if !o.shut {
		orphan(o.f)
	}
}

func (o *file) Remove() error {
	if named, err := identifyName(o.path); err != nil || !named.equal(&o.id) {
		return err
	}
	return os.Remove(o.path)
}

// Cut shortens a file that was opened for appending and has an incomplete end.
func Cut(out Output, size int64) error {
	o, ok := out.(*file)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := o.f.Truncate(size); err != nil {
		return err
	}
	o.good, o.at = size, size
	return nil
}

func (o *file) Size() int64  { return o.good }
func (o *file) Path() string { return o.path }
func (o *file) Interrupt()   {}

func (o *file) Sync() error {
	if _, err := o.ours(); err != nil {
		return err
	}
	return o.f.Sync()
}

func (o *file) Close() error {
	if _, err := o.ours(); err != nil {
		o.drop()
		return err
	}
	o.shut = true
	return o.f.Close()
}

// Suspend writes what waits and closes the file without its end, so that
// [Continue] can continue it; until then the Sink takes nothing. An error means
// that it cannot be continued; what was lost is an error of the last Close.
// Only regular files can be suspended: for others it does nothing and returns
// [errors.ErrUnsupported].
func (s *Sink) Suspend(ctx context.Context) error {
	if _, regular := s.out.(*file); !regular {
		return errors.ErrUnsupported
	}
	s.mu.Lock()
	s.closing.leave = !s.closing.begun
	s.mu.Unlock()
	err := s.Close(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.leave && !s.closing.given {
		return nil
	}
	return err
}

// Continue continues a suspended Sink: in its file or, if that is gone or was
// changed meanwhile, in a new one, as after an outage. After an error it may be
// called again. The counts continue.
func Continue(old *Sink, o Options) (*Sink, error) {
	old.mu.Lock()
	ok := old.closing.leave && old.closing.ended && !old.closing.given
	old.mu.Unlock()
	if !ok {
		return nil, errors.New("the file was not suspended")
	}
	s := newSink(old.out, o)
	s.path, s.part, s.stats, s.first = old.path, old.part, old.stats, old.first
	if s.first == nil {
		s.other = old.closing.result
	}
	s.writer.begun, s.writer.finished, s.writer.framing = old.writer.begun, old.writer.finished, old.writer.framing
	if !s.writer.resume() {
		s.report()
		_ = s.out.Close() // if it was opened at all
		return nil, s.err
	}
	old.mu.Lock()
	old.closing.leave = false
	old.mu.Unlock()
	go s.writer.run()
	return s, nil
}
