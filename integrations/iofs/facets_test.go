package iofs_test

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
)

// The optional parts of a reader, writer or file.
type (
	seeks  struct{ s *bytes.Reader }
	readAt struct{ s *bytes.Reader }
	sends  struct{ s *bytes.Reader }
	closes struct{ n *int }
	takes  struct{ b *bytes.Buffer }
	atW    struct{ b *bytes.Buffer }
	sized  struct{}
)

func (x seeks) Seek(o int64, w int) (int64, error)     { return x.s.Seek(o, w) }
func (x readAt) ReadAt(p []byte, o int64) (int, error) { return x.s.ReadAt(p, o) }
func (x sends) WriteTo(w io.Writer) (int64, error)     { return x.s.WriteTo(w) }
func (x closes) Close() error                          { *x.n++; return nil }
func (x takes) ReadFrom(r io.Reader) (int64, error)    { return x.b.ReadFrom(r) }
func (x atW) WriteAt(p []byte, _ int64) (int, error)   { return x.b.Write(p) }
func (sized) Size() int64                              { return 7 }
func newFacetReader(n *int) (seeks, readAt, sends, closes) {
	s := bytes.NewReader([]byte("text"))
	return seeks{s}, readAt{s}, sends{s}, closes{n}
}

// interfaces returns the optional interfaces of a value.
func interfaces(x any) string {
	var list []string
	add := func(name string, ok bool) {
		if ok {
			list = append(list, name)
		}
	}
	_, ok := x.(io.Seeker)
	add("Seeker", ok)
	_, ok = x.(io.ReaderAt)
	add("ReaderAt", ok)
	_, ok = x.(io.WriterTo)
	add("WriterTo", ok)
	_, ok = x.(io.Closer)
	add("Closer", ok)
	_, ok = x.(fs.ReadDirFile)
	add("ReadDirFile", ok)
	_, ok = x.(io.ReaderFrom)
	add("ReaderFrom", ok)
	_, ok = x.(io.WriterAt)
	add("WriterAt", ok)
	_, ok = x.(interface{ Size() int64 })
	add("Size", ok)
	_, ok = x.(fs.ReadLinkFS)
	add("ReadLinkFS", ok)
	return strings.Join(list, " ")
}

// TestInterfacesStay checks that a wrapper has the interfaces of the wrapped
// value, for every combination.
func TestInterfacesStay(t *testing.T) {
	j := newJob(t, pfw.FileOptions{})
	files := iofs.New(j.tel)
	closed := 0
	s, a, w, c := newFacetReader(&closed)
	r := struct{ io.Reader }{strings.NewReader("text")}
	for _, x := range []io.Reader{
		r, struct {
			io.Reader
			seeks
		}{r, s}, struct {
			io.Reader
			readAt
		}{r, a}, struct {
			io.Reader
			seeks
			readAt
		}{r, s, a}, struct {
			io.Reader
			sends
		}{r, w}, struct {
			io.Reader
			seeks
			sends
		}{r, s, w}, struct {
			io.Reader
			readAt
			sends
		}{r, a, w}, struct {
			io.Reader
			seeks
			readAt
			sends
		}{r, s, a, w}, struct {
			io.Reader
			closes
		}{r, c}, struct {
			io.Reader
			seeks
			closes
		}{r, s, c}, struct {
			io.Reader
			readAt
			closes
		}{r, a, c}, struct {
			io.Reader
			seeks
			readAt
			closes
		}{r, s, a, c}, struct {
			io.Reader
			sends
			closes
		}{r, w, c}, struct {
			io.Reader
			seeks
			sends
			closes
		}{r, s, w, c}, struct {
			io.Reader
			readAt
			sends
			closes
		}{r, a, w, c}, struct {
			io.Reader
			seeks
			readAt
			sends
			closes
		}{r, s, a, w, c},
	} {
		got := files.Reader(x, "/r")
		if got == x || interfaces(got) != interfaces(x) {
			t.Errorf("wrapped value has the methods %q, want %q", interfaces(got), interfaces(x))
		}
		use(got)
	}
	if closed != 8 {
		t.Errorf("closed %d times, want 8", closed)
	}
	memory := fstest.MapFS{"f": {Data: []byte("text")}}
	for _, name := range []string{"f", "."} {
		plain, err := memory.Open(name)
		check(t, err)
		wrapped, err := files.FS(memory, "memory://").Open(name)
		check(t, err)
		// Size is a method of the FileInfo, not an interface of package io.
		if want := strings.TrimSuffix(interfaces(plain), " Size"); want != interfaces(wrapped) {
			t.Errorf("wrapped value has the methods %q, want %q", interfaces(wrapped), want)
		}
		use(wrapped)
	}
	var b bytes.Buffer
	for _, x := range []io.Writer{
		struct{ io.Writer }{&b}, &b, struct {
			io.Writer
			atW
		}{&b, atW{&b}}, struct {
			io.Writer
			seeks
			atW
			takes
			closes
		}{&b, s, atW{&b}, takes{&b}, c},
	} {
		got := files.Writer(x, "/w")
		want := interfaces(x)
		if x == io.Writer(&b) {
			want = "ReaderFrom" // the writer has no reader interfaces
		}
		if interfaces(got) != want {
			t.Errorf("of %q there is %q, want %q", interfaces(x), interfaces(got), want)
		}
		use(got)
	}
	for _, x := range []io.ReaderAt{a, struct {
		readAt
		closes
	}{a, c}, struct {
		readAt
		sized
	}{a, sized{}}, struct {
		readAt
		sized
		closes
	}{a, sized{}, c}, strings.NewReader("x")} {
		got, want := files.ReaderAt(x, "s3://b/k"), interfaces(x)
		if _, ok := x.(io.Reader); ok {
			want = strings.TrimSuffix(want, " Size")
		}
		if interfaces(got) != want {
			t.Errorf("of %q there is %q, want %q", interfaces(x), interfaces(got), want)
		}
		use(got)
	}
	for _, x := range []io.WriterAt{atW{&b}, struct {
		atW
		closes
	}{atW{&b}, c}} {
		got := files.WriterAt(x, "s3://b/k")
		if interfaces(got) != interfaces(x) {
			t.Errorf("wrapped value has the methods %q, want %q", interfaces(got), interfaces(x))
		}
		use(got)
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f"))
	check(t, err)
	defer f.Close()
	for what, x := range map[string]any{
		"Reader": files.Reader(f, f.Name()), "Writer": files.Writer(f, f.Name()), "ReaderAt": files.ReaderAt(f, f.Name()), "WriterAt": files.WriterAt(f, f.Name()), "File": files.File(f),
	} {
		if _, ok := x.(*iofs.File); !ok || interfaces(x) != interfaces(f) {
			t.Errorf("%s of an *os.File is a %T, want an *iofs.File with the same methods", what, x)
		}
	}
	once := files.File(f)
	if files.Reader(once, "/x") != io.Reader(once) {
		t.Error("a File was wrapped again")
	}
	if got, want := interfaces(files.FS(os.DirFS(dir), dir)), interfaces(os.DirFS(dir)); got != want {
		t.Errorf("file system: %q, want %q", got, want)
	}
	if got := interfaces(files.FS(struct{ fs.FS }{memory}, dir)); got != "" {
		t.Errorf("file system: %q, want \"\"", got)
	}
	if _, ok := files.HTTP(http.Dir(dir), dir).(http.Dir); ok {
		t.Error("http.FileSystem of a data directory is not wrapped")
	}
	dir2 := map[string]bool{}
	for _, call := range j.calls() {
		dir2[strings.Fields(call)[1]] = true
	}
	for _, name := range []string{"read", "pread", "lseek64", "sendfile", "close", "write", "pwrite", "copy_file_range", "getdents64"} {
		if !dir2[name] {
			t.Errorf("no %s is on record", name)
		}
	}
}

// use calls all methods of x.
func use(x any) {
	buf := make([]byte, 2)
	if s, ok := x.(io.Seeker); ok {
		_, _ = s.Seek(0, io.SeekStart)
	}
	if r, ok := x.(io.Reader); ok {
		_, _ = r.Read(buf)
	}
	if r, ok := x.(io.ReaderAt); ok {
		_, _ = r.ReadAt(buf, 1)
	}
	if w, ok := x.(io.WriterTo); ok {
		_, _ = w.WriteTo(io.Discard)
	}
	if w, ok := x.(io.Writer); ok {
		_, _ = w.Write(buf)
	}
	if w, ok := x.(io.WriterAt); ok {
		_, _ = w.WriteAt(buf, 1)
	}
	if r, ok := x.(io.ReaderFrom); ok {
		_, _ = r.ReadFrom(strings.NewReader("x"))
	}
	if d, ok := x.(fs.ReadDirFile); ok {
		_, _ = d.ReadDir(-1)
	}
	if c, ok := x.(io.Closer); ok {
		_ = c.Close()
	}
}
