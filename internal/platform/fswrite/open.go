package fswrite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Existing chooses what Open does if the file already exists. No value changes
// the existing contents.
type Existing uint8

const (
	// NextName is the zero value. It takes the next free name: trace.run2.pfw.gz.
	NextName Existing = iota
	// Fail returns an error that matches fs.ErrExist.
	Fail
	// Append appends to the file, or takes the next free name if another process is
	// writing it.
	Append
)

// Open opens the file of a resolved path, and makes the directories above it.
// It creates files exclusively, and follows no symbolic link to a regular file;
// pipes, devices and "-" are opened as they are. The file is locked if the file
// system supports locks.
func Open(path string, existing Existing) (Output, error) {
	if AsIs(path) {
		return openAsIs(path)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	if existing == Fail {
		f, err := create(path)
		if err != nil {
			return nil, err
		}
		return newMade(path, f)
	}
	var out Output
	_, err := NextFree(1, func(n int) error {
		name := Run(path, n)
		for {
			f, err := create(name)
			switch {
			case err == nil:
				out, err = newMade(name, f)
				return err
			case existing == NextName || !errors.Is(err, fs.ErrExist):
				return err
			}
			out, err = appendTo(name)
			if err == nil && out == nil {
				return fs.ErrExist
			}
			if !errors.Is(err, fs.ErrNotExist) { // else it was removed meanwhile: the name is free
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return out, nil
}

// appendTo opens an existing file. It returns nil for a file that another
// process writes and for one that is not regular, and fs.ErrNotExist for one
// that is gone: its writer may delete it while it holds the lock.
func appendTo(name string) (Output, error) {
	f, err := openExisting(name)
	if errors.Is(err, errNotRegular) || errors.Is(err, syscall.ELOOP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !Lock(f) {
		return nil, f.Close()
	}
	out, err := newAppended(name, f)
	if err != nil {
		return nil, err
	}
	if out.Check() != nil {
		return nil, errors.Join(fs.ErrNotExist, out.Close())
	}
	return out, nil
}

func openAsIs(path string) (Output, error) {
	if path == Stdout {
		return NewStream(os.Stdout), nil
	}
	f, err := os.OpenFile(path, asIsFlags(path), 0)
	if err != nil {
		return nil, err
	}
	s := NewStream(f)
	s.path, s.owned = path, f
	return s, nil
}

// asIsFlags returns the flags with which a program that must not block opens a
// file that is not regular.
func asIsFlags(path string) int {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		// With both ends open, opening does not wait for a reader, and a reader that
		// closes does not end the program with a signal.
		return os.O_RDWR | nonBlock
	}
	return os.O_WRONLY | os.O_APPEND
}

// Create creates a new file for reading and writing. It follows no symbolic
// link; a taken name is an error that matches fs.ErrExist.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

func makeDir(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }

// create creates a new file. With O_EXCL, POSIX follows no link. A process that
// appends may find and lock the file before its creator does: then it counts as
// an existing file or, if it is deleted by then, as a missing one.
func create(path string) (*os.File, error) {
	for {
		f, err := Create(path, 0o644)
		if err != nil {
			return nil, err
		}
		if !Lock(f) {
			return nil, errors.Join(fs.ErrExist, f.Close())
		}
		id, err := identify(f)
		named, nameErr := identifyName(path)
		if err != nil || id.links > 0 || nameErr == nil && named.equal(&id) {
			return f, nil // an error will occur again when it is used
		}
		_ = f.Close() // nothing was written
	}
}

var errNotRegular = errors.New("not a regular file")

// openExisting opens an existing regular file and follows no link.
func openExisting(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
