package iofs

// A wrapper must have exactly the optional interfaces of the wrapped value,
// because packages io and io/fs choose their method by them. So there is a type
// for each set of interfaces. Each adds the method with the last letter of its
// name to the type that it embeds, so that a wrapper is one allocation.

import (
	"io"
	"io/fs"
)

// The sets of interfaces of an fs.File: S is io.Seeker, A io.ReaderAt, T io.WriterTo, D fs.ReadDirFile.
type (
	fileS    struct{ file }
	fileA    struct{ file }
	fileSA   struct{ fileS }
	fileT    struct{ file }
	fileST   struct{ fileS }
	fileAT   struct{ fileA }
	fileSAT  struct{ fileSA }
	fileD    struct{ file }
	fileSD   struct{ fileS }
	fileAD   struct{ fileA }
	fileSAD  struct{ fileSA }
	fileTD   struct{ fileT }
	fileSTD  struct{ fileST }
	fileATD  struct{ fileAT }
	fileSATD struct{ fileSAT }
)

func (x *fileS) Seek(offset int64, whence int) (int64, error) { return x.seek(offset, whence) }
func (x *fileA) ReadAt(p []byte, off int64) (int, error)      { return x.readAt(p, off) }
func (x *fileSA) ReadAt(p []byte, off int64) (int, error)     { return x.readAt(p, off) }
func (x *fileT) WriteTo(w io.Writer) (int64, error)           { return x.writeTo(w) }
func (x *fileST) WriteTo(w io.Writer) (int64, error)          { return x.writeTo(w) }
func (x *fileAT) WriteTo(w io.Writer) (int64, error)          { return x.writeTo(w) }
func (x *fileSAT) WriteTo(w io.Writer) (int64, error)         { return x.writeTo(w) }
func (x *fileD) ReadDir(n int) ([]fs.DirEntry, error)         { return x.readDir(n) }
func (x *fileSD) ReadDir(n int) ([]fs.DirEntry, error)        { return x.readDir(n) }
func (x *fileAD) ReadDir(n int) ([]fs.DirEntry, error)        { return x.readDir(n) }
func (x *fileSAD) ReadDir(n int) ([]fs.DirEntry, error)       { return x.readDir(n) }
func (x *fileTD) ReadDir(n int) ([]fs.DirEntry, error)        { return x.readDir(n) }
func (x *fileSTD) ReadDir(n int) ([]fs.DirEntry, error)       { return x.readDir(n) }
func (x *fileATD) ReadDir(n int) ([]fs.DirEntry, error)       { return x.readDir(n) }
func (x *fileSATD) ReadDir(n int) ([]fs.DirEntry, error)      { return x.readDir(n) }

// newFile adds the optional interfaces of the wrapped file to x.
func newFile(x file, has int) fs.File {
	switch has {
	case 1:
		return &fileS{x}
	case 2:
		return &fileA{x}
	case 3:
		return &fileSA{fileS{x}}
	case 4:
		return &fileT{x}
	case 5:
		return &fileST{fileS{x}}
	case 6:
		return &fileAT{fileA{x}}
	case 7:
		return &fileSAT{fileSA{fileS{x}}}
	case 8:
		return &fileD{x}
	case 9:
		return &fileSD{fileS{x}}
	case 10:
		return &fileAD{fileA{x}}
	case 11:
		return &fileSAD{fileSA{fileS{x}}}
	case 12:
		return &fileTD{fileT{x}}
	case 13:
		return &fileSTD{fileST{fileS{x}}}
	case 14:
		return &fileATD{fileAT{fileA{x}}}
	case 15:
		return &fileSATD{fileSAT{fileSA{fileS{x}}}}
	}
	only := x // otherwise every x would escape to the heap
	return &only
}

// The sets of interfaces of an io.Reader: S is io.Seeker, A io.ReaderAt, T io.WriterTo, C io.Closer.
type (
	readerS    struct{ reader }
	readerA    struct{ reader }
	readerSA   struct{ readerS }
	readerT    struct{ reader }
	readerST   struct{ readerS }
	readerAT   struct{ readerA }
	readerSAT  struct{ readerSA }
	readerC    struct{ reader }
	readerSC   struct{ readerS }
	readerAC   struct{ readerA }
	readerSAC  struct{ readerSA }
	readerTC   struct{ readerT }
	readerSTC  struct{ readerST }
	readerATC  struct{ readerAT }
	readerSATC struct{ readerSAT }
)

func (x *readerS) Seek(offset int64, whence int) (int64, error) { return x.seek(offset, whence) }
func (x *readerA) ReadAt(p []byte, off int64) (int, error)      { return x.readAt(p, off) }
func (x *readerSA) ReadAt(p []byte, off int64) (int, error)     { return x.readAt(p, off) }
func (x *readerT) WriteTo(w io.Writer) (int64, error)           { return x.writeTo(w) }
func (x *readerST) WriteTo(w io.Writer) (int64, error)          { return x.writeTo(w) }
func (x *readerAT) WriteTo(w io.Writer) (int64, error)          { return x.writeTo(w) }
func (x *readerSAT) WriteTo(w io.Writer) (int64, error)         { return x.writeTo(w) }
func (x *readerC) Close() error                                 { return x.closeIt() }
func (x *readerSC) Close() error                                { return x.closeIt() }
func (x *readerAC) Close() error                                { return x.closeIt() }
func (x *readerSAC) Close() error                               { return x.closeIt() }
func (x *readerTC) Close() error                                { return x.closeIt() }
func (x *readerSTC) Close() error                               { return x.closeIt() }
func (x *readerATC) Close() error                               { return x.closeIt() }
func (x *readerSATC) Close() error                              { return x.closeIt() }

// newReader adds the optional interfaces of the wrapped reader to x.
func newReader(x reader, has int) io.Reader {
	switch has {
	case 1:
		return &readerS{x}
	case 2:
		return &readerA{x}
	case 3:
		return &readerSA{readerS{x}}
	case 4:
		return &readerT{x}
	case 5:
		return &readerST{readerS{x}}
	case 6:
		return &readerAT{readerA{x}}
	case 7:
		return &readerSAT{readerSA{readerS{x}}}
	case 8:
		return &readerC{x}
	case 9:
		return &readerSC{readerS{x}}
	case 10:
		return &readerAC{readerA{x}}
	case 11:
		return &readerSAC{readerSA{readerS{x}}}
	case 12:
		return &readerTC{readerT{x}}
	case 13:
		return &readerSTC{readerST{readerS{x}}}
	case 14:
		return &readerATC{readerAT{readerA{x}}}
	case 15:
		return &readerSATC{readerSAT{readerSA{readerS{x}}}}
	}
	only := x // otherwise every x would escape to the heap
	return &only
}

// The sets of interfaces of an io.Writer: S is io.Seeker, A io.WriterAt, F io.ReaderFrom, C io.Closer.
type (
	writerS    struct{ writer }
	writerA    struct{ writer }
	writerSA   struct{ writerS }
	writerF    struct{ writer }
	writerSF   struct{ writerS }
	writerAF   struct{ writerA }
	writerSAF  struct{ writerSA }
	writerC    struct{ writer }
	writerSC   struct{ writerS }
	writerAC   struct{ writerA }
	writerSAC  struct{ writerSA }
	writerFC   struct{ writerF }
	writerSFC  struct{ writerSF }
	writerAFC  struct{ writerAF }
	writerSAFC struct{ writerSAF }
)

func (x *writerS) Seek(offset int64, whence int) (int64, error) { return x.seek(offset, whence) }
func (x *writerA) WriteAt(p []byte, off int64) (int, error)     { return x.writeAt(p, off) }
func (x *writerSA) WriteAt(p []byte, off int64) (int, error)    { return x.writeAt(p, off) }
func (x *writerF) ReadFrom(r io.Reader) (int64, error)          { return x.readFrom(r) }
func (x *writerSF) ReadFrom(r io.Reader) (int64, error)         { return x.readFrom(r) }
func (x *writerAF) ReadFrom(r io.Reader) (int64, error)         { return x.readFrom(r) }
func (x *writerSAF) ReadFrom(r io.Reader) (int64, error)        { return x.readFrom(r) }
func (x *writerC) Close() error                                 { return x.closeIt() }
func (x *writerSC) Close() error                                { return x.closeIt() }
func (x *writerAC) Close() error                                { return x.closeIt() }
func (x *writerSAC) Close() error                               { return x.closeIt() }
func (x *writerFC) Close() error                                { return x.closeIt() }
func (x *writerSFC) Close() error                               { return x.closeIt() }
func (x *writerAFC) Close() error                               { return x.closeIt() }
func (x *writerSAFC) Close() error                              { return x.closeIt() }

// newWriter adds the optional interfaces of the wrapped writer to x.
func newWriter(x writer, has int) io.Writer {
	switch has {
	case 1:
		return &writerS{x}
	case 2:
		return &writerA{x}
	case 3:
		return &writerSA{writerS{x}}
	case 4:
		return &writerF{x}
	case 5:
		return &writerSF{writerS{x}}
	case 6:
		return &writerAF{writerA{x}}
	case 7:
		return &writerSAF{writerSA{writerS{x}}}
	case 8:
		return &writerC{x}
	case 9:
		return &writerSC{writerS{x}}
	case 10:
		return &writerAC{writerA{x}}
	case 11:
		return &writerSAC{writerSA{writerS{x}}}
	case 12:
		return &writerFC{writerF{x}}
	case 13:
		return &writerSFC{writerSF{writerS{x}}}
	case 14:
		return &writerAFC{writerAF{writerA{x}}}
	case 15:
		return &writerSAFC{writerSAF{writerSA{writerS{x}}}}
	}
	only := x // otherwise every x would escape to the heap
	return &only
}
