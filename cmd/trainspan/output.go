package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/outfile"
)

// outputFile is a file that appears under its name only when it is complete.
type outputFile struct {
	*os.File
	path string
	temp string // "" for devices, which are written directly
}

// createOutput begins a file. An existing one is an error unless force is set.
func createOutput(path string, force bool) (*outputFile, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, usage("%s: is a directory; name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &outputFile{File: f, path: path}, nil
	case err == nil && !force:
		return nil, usage("%s: is already there; choose another name or add --force to replace it", path)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	f, err := outfile.Temp(path, 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usage("%s: its directory does not exist; make it first", path)
	}
	if err != nil {
		return nil, named(path, err)
	}
	return &outputFile{File: f, path: path, temp: f.Name()}, nil
}

// finish ends the file: under its name when err is nil, else without a trace.
func (o *outputFile) finish(err error) error {
	closeErr := o.Close()
	if err == nil {
		err = closeErr
	}
	if o.temp == "" {
		return named(o.path, err)
	}
	if err == nil {
		err = os.Rename(o.temp, o.path)
	}
	if err != nil {
		_ = os.Remove(o.temp) // the first error is the one to tell
	}
	return named(o.path, err)
}

// named gives errors about the temporary name the name that the user knows.
func named(path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) && strings.HasSuffix(at.Path, ".tmp") && filepath.Dir(at.Path) == filepath.Dir(path) {
		return &os.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return &os.PathError{Op: "write", Path: path, Err: link.Err}
	}
	return err
}

// checkOutput refuses an output that would destroy something.
func checkOutput(path string, force bool, inputs []string) error {
	for _, in := range inputs {
		if sameFile(path, in) {
			return usage("%s: is also an input; write to another file", path)
		}
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return usage("%s: is a directory; name a file in it", path)
	case err == nil && info.Mode().IsRegular() && !force:
		return usage("%s: is already there; choose another name or add --force to replace it", path)
	}
	return nil
}

// isSystem reports whether the system refused something, as opposed to a
// file with the wrong contents.
func isSystem(err error) bool {
	var at *os.PathError
	var link *os.LinkError
	return errors.As(err, &at) || errors.As(err, &link)
}

// sameFile reports whether two paths are one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errors.Join(errX, errY) == nil && os.SameFile(x, y)
}
