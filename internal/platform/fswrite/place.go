package fswrite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// What the system can do, and where a program may be killed: tests change it.
var (
	moveNew  = renameNoReplace
	exchange = renameExchange
	link     = os.Link
	step     = func(string) {}
)

// place returns a file another name that is free; a taken one is an error that
// matches fs.ErrExist. It takes the first of three ways that the file system
// knows: a rename that replaces nothing; a second name, and the first is removed,
// which a kill in between leaves; and an empty file of that name, which a kill
// leaves and the file replaces.
func place(from, to string) error {
	err := moveNew(from, to)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: to, Err: err}
	}
	err = link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) && sameName(from, to) { // a network file system may have answered twice
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
// reports again when something else is there by now, which it leaves. Systems
// that cannot exchange names leave a moment for that to happen unseen.
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
		return true, nil // somebody else's has its name back
	}
	return false, os.Remove(from)
}
