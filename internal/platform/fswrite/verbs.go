package fswrite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// maxTries bounds the names that are tried.
const maxTries = 1 << 20

// NextFree calls try with from, from+1 and so on, while its error matches
// fs.ErrExist, and returns the number that was free.
func NextFree(from int, try func(n int) error) (int, error) {
	for n := from; n-from < maxTries; n++ {
		if err := try(n); !errors.Is(err, fs.ErrExist) {
			return n, err
		}
	}
	return 0, fmt.Errorf("all of %d names are in use", maxTries)
}

// OpenAppend opens a file for appending, and creates it if it is missing.
// Pipes, devices and the names of the standard streams are opened as they are;
// a symbolic link to a file is refused.
func OpenAppend(path string) (*os.File, error) {
	if AsIs(path) {
		return os.OpenFile(path, asIsFlags(path), 0)
	}
	if info, err := os.Lstat(path); err == nil {
		if err := replaceable(path, info.Mode()); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|noFollow, 0o644)
}

// OpenPipe opens a pipe, a device or a standard stream for writing. Opening a
// pipe waits for its reader, and writing waits until it reads; both end with
// the context, whose error OpenPipe returns. Writes then fail with
// [os.ErrDeadlineExceeded].
func OpenPipe(ctx context.Context, path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		done <- opened{f, err}
	}()
	var got opened
	select {
	case got = <-done:
	case <-ctx.Done():
		reader, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0) // this ends the waiting
		if err != nil {
			return nil, err // the pipe is gone: no reader can come, and the blocked open stays
		}
		defer reader.Close() //nolint:errcheck // nothing is read
		got = <-done
	}
	if got.err == nil && ctx.Err() != nil {
		got.err = errors.Join(ctx.Err(), got.f.Close())
	}
	if got.err != nil {
		return nil, got.err
	}
	context.AfterFunc(ctx, func() { _ = got.f.SetWriteDeadline(time.Unix(1, 0)) })
	return got.f, nil
}

// Remove deletes a file that ours accepts. If another file has its name by
// then, that file stays.
func Remove(path string, ours Proof) error {
	old, err := prove(path, ours)
	if err != nil {
		return err
	}
	step("proved")
	// First move it to an unpredictable and therefore free name, under which it
	// cannot be replaced.
	aside := filepath.Join(filepath.Dir(path), "."+cut(filepath.Base(path), maxBase)+"."+strconv.FormatUint(rand.Uint64(), 36)+".tmp")
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	step("aside")
	if now, err := identifyName(aside); err != nil || !now.equal(&old) {
		return errors.Join(&fs.PathError{Op: "remove", Path: path, Err: errOther}, place(aside, path))
	}
	return os.Remove(aside)
}

// TempDir creates a private folder with an unpredictable name.
func TempDir(parent, prefix string) (string, error) { return os.MkdirTemp(parent, prefix+"*") }

// OwnDir creates a private folder, or accepts an existing one that is private.
func OwnDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err == nil && (!info.IsDir() || !owned(info) || info.Mode().Perm() != 0o700) {
		err = &fs.PathError{Op: "use", Path: dir, Err: errors.New("it is not a directory of this user with mode 0700")}
	}
	return err
}

// PublishDir gives a folder that is not empty its final name. A taken name is
// an error that matches fs.ErrExist. On file systems without a rename that
// replaces nothing, it may replace an empty folder. The folder appears with its
// whole contents or not at all.
func PublishDir(from, to string) error {
	err := moveNew(from, to)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "create", Path: to, Err: err}
	}
	return os.Rename(from, to) // refuses existing folders; the system refuses those that are not empty
}

// ExchangeDir exchanges the names of two folders in one step. The error matches
// errors.ErrUnsupported if the file system cannot do this.
func ExchangeDir(a, b string) error {
	err := exchange(a, b)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

// RemoveDir deletes a folder of this user that has only folders and regular
// files that mine accepts, by their slash-separated paths in it. If it has
// anything else, nothing is deleted, and the error names it.
func RemoveDir(dir string, mine func(path string) bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !owned(info) {
		return &fs.PathError{Op: "remove", Path: dir, Err: errors.New("it is not a directory of this user")}
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	var all []string
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (!d.Type().IsRegular() || !mine(path)) {
			err = &fs.PathError{Op: "remove", Path: dir, Err: fmt.Errorf("trainspan did not create %s in it", path)}
		}
		all = append(all, path)
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(all[1:]) {
		if err := root.Remove(path); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
