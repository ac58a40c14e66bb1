package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// isTrace reports whether a file of a directory is taken for a trace.
func isTrace(name string) bool {
	return strings.HasSuffix(name, ".pfw") || strings.HasSuffix(name, ".pfw.gz")
}

// inputs collects files, each once, whatever names it has.
type inputs struct {
	files []string
	seen  map[fileKey][]fs.FileInfo
}

// fileKey finds the files that may be one.
type fileKey struct{ size, time int64 }

func (in *inputs) add(path string, info fs.FileInfo) {
	key := fileKey{info.Size(), info.ModTime().UnixNano()}
	for _, other := range in.seen[key] {
		if os.SameFile(info, other) {
			return
		}
	}
	if in.seen == nil {
		in.seen = make(map[fileKey][]fs.FileInfo)
	}
	in.seen[key] = append(in.seen[key], info)
	in.files = append(in.files, path)
}

// expand returns the trace files that the arguments stand for, each once, in
// the order of the arguments.
func expand(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usage("no trace is given; name files, globs or directories, such as out/*.pfw.gz")
	}
	var in inputs
	for _, arg := range args {
		info, err := os.Stat(arg)
		found, below := []string{arg}, false
		switch {
		case err == nil && info.IsDir():
			below = true
			if found, err = tracesBelow(arg); err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, usage("%s: no .pfw or .pfw.gz file is in this directory; name another one", arg)
			}
		case err == nil && !info.Mode().IsRegular():
			return nil, usage("%s: is no regular file, and a trace is read more than once; write it to a file first", arg)
		case err == nil:
		case strings.ContainsAny(arg, "*?["):
			if found, err = filepath.Glob(arg); err != nil {
				return nil, usage("%s: %v; quote names that hold [ as \\[", arg, err)
			}
			if len(found) == 0 {
				return nil, usage("%s: no file matches; check the pattern", arg)
			}
		default:
			return nil, err
		}
		for _, path := range found {
			// What a pattern or a directory has beside files is left out.
			if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() || below && info.IsDir() {
				in.take(path, info, err)
			}
		}
	}
	if len(in.files) == 0 {
		return nil, usage("%s: no file is here; name traces or directories of traces", strings.Join(args, ", "))
	}
	return in.files, nil
}

// take adds a file, also one that will be told about when it is opened.
func (in *inputs) take(path string, info fs.FileInfo, err error) {
	if err != nil {
		in.files = append(in.files, path)
		return
	}
	in.add(path, info)
}

func tracesBelow(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir:
			return err
		case errors.Is(err, fs.ErrNotExist): // a temporary one, of a job that runs
		case err != nil: // a folder that cannot be read does not hide the others
			found = append(found, path)
		case !d.IsDir() && isTrace(path):
			found = append(found, path)
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}
