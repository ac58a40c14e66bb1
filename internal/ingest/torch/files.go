package torch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// Files returns the sources at paths: a file is one source, and a directory
// stands for the traces and logs directly in it, whatever their names, in the
// order of these. A file with several names, or symbolic links, is one source.
// A folder of TORCH_COMPILE_DEBUG or of tlparse is a source that an import
// refuses.
func Files(paths ...string) ([]Source, error) {
	var l sourceList
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
			// A dangling link, or a file that has just disappeared, is skipped.
			fi, err := os.Stat(path)
			if err != nil || !fi.Mode().IsRegular() {
				continue
			}
			if _, ok := profile(path); ok {
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

// sourceList adds each file once.
type sourceList struct {
	list []Source
	once fsread.Once
}

func (l *sourceList) add(path string, fi os.FileInfo) {
	if l.once.Add(fi) {
		l.list = append(l.list, Source{Name: path, ModTime: fi.ModTime(), Open: opener(path)})
	}
}

// profile reports whether a file in a directory should be imported: by its
// contents, or by its name, so that the import reports what is wrong with it.
func profile(path string) (kind fsread.Kind, ok bool) {
	if strings.HasPrefix(filepath.Base(path), ".") {
		return fsread.Unknown, false // a temporary file
	}
	kind, err := fsread.KindOf(path)
	return kind, kind.Profiler() || fsread.NamedProfile(path) && (kind == fsread.Trace || err != nil)
}

// opener returns a function that opens a file. A named pipe without a writer is
// empty, so that opening it does not block.
func opener(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}
