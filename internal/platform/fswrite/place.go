package fswrite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Features of the system, and points where a test kills the program; tests
// change them.
var (
	moveNew  = renameNoReplace
	exchange = renameExchange
	link     = os.Link
	step     = func(string) {}
)

// place gives a file another name, which must be free; a taken one is an error
// that matches fs.ErrExist. It uses the first way that the file system
// supports: a rename that replaces nothing; a second hard link, after which the
// first name is removed (a kill in between leaves both); or an empty file with
// the new name, which the file then replaces (a kill leaves the empty file).
func place(from, to string) error {
	err := moveNew(from, to)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: to, Err: err}
	}
	err = link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) && sameName(from, to) { // a network file system may have repeated the request
		step("linked")
		return os.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := Create(to, 0o600)
	if err != nil {
		return err
	}
	mine, err := identify(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	step("reserved")
	if now, err := identifyName(to); err != nil || !now.equal(&mine) {
		return &fs.PathError{Op: "create", Path: to, Err: syscall.EEXIST}
	}
	return os.Rename(from, to)
}

func sameName(a, b string) bool {
	x, errX := identifyName(a)
	y, errY := identifyName(b)
	return errX == nil && errY == nil && x.equal(&y)
}

// replace puts a file in the place of another one, old, and deletes that. It
// returns again if another file is there by now, which it does not change. On
// systems that cannot exchange names, such a file can go unnoticed for a
// moment.
func replace(from, to string, old identity) (again bool, err error) {
	switch err := exchange(from, to); {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		if now, err := identifyName(to); err != nil || !now.equal(&old) {
			return true, nil //nolint:nilerr // it is looked at once more
		}
		return false, os.Rename(from, to)
	}
	step("exchanged")
	if now, err := identifyName(from); err != nil || !now.equal(&old) {
		if err := exchange(from, to); err != nil {
			return false, &fs.PathError{Op: "replace", Path: to, Err: fmt.Errorf("another file was there, it was moved to %s: %w", from, err)}
		}
		return true, nil // the foreign file has its name back
	}
	return false, os.Remove(from)
}
