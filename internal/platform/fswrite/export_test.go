package fswrite

import (
	"errors"
	"os"
	"slices"
)

// AtStep calls f between the steps of replacing and deleting files.
func AtStep(f func(name string)) (undo func()) {
	step = f
	return func() { step = func(string) {} }
}

// FailSync makes syncing files fail.
func FailSync(err error) (undo func()) {
	was := fsync
	fsync = func(*os.File) error { return err }
	return func() { fsync = was }
}

// Without disables features of the system: "rename", "exchange", "link".
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

// Disown makes a file look as it does in a forked child of the process that opened it.
func Disown(out Output) { out.(*file).pid++ }
