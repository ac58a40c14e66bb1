package fsread

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Found is a file that a path stands for.
type Found struct {
	Path string
	Info fs.FileInfo // nil if Err is set
	Err  error       // why the file, or a folder below the path, cannot be read

	Named bool // the path was given explicitly
	Below bool // the file is in a folder
}

// ErrNoMatch is returned for a pattern that matches no file.
var ErrNoMatch = errors.New("no file matches; check the pattern")

// Walk returns the files that paths stand for, in their order: a file itself;
// for a folder all regular files below it, sorted by name; for a pattern, if no
// file has this name, all that match, and the files in matching folders. A file
// with several names or links is returned once. Files that have disappeared,
// and files that are not regular, are left out unless a path names them. An
// error means that a path cannot be read at all.
func Walk(paths ...string) ([]Found, error) {
	var out []Found
	var once Once
	add := func(f Found) {
		switch {
		case errors.Is(f.Err, fs.ErrNotExist), f.Err == nil && !f.Named && !f.Info.Mode().IsRegular(), f.Err == nil && !once.Add(f.Info):
		default:
			out = append(out, f)
		}
	}
	for _, arg := range paths {
		names, named := []string{arg}, true
		if _, err := os.Stat(arg); err != nil {
			if !strings.ContainsAny(arg, "*?[") {
				return nil, err
			}
			if names, err = filepath.Glob(arg); err != nil {
				return nil, fmt.Errorf("%s: %w; write [ in names as \\[", arg, err)
			}
			if len(names) == 0 {
				return nil, fmt.Errorf("%s: %w", arg, ErrNoMatch)
			}
			named = false
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil || !info.IsDir() {
				add(Found{Path: name, Info: info, Err: err, Named: named})
				continue
			}
			files, err := findBelow(name)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				add(f)
			}
		}
	}
	return out, nil
}

// Named returns the regular files with a name that matches, among some paths and in the
// folders below them, each once. It leaves out links to files, and what cannot be read.
func Named(match func(name string) bool, paths ...string) (out []string) {
	var once Once
	for _, path := range paths {
		_ = filepath.WalkDir(FolderOf(path), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !match(d.Name()) {
				return nil //nolint:nilerr // as documented
			}
			if info, err := d.Info(); err == nil && once.Add(info) {
				out = append(out, path)
			}
			return nil
		})
	}
	return out
}

// FolderOf returns a path with which [filepath.WalkDir] follows a link to a folder. For
// other files it is the path itself.
func FolderOf(path string) string {
	link, err := os.Lstat(path)
	if err != nil || link.Mode()&fs.ModeSymlink == 0 {
		return path
	}
	if to, err := os.Stat(path); err != nil || !to.IsDir() {
		return path
	}
	return path + string(filepath.Separator)
}

// findBelow returns the files in a folder, which may be a link to one.
func findBelow(dir string) ([]Found, error) {
	root := FolderOf(dir)
	var out []Found
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil: // a folder that cannot be read does not hide the others
			out = append(out, Found{Path: path, Err: err, Below: true})
		case !d.IsDir():
			info, err := os.Stat(path)
			out = append(out, Found{Path: path, Info: info, Err: err, Below: true})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Found) int { return strings.Compare(a.Path, b.Path) })
	return out, err
}

// Once detects files with several names. The zero value is ready for use.
type Once struct {
	seen map[fileKey][]fs.FileInfo
}

// fileKey identifies candidates for the same file.
type fileKey struct{ size, time int64 }

// Add reports whether a file is new.
func (o *Once) Add(info fs.FileInfo) bool {
	key := fileKey{info.Size(), info.ModTime().UnixNano()}
	if slices.ContainsFunc(o.seen[key], func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return false
	}
	if o.seen == nil {
		o.seen = make(map[fileKey][]fs.FileInfo)
	}
	o.seen[key] = append(o.seen[key], info)
	return true
}
