package iofs

import (
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// maxNames limits the names that a file system remembers.
const maxNames = 1 << 14

// names finds the recorders of the files below a root.
type names struct {
	files *Files
	root  string

	mu    sync.RWMutex
	known map[string]dispatch.File // nil for a file that is not recorded
}

func newNames(f *Files, root string) *names {
	return &names{files: f, root: strings.TrimRight(absolute(root), "/"), known: make(map[string]dispatch.File)}
}

// path returns the path of a name. A name cannot leave the root.
func (n *names) path(name string) string {
	name = path.Clean("/" + name)
	if name == "/" {
		return n.root
	}
	return n.root + name
}

func (n *names) recorderFor(name string) recorder {
	n.mu.RLock()
	file, ok := n.known[name]
	n.mu.RUnlock()
	if !ok {
		file = n.files.log.File(n.path(name))
		n.mu.Lock()
		if len(n.known) >= maxNames {
			clear(n.known)
		}
		n.known[strings.Clone(name)] = file
		n.mu.Unlock()
	}
	if file == nil {
		return recorder{}
	}
	return recorder{file: file, log: n.files.log, ctx: n.files.ctx}
}

// fsys wraps an fs.FS. It has all optional interfaces of package fs except that
// of links: the functions of package fs work for any file system.
type fsys struct {
	*names
	of fs.FS
}

// linked is an fsys whose wrapped file system reads links.
type linked struct{ fsys }

// FS wraps a file system with the root path root, which may be a name with a
// scheme: os.DirFS(dir) has the root dir, and an embedded file system a name
// chosen for the trace, such as embed://models. If the file system implements
// ReadFile itself, a call is recorded as one read, which includes opening and
// closing.
func (f *Files) FS(fsystem fs.FS, root string) fs.FS {
	if f == nil || f.log == nil || fsystem == nil {
		return fsystem
	}
	x := fsys{newNames(f, root), fsystem}
	if is[fs.ReadLinkFS](fsystem) {
		return &linked{x}
	}
	return &x
}

// Open implements fs.FS.
func (f *fsys) Open(name string) (fs.File, error) {
	rec := f.names.recorderFor(name)
	start := rec.now()
	file, err := f.of.Open(name)
	rec.done(dispatch.FileOpen, start, err)
	if err != nil || !rec.isRecording() {
		return file, err
	}
	return wrapFile(file, rec), nil
}

// Stat implements fs.StatFS.
func (f *fsys) Stat(name string) (fs.FileInfo, error) {
	rec := f.names.recorderFor(name)
	start := rec.now()
	info, err := fs.Stat(f.of, name)
	rec.done(dispatch.FileStat, start, err)
	return info, err
}

// ReadFile implements fs.ReadFileFS.
func (f *fsys) ReadFile(name string) ([]byte, error) {
	if !is[fs.ReadFileFS](f.of) {
		return fs.ReadFile(onlyOpen{f}, name)
	}
	rec := f.names.recorderFor(name)
	start := rec.now()
	data, err := fs.ReadFile(f.of, name)
	rec.moved(dispatch.FileRead, start, int64(len(data)), int64(len(data)), -1, err)
	return data, err
}

// ReadDir implements fs.ReadDirFS.
func (f *fsys) ReadDir(name string) ([]fs.DirEntry, error) {
	rec := f.names.recorderFor(name)
	start := rec.now()
	list, err := fs.ReadDir(f.of, name)
	rec.listed(start, len(list), err)
	return list, err
}

// Glob implements fs.GlobFS.
func (f *fsys) Glob(pattern string) ([]string, error) {
	if g, ok := f.of.(fs.GlobFS); ok {
		return g.Glob(pattern)
	}
	return fs.Glob(withDirs{onlyOpen{f}}, pattern)
}

// Sub implements fs.SubFS.
func (f *fsys) Sub(dir string) (fs.FS, error) {
	sub, err := fs.Sub(f.of, dir)
	if err != nil {
		return nil, err
	}
	return f.files.FS(sub, f.path(dir)), nil
}

// ReadLink implements fs.ReadLinkFS.
func (f *linked) ReadLink(name string) (string, error) { return fs.ReadLink(f.of, name) }

// Lstat implements fs.ReadLinkFS.
func (f *linked) Lstat(name string) (fs.FileInfo, error) {
	rec := f.names.recorderFor(name)
	start := rec.now()
	info, err := fs.Lstat(f.of, name)
	rec.done(dispatch.FileStat, start, err)
	return info, err
}

// onlyOpen hides the optional interfaces, so that package fs uses Open.
type onlyOpen struct{ f *fsys }

func (o onlyOpen) Open(name string) (fs.File, error) { return o.f.Open(name) }

// withDirs exposes two of the interfaces again.
type withDirs struct{ onlyOpen }

func (w withDirs) ReadDir(name string) ([]fs.DirEntry, error) { return w.f.ReadDir(name) }
func (w withDirs) Stat(name string) (fs.FileInfo, error)      { return w.f.Stat(name) }

// httpFS wraps an http.FileSystem.
type httpFS struct {
	*names
	of http.FileSystem
}

// HTTP wraps the file system of an http.FileServer; for root see FS.
func (f *Files) HTTP(fsystem http.FileSystem, root string) http.FileSystem {
	if f == nil || f.log == nil || fsystem == nil {
		return fsystem
	}
	return &httpFS{newNames(f, root), fsystem}
}

// Open implements http.FileSystem.
func (f *httpFS) Open(name string) (http.File, error) {
	rec := f.names.recorderFor(name)
	start := rec.now()
	opened, err := f.of.Open(name)
	rec.done(dispatch.FileOpen, start, err)
	if err != nil || !rec.isRecording() {
		return opened, err
	}
	if all, ok := wrapFile(opened, rec).(http.File); ok {
		return all, nil // an *os.File
	}
	return &httpFile{fileS{file{stream{inner: opened, rec: rec}, opened}}, opened}, nil
}

// httpFile is an http.File without optional interfaces: package http uses none.
type httpFile struct {
	fileS
	from http.File
}

// Readdir implements http.File.
func (f *httpFile) Readdir(n int) ([]fs.FileInfo, error) {
	start := f.rec.now()
	list, err := f.from.Readdir(n)
	f.rec.listed(start, len(list), err)
	return list, err
}
