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
	Info fs.FileInfo // nil where Err is set
	Err  error       // why it, or a folder below the path, cannot be looked at

	Named bool // it is one of the paths
	Below bool // it lies in a folder
}

// ErrNoMatch is why a pattern stands for no file.
var ErrNoMatch = errors.New("no file matches; check the pattern")

// Walk returns the files that paths stand for, in their order: a file itself; of a
// folder all regular files below it, by name; of a pattern, where no file has it
// for a name, all that match, and what is in folders that do. A file with several
// names, or links, is there once. What is gone by the time that it is looked at, or
// is no regular file, is left out unless a path names it. An error means that a path
// cannot be looked at at all.
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

// findBelow finds what is in a folder, which may be a link to one.
func findBelow(dir string) ([]Found, error) {
	root := dir
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		root = dir + string(filepath.Separator)
	}
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

// Once tells whether a file was there before under another name. The zero Once has
// seen none.
type Once struct {
	seen map[fileKey][]fs.FileInfo
}

// fileKey finds the files that may be one.
type fileKey struct{ size, time int64 }

// Add reports whether a file is a new one.
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
