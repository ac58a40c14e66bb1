package iofs

import (
	"bufio"
	"io"
	"io/fs"

	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// stream has the common part of the wrappers of readers, writers and files.
type stream struct {
	inner any
	rec   recorder
	std   bool // it has a buffer
}

// newStream determines whether x has a buffer.
func newStream(x any, rec recorder) stream {
	switch x.(type) {
	case *bufio.Reader, *bufio.Writer, *bufio.ReadWriter:
		return stream{x, rec, true}
	}
	return stream{x, rec, false}
}

func (s *stream) op(posix, std dispatch.FileOp) dispatch.FileOp {
	if s.std {
		return std
	}
	return posix
}

func (s *stream) seek(offset int64, whence int) (int64, error) {
	start := s.rec.now()
	at, err := s.inner.(io.Seeker).Seek(offset, whence)
	s.rec.sought(s.op(dispatch.FileSeek, dispatch.FileStdSeek), start, offset, whence, at, err)
	return at, err
}

func (s *stream) readAt(p []byte, off int64) (int, error) {
	start := s.rec.now()
	n, err := s.inner.(io.ReaderAt).ReadAt(p, off)
	s.rec.moved(dispatch.FilePread, start, int64(n), int64(len(p)), off, err)
	return n, err
}

func (s *stream) writeAt(p []byte, off int64) (int, error) {
	start := s.rec.now()
	n, err := s.inner.(io.WriterAt).WriteAt(p, off)
	s.rec.moved(dispatch.FilePwrite, start, int64(n), int64(len(p)), off, err)
	return n, err
}

func (s *stream) writeTo(w io.Writer) (int64, error) {
	start := s.rec.now()
	n, err := s.inner.(io.WriterTo).WriteTo(w)
	s.rec.moved(s.op(dispatch.FileSend, dispatch.FileStdRead), start, n, -1, -1, err)
	return n, err
}

func (s *stream) readFrom(r io.Reader) (int64, error) {
	start := s.rec.now()
	n, err := s.inner.(io.ReaderFrom).ReadFrom(r)
	s.rec.moved(s.op(dispatch.FileCopy, dispatch.FileStdWrite), start, n, -1, -1, err)
	return n, err
}

func (s *stream) readDir(n int) ([]fs.DirEntry, error) {
	start := s.rec.now()
	list, err := s.inner.(fs.ReadDirFile).ReadDir(n)
	s.rec.listed(start, len(list), err)
	return list, err
}

func (s *stream) closeIt() error {
	start := s.rec.now()
	err := s.inner.(io.Closer).Close()
	s.rec.done(s.op(dispatch.FileClose, dispatch.FileStdClose), start, err)
	return err
}

// file wraps an fs.File.
type file struct {
	stream
	of fs.File
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	start := f.rec.now()
	n, err := f.of.Read(p)
	f.rec.moved(dispatch.FileRead, start, int64(n), int64(len(p)), -1, err)
	return n, err
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) {
	start := f.rec.now()
	info, err := f.of.Stat()
	f.rec.done(dispatch.FileStat, start, err)
	return info, err
}

// Close implements io.Closer.
func (f *file) Close() error { return f.closeIt() }

// reader wraps an io.Reader.
type reader struct {
	stream
	of io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	start := r.rec.now()
	n, err := r.of.Read(p)
	r.rec.moved(r.op(dispatch.FileRead, dispatch.FileStdRead), start, int64(n), int64(len(p)), -1, err)
	return n, err
}

// writer wraps an io.Writer.
type writer struct {
	stream
	of io.Writer
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	start := w.rec.now()
	n, err := w.of.Write(p)
	w.rec.moved(w.op(dispatch.FileWrite, dispatch.FileStdWrite), start, int64(n), int64(len(p)), -1, err)
	return n, err
}

// at wraps an io.ReaderAt or io.WriterAt, such as an object of a store.
type at struct{ stream }

type (
	readerAt       struct{ at }
	readCloserAt   struct{ readerAt }
	writerAt       struct{ at }
	writeCloserAt  struct{ writerAt }
	sizedReader    struct{ readerAt }
	sizedRdrCloser struct{ sizedReader }
)

func (x *readerAt) ReadAt(p []byte, off int64) (int, error)  { return x.readAt(p, off) }
func (x *writerAt) WriteAt(p []byte, off int64) (int, error) { return x.writeAt(p, off) }
func (x *readCloserAt) Close() error                         { return x.closeIt() }
func (x *writeCloserAt) Close() error                        { return x.closeIt() }
func (x *sizedRdrCloser) Close() error                       { return x.closeIt() }
func (x *sizedReader) Size() int64                           { return x.inner.(interface{ Size() int64 }).Size() }
