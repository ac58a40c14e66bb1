package ui

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// OutputFile is a file that appears under its name only when it is complete.
type OutputFile struct {
	io.Writer
	path   string
	ours   fswrite.Proof
	draft  *fswrite.Draft // nil for a pipe or a device
	device *os.File
	// interrupted returns the reason if writing to a device may have ended early.
	interrupted func() error
}

// CreateOutput begins a file. An existing file is an error unless force is set.
// It writes pipes and devices directly, and waits for the reader of a pipe
// until the context ends.
func CreateOutput(ctx context.Context, path string, force bool) (*OutputFile, error) {
	if err := CheckOutput(path, force, nil); err != nil {
		return nil, err
	}
	o := &OutputFile{path: path, ours: forced(force)}
	var err error
	if fswrite.AsIs(path) {
		o.device, err = fswrite.OpenPipe(ctx, path)
		o.Writer, o.interrupted = o.device, ctx.Err
	} else {
		o.draft, err = fswrite.Begin(path, 0o644)
		o.Writer = o.draft
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Usage("%s: its directory does not exist; create it first", path)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// forced returns a Proof that accepts any regular file if force is set, and
// otherwise no file.
func forced(force bool) fswrite.Proof {
	if !force {
		return nil
	}
	return func(*os.File) error { return nil }
}

// Finish ends the file: it gets its name if err is nil, otherwise it is
// removed. A file that has appeared under that name meanwhile is not changed.
func (o *OutputFile) Finish(err error) error {
	switch {
	case o.draft == nil:
		if closeErr := o.device.Close(); err == nil {
			err = closeErr
		}
		if stopped := o.interrupted(); err != nil && stopped != nil {
			err = stopped
		}
	case err != nil:
		o.draft.Discard()
	default:
		err = o.draft.Publish(o.ours)
		if errors.Is(err, fs.ErrExist) {
			err = Usage("%s: another program created this file in the meantime; choose another name or add --force to replace it", o.path)
		}
	}
	return err
}

// CheckOutput returns an error if writing the output would destroy data.
func CheckOutput(path string, force bool, inputs []string) error {
	for _, in := range inputs {
		if SameFile(path, in) {
			return Usage("%s: is also an input; write to another file", path)
		}
	}
	if fswrite.AsIs(path) {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return Usage("%s: is a directory; name a file in it", path)
	case info.Mode().IsRegular() && !force:
		return Usage("%s: already exists; choose another name or add --force to replace it", path)
	case info.Mode()&fs.ModeSymlink != 0:
		if to, err := os.Stat(path); err == nil && to.IsDir() {
			return Usage("%s: is a directory; name a file in it", path)
		}
		return Usage("%s: is a symbolic link; name the file itself", path)
	}
	return nil
}

// IsSystem reports whether err is from a system call, as opposed to one about
// the contents of a file.
func IsSystem(err error) bool {
	var at *os.PathError
	var link *os.LinkError
	return errors.As(err, &at) || errors.As(err, &link)
}

// SameFile reports whether two paths name the same file.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errors.Join(errX, errY) == nil && os.SameFile(x, y)
}
