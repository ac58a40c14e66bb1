package iofs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// File is an *os.File whose calls are recorded; it has all methods of *os.File.
// It records only the methods listed here.
type File struct {
	*os.File
	stream
}

func newOSFile(file *os.File, rec recorder) *File { return &File{file, stream{inner: file, rec: rec}} }

// Open replaces os.Open.
func (f *Files) Open(name string) (*File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile replaces os.OpenFile.
func (f *Files) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	rec := f.recorderFor(name)
	start := rec.now()
	file, err := os.OpenFile(name, flag, perm)
	rec.done(dispatch.FileOpen, start, err)
	if err != nil {
		return nil, err
	}
	return newOSFile(file, rec), nil
}

// ReadFile replaces os.ReadFile. It is recorded as open64, stat, reads and
// close.
func (f *Files) ReadFile(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	data := make([]byte, 0, max(size+1, 512)) // one byte more, so that one read finds the end
	for {
		n, err := file.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return data, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}

// File wraps an open file; its path is the file's name. f is not nil.
func (f *Files) File(file *os.File) *File { return newOSFile(file, f.recorderFor(file.Name())) }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	start := f.rec.now()
	n, err := f.File.Read(p)
	f.rec.moved(dispatch.FileRead, start, int64(n), int64(len(p)), -1, err)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.readAt(p, off) }

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	start := f.rec.now()
	n, err := f.File.Write(p)
	f.rec.moved(dispatch.FileWrite, start, int64(n), int64(len(p)), -1, err)
	return n, err
}

// WriteString implements io.StringWriter.
func (f *File) WriteString(s string) (int, error) {
	start := f.rec.now()
	n, err := f.File.WriteString(s)
	f.rec.moved(dispatch.FileWrite, start, int64(n), int64(len(s)), -1, err)
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *File) WriteAt(p []byte, off int64) (int, error) { return f.writeAt(p, off) }

// WriteTo implements io.WriterTo; for its time see the package comment.
func (f *File) WriteTo(w io.Writer) (int64, error) { return f.writeTo(w) }

// ReadFrom implements io.ReaderFrom; for its time see the package comment. From
// another File, in whole or in part, it uses the system's copy from file to
// file, and both files have a record.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	start := f.rec.now()
	var from *File
	limited, _ := r.(*io.LimitedReader)
	if limited != nil {
		from, _ = limited.R.(*File)
	} else {
		from, _ = r.(*File)
	}
	if from != nil { // package os checks for its own type
		if r = from.File; limited != nil {
			part := *limited
			part.R, r = r, &part
			defer func() { limited.N = part.N }()
		}
	}
	n, err := f.File.ReadFrom(r)
	f.rec.moved(dispatch.FileCopy, start, n, -1, -1, err)
	if from != nil {
		from.rec.moved(dispatch.FileSend, start, n, -1, -1, err)
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.seek(offset, whence) }

// Stat implements fs.File.
func (f *File) Stat() (fs.FileInfo, error) {
	start := f.rec.now()
	info, err := f.File.Stat()
	f.rec.done(dispatch.FileStat, start, err)
	return info, err
}

// ReadDir implements fs.ReadDirFile.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) { return f.readDir(n) }

// Readdir implements http.File.
func (f *File) Readdir(n int) ([]fs.FileInfo, error) {
	start := f.rec.now()
	list, err := f.File.Readdir(n)
	f.rec.listed(start, len(list), err)
	return list, err
}

// Sync calls Sync of *os.File.
func (f *File) Sync() error {
	start := f.rec.now()
	err := f.File.Sync()
	f.rec.done(dispatch.FileSync, start, err)
	return err
}

// Truncate calls Truncate of *os.File.
func (f *File) Truncate(size int64) error {
	start := f.rec.now()
	err := f.File.Truncate(size)
	f.rec.done(dispatch.FileTruncate, start, err)
	return err
}

// Close implements io.Closer.
func (f *File) Close() error { return f.closeIt() }
