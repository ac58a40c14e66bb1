package main

import (
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

// expand returns the trace files that the arguments stand for, each once, in
// the order of the arguments.
func expand(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usage("no trace is given; name files, globs or directories, such as out/*.pfw.gz")
	}
	var files []string
	seen := make(map[string]bool)
	add := func(path string) {
		key := path
		if abs, err := filepath.Abs(path); err == nil {
			key = abs
		}
		if !seen[key] {
			seen[key] = true
			files = append(files, path)
		}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err == nil && info.IsDir():
			found, err := tracesBelow(arg)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, usage("%s: no .pfw or .pfw.gz file is in this directory; name another one", arg)
			}
			for _, f := range found {
				add(f)
			}
		case err == nil:
			add(arg)
		case strings.ContainsAny(arg, "*?["):
			found, globErr := filepath.Glob(arg)
			if globErr != nil {
				return nil, usage("%s: %v; quote names that hold [ as \\[", arg, globErr)
			}
			if len(found) == 0 {
				return nil, usage("%s: no file matches; check the pattern", arg)
			}
			for _, f := range found {
				add(f)
			}
		default:
			return nil, err
		}
	}
	return files, nil
}

func tracesBelow(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && isTrace(path) {
			found = append(found, path)
		}
		return err
	})
	slices.Sort(found)
	return found, err
}
