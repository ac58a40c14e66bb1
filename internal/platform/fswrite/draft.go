package fswrite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Proof examines an existing file and returns nil if it may be replaced or
// deleted, otherwise the reason why not. The file is regular, open for reading,
// and was reached through no symbolic link. A nil Proof accepts no file.
type Proof func(f *os.File) error

// Same returns a Proof that accepts the file that f has open now.
func Same(f *os.File) Proof {
	id, err := identify(f)
	return func(other *os.File) error {
		now, nowErr := identify(other)
		if err := errors.Join(err, nowErr); err != nil {
			return err
		}
		if !now.equal(&id) {
			return &fs.PathError{Op: "replace", Path: other.Name(), Err: errOther}
		}
		return nil
	}
}

// errOther matches fs.ErrExist.
var errOther = fmt.Errorf("another file replaced it: %w", fs.ErrExist)

// Draft is a file that is written beside its final place, under an
// unpredictable hidden name. A killed program leaves it there. Errors have the
// final path.
type Draft struct {
	f    *os.File
	id   identity
	path string
}

// Begin creates the draft of a file with these permissions.
func Begin(path string, mode fs.FileMode) (*Draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+cut(filepath.Base(path), maxBase)+".*.tmp")
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			at.Op, at.Path = "create", path
		}
		return nil, err
	}
	d := &Draft{f: f, path: path}
	if d.id, err = identify(f); err == nil {
		err = f.Chmod(mode)
	}
	if err != nil {
		d.Discard()
		return nil, d.named(err)
	}
	return d, nil
}

// Write implements io.Writer.
func (d *Draft) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	return n, d.named(err)
}

// fsync is replaced by tests.
var fsync = (*os.File).Sync

// Sync waits until what was written is on the disk.
func (d *Draft) Sync() error { return d.named(fsync(d.f)) }

// End syncs the draft to the disk and closes it, without publishing it: for a
// set of files that must all be written before the first appears.
func (d *Draft) End() error {
	err := fsync(d.f)
	if closeErr := d.close(); err == nil {
		err = closeErr
	}
	return d.named(err)
}

// Keep gives the draft the owner and the permissions of a file. It fails for a
// file with other hard links, because they would keep the old contents.
func (d *Draft) Keep(f *os.File) error {
	id, err := identify(f)
	if err == nil && id.links > 1 {
		err = &fs.PathError{Op: "replace", Path: f.Name(), Err: errors.New("the file has other hard links, which would keep the old content")}
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := keepOwner(d.f, info); err != nil {
		return &fs.PathError{Op: "replace", Path: f.Name(), Err: fmt.Errorf("cannot keep its owner: %w", err)}
	}
	return d.named(d.f.Chmod(info.Mode().Perm()))
}

// Publish ends the draft and gives it its name, which must be free or belong to
// a file that ours accepts. A file that appears there meanwhile is never
// replaced: the error then matches fs.ErrExist. The new file is on the disk
// before a file is replaced. After an error the draft is removed.
func (d *Draft) Publish(ours Proof) error {
	err := d.publish(ours)
	if err != nil {
		d.Discard()
	}
	return d.named(err)
}

func (d *Draft) publish(ours Proof) error {
	for range maxChanges {
		old, err := prove(d.path, ours)
		if errors.Is(err, fs.ErrNotExist) {
			if err = d.close(); err == nil {
				step("closed")
				err = place(d.f.Name(), d.path)
			}
			if ours != nil && errors.Is(err, fs.ErrExist) {
				continue // it may be ours
			}
			return err
		}
		if err != nil {
			return err
		}
		if err := fsync(d.f); err != nil && !errors.Is(err, os.ErrClosed) {
			return err
		}
		if err := d.close(); err != nil {
			return err
		}
		step("proved")
		if again, err := replace(d.f.Name(), d.path, old); !again {
			return err
		}
	}
	return &fs.PathError{Op: "replace", Path: d.path, Err: errOther}
}

// maxChanges bounds how often a file may change while it is being replaced.
const maxChanges = 8

func (d *Draft) close() error {
	err := d.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Discard removes the draft. It does nothing after Publish.
func (d *Draft) Discard() {
	_ = d.close()
	if named, err := identifyName(d.f.Name()); err == nil && named.equal(&d.id) {
		_ = os.Remove(d.f.Name()) // the error that led here matters more
	}
}

// named replaces the draft's path in errors by the final path.
func (d *Draft) named(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) && at.Path == d.f.Name() {
		return &fs.PathError{Op: at.Op, Path: d.path, Err: at.Err}
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return &fs.PathError{Op: "create", Path: d.path, Err: link.Err}
	}
	return err
}

// Write creates a file with some text, or replaces one that ours accepts. It
// returns the proof of the new file.
func Write(path string, text []byte, mode fs.FileMode, ours Proof) (Proof, error) {
	d, err := Begin(path, mode)
	if err != nil {
		return nil, err
	}
	mine := Same(d.f)
	if _, err = d.Write(text); err != nil {
		d.Discard()
		return nil, err
	}
	if err := d.Publish(ours); err != nil {
		return nil, err
	}
	return mine, nil
}

// Patch overwrites bytes of a file that ours accepts in place, and does not
// make the file longer. It is not atomic: readers may see the old or the new
// bytes.
func Patch(path string, at int64, text []byte, ours Proof) error {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow|nonBlock, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = replaceable(path, info.Mode())
	}
	if err == nil && ours == nil {
		err = &fs.PathError{Op: "write", Path: path, Err: syscall.EEXIST}
	}
	if err == nil {
		err = ours(f)
	}
	if err == nil && at+int64(len(text)) > info.Size() {
		err = &fs.PathError{Op: "write", Path: path, Err: errOther}
	}
	if err == nil {
		_, err = f.WriteAt(text, at)
	}
	return errors.Join(err, f.Close())
}

// Check returns the error with which a draft could not be published under a
// path now.
func Check(path string, ours Proof) error {
	_, err := prove(path, ours)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// prove returns the identity of an existing file that ours accepts.
func prove(path string, ours Proof) (identity, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return identity{}, err
	}
	if err := replaceable(path, info.Mode()); err != nil {
		return identity{}, err
	}
	if ours == nil {
		return identity{}, &fs.PathError{Op: "create", Path: path, Err: syscall.EEXIST}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return identity{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err = f.Stat(); err != nil {
		return identity{}, err
	}
	if err := replaceable(path, info.Mode()); err != nil {
		return identity{}, err
	}
	if err := ours(f); err != nil {
		return identity{}, err
	}
	return identify(f)
}

// replaceable refuses files that are not regular, with errors that match
// fs.ErrExist.
func replaceable(path string, mode fs.FileMode) error {
	what := "it is not a regular file"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "it is a directory"
	case mode&fs.ModeSymlink != 0:
		what = "it is a symbolic link; name the file itself"
	}
	return &fs.PathError{Op: "create", Path: path, Err: fmt.Errorf("%s: %w", what, fs.ErrExist)}
}
