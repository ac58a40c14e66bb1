package pytorch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Files returns the sources behind paths: a file stands for itself, a directory
// for the traces and logs in it (and not below it), in the order of their names.
// A file that is there under several names, or through symbolic links, is one
// source. A folder of TORCH_COMPILE_DEBUG or of tlparse is a source that an
// import refuses.
func Files(paths ...string) ([]Source, error) {
	l := sourceList{seen: map[fileKey][]os.FileInfo{}}
	for _, p := range paths {
		fi, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("pytorch: %w", err)
		}
		if !fi.IsDir() {
			l.add(p, fi)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, fmt.Errorf("pytorch: %w", err)
		}
		if why := compileDir(p, entries); why != nil {
			l.list = append(l.list, refusedSource(p, why))
			continue
		}
		any := false
		for _, e := range entries {
			path := filepath.Join(p, e.Name())
			// A link to nothing, or a file that has just gone, is none.
			if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && (traceName(e.Name()) || compileLog(path)) {
				l.add(path, fi)
				any = true
			}
		}
		if !any {
			l.list = append(l.list, compileDirsIn(p, entries)...)
		}
	}
	return l.list, nil
}

// sourceList takes each file once.
type sourceList struct {
	list []Source
	seen map[fileKey][]os.FileInfo
}

// fileKey is what two names of one file have in common.
type fileKey struct{ size, modTime int64 }

func (l *sourceList) add(path string, fi os.FileInfo) {
	k := fileKey{fi.Size(), fi.ModTime().UnixNano()}
	for _, other := range l.seen[k] {
		if os.SameFile(fi, other) {
			return
		}
	}
	l.seen[k] = append(l.seen[k], fi)
	l.list = append(l.list, Source{Name: path, ModTime: fi.ModTime(), Open: opener(path)})
}

// opener opens a file. A named pipe without a writer is empty instead of
// holding up the program until there is one.
func opener(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}
