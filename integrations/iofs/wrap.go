package iofs

import (
	"io"
	"io/fs"
	"os"
)

// wrapFile wraps a file and keeps its interfaces.
func wrapFile(x fs.File, rec recorder) fs.File {
	switch x := x.(type) {
	case *os.File:
		return newOSFile(x, rec)
	case *File:
		return x // already wrapped
	}
	return newFile(file{stream{inner: x, rec: rec}, x}, has(is[io.Seeker](x), is[io.ReaderAt](x), is[io.WriterTo](x), is[fs.ReadDirFile](x)))
}

// Reader wraps a reader of the file at path, which may be a name with a scheme,
// such as s3://bucket/key. The result is an io.Seeker, io.ReaderAt, io.WriterTo
// and io.Closer if r is; for an fs.File it is an fs.File, for an *os.File a
// *File.
func (f *Files) Reader(r io.Reader, path string) io.Reader {
	rec := f.recorderFor(path)
	if !rec.isRecording() || is[*File](r) {
		return r
	}
	if x, ok := r.(fs.File); ok {
		return wrapFile(x, rec)
	}
	return newReader(reader{newStream(r, rec), r}, has(is[io.Seeker](r), is[io.ReaderAt](r), is[io.WriterTo](r), is[io.Closer](r)))
}

// Writer wraps a writer of the file at path. The result is an io.Seeker,
// io.WriterAt, io.ReaderFrom and io.Closer if w is; for an *os.File it is a
// *File.
func (f *Files) Writer(w io.Writer, path string) io.Writer {
	rec := f.recorderFor(path)
	if !rec.isRecording() || is[*File](w) {
		return w
	}
	if x, ok := w.(*os.File); ok {
		return newOSFile(x, rec)
	}
	return newWriter(writer{newStream(w, rec), w}, has(is[io.Seeker](w), is[io.WriterAt](w), is[io.ReaderFrom](w), is[io.Closer](w)))
}

// ReaderAt wraps a reader of parts of the file or object at path. If r is an
// io.Reader too, the result is that of [Files.Reader]; otherwise it has the
// methods Close and Size if r has them.
func (f *Files) ReaderAt(r io.ReaderAt, path string) io.ReaderAt {
	if x, ok := r.(io.Reader); ok {
		return f.Reader(x, path).(io.ReaderAt)
	}
	rec := f.recorderFor(path)
	if !rec.isRecording() {
		return r
	}
	x := readerAt{at{stream{inner: r, rec: rec}}}
	switch has(is[io.Closer](r), is[interface{ Size() int64 }](r)) {
	case 1:
		return &readCloserAt{x}
	case 2:
		return &sizedReader{x}
	case 3:
		return &sizedRdrCloser{sizedReader{x}}
	}
	return &x
}

// WriterAt wraps a writer of parts of the file or object at path. If w is an
// io.Writer too, the result is that of [Files.Writer]; otherwise it has the
// method Close if w has it.
func (f *Files) WriterAt(w io.WriterAt, path string) io.WriterAt {
	if x, ok := w.(io.Writer); ok {
		return f.Writer(x, path).(io.WriterAt)
	}
	rec := f.recorderFor(path)
	if !rec.isRecording() {
		return w
	}
	x := writerAt{at{stream{inner: w, rec: rec}}}
	if is[io.Closer](w) {
		return &writeCloserAt{x}
	}
	return &x
}

// has returns a set of interfaces, one bit each, the first one the lowest.
func has(of ...bool) (bits int) {
	for i, ok := range of {
		if ok {
			bits |= 1 << i
		}
	}
	return bits
}

func is[T any](x any) bool {
	_, ok := x.(T)
	return ok
}
