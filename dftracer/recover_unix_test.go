//go:build unix

package dftracer_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

// A repair in place keeps the file's owner. A file with several hard links is
// refused, because the other names would keep the damaged file.
func TestRecoverKeepsTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	torn := string(tornTrace(t, nil))
	writeFile(t, path, torn)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 4242, 4343); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recovery.File(path, nil); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if after.Mode() != before.Mode() || is.Uid != was.Uid || is.Gid != was.Gid || os.SameFile(before, after) {
		t.Errorf("mode %v, owner %d:%d; want %v, %d:%d as before, in a new file", after.Mode(), is.Uid, is.Gid, before.Mode(), was.Uid, was.Gid)
	}
	writeFile(t, path, torn)
	if err := os.Link(path, path+".other"); err != nil {
		t.Skip(err)
	}
	if _, err := recovery.File(path, nil); err == nil || !strings.Contains(err.Error(), "hard link") {
		t.Errorf(`recover of a file with another name: %v, want an error with "hard link"`, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != torn {
		t.Errorf("the file with another name was changed: %v", err)
	}
}
