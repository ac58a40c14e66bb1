package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Create makes a file that is not there, for reading and writing. It follows no
// symbolic link; a name that is taken is an error that matches fs.ErrExist.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

func makeDir(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }

// create makes a file that is not there. POSIX has O_EXCL follow no link. Who
// appends may find and lock it before its maker does: then it counts as one that
// was there, or, if it is deleted by then, as none.
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
		if err != nil || id.links > 0 || nameErr == nil && named.same(&id) {
			return f, nil // an error comes again when it is used
		}
		_ = f.Close() // nothing was written
	}
}

var errNotRegular = errors.New("not a regular file")

// openExisting opens a regular file that is there, and follows no link.
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
