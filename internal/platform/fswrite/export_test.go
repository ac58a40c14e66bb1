package fswrite

import (
	"errors"
	"os"
	"slices"
)

// AtStep calls f between the steps of the verbs.
func AtStep(f func(name string)) (undo func()) {
	step = f
	return func() { step = func(string) {} }
}

// FailSync has the disk take nothing: files cannot be synced.
func FailSync(err error) (undo func()) {
	was := fsync
	fsync = func(*os.File) error { return err }
	return func() { fsync = was }
}

// Without takes from the system what it can: "rename", "exchange", "link".
func Without(what ...string) (undo func()) {
	cannot := func(string, string) error { return errors.ErrUnsupported }
	rename, swap, hard := moveNew, exchange, link
	if slices.Contains(what, "rename") {
		moveNew = cannot
	}
	if slices.Contains(what, "exchange") {
		exchange = cannot
	}
	if slices.Contains(what, "link") {
		link = cannot
	}
	return func() { moveNew, exchange, link = rename, swap, hard }
}
