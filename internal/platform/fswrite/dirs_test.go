//go:build unix

package fswrite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

func TestPublishDir(t *testing.T) {
	for _, lacks := range systems[1:] {
		t.Chdir(t.TempDir())
		undo := fswrite.Without(strings.Split(lacks, ",")...)
		defer undo()
		folder := func(name, text string) {
			t.Helper()
			if err := os.Mkdir(name, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(name, "f"), text)
		}
		folder("first", old)
		folder("second", next)
		write(t, "a file", foreign)
		if err := fswrite.PublishDir("first", "there"); err != nil {
			t.Fatal(err)
		}
		if err := fswrite.PublishDir("second", "there"); !errors.Is(err, fs.ErrExist) || read(t, "there/f") != old {
			t.Errorf("without %q: %v, %q", lacks, err, read(t, "there/f"))
		}
		if err := fswrite.PublishDir("second", "a file"); err == nil || read(t, "a file") != foreign {
			t.Errorf("without %q: PublishDir replaced a file, want an error", lacks)
		}
		err := fswrite.ExchangeDir("second", "there")
		if strings.Contains(lacks, "exchange") {
			if !errors.Is(err, errors.ErrUnsupported) || read(t, "there/f") != old {
				t.Errorf("without %q: %v, %q", lacks, err, read(t, "there/f"))
			}
		}
	}
}

func TestExchangeDir(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(name, "f"), name)
	}
	err := fswrite.ExchangeDir("a", "b")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || read(t, "a/f") != "b" || read(t, "b/f") != "a" {
		t.Errorf("ExchangeDir: %v, files %q, %q; want b, a", err, read(t, "a/f"), read(t, "b/f"))
	}
	if err := fswrite.ExchangeDir("a", "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Only files with our names are removed from a folder, and nothing behind a
// link.
func TestRemoveDir(t *testing.T) {
	ours := func(path string) bool { return strings.HasSuffix(path, ".ring") }
	dir := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "mine")
		for _, path := range []string{"a.ring", "below/b.ring", "below/deep/c.ring"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, path), "x")
		}
		return dir
	}
	whole := dir(t)
	if err := fswrite.RemoveDir(whole, ours); err != nil || read(t, whole) != "absent" {
		t.Errorf("RemoveDir() = %v, want the directory deleted", err)
	}
	foreignFile := dir(t)
	write(t, filepath.Join(foreignFile, "below/thesis.txt"), foreign)
	if err := fswrite.RemoveDir(foreignFile, ours); err == nil || !strings.Contains(err.Error(), "below/thesis.txt") {
		t.Error(err)
	}
	if read(t, filepath.Join(foreignFile, "below/thesis.txt")) != foreign || read(t, filepath.Join(foreignFile, "a.ring")) != "x" {
		t.Error("files were deleted, want all kept")
	}
	outside, linked := dir(t), dir(t)
	symlink(t, outside, filepath.Join(linked, "out.ring"))
	symlink(t, filepath.Join(outside, "a.ring"), filepath.Join(linked, "file.ring"))
	if err := fswrite.RemoveDir(linked, ours); err == nil {
		t.Error("links were deleted, want them kept")
	}
	if read(t, filepath.Join(outside, "a.ring")) != "x" || read(t, filepath.Join(outside, "below/b.ring")) != "x" {
		t.Error("a file behind a link was changed, want it unchanged")
	}
	whole = dir(t)
	symlink(t, whole, whole+"-link")
	if err := fswrite.RemoveDir(whole+"-link", ours); err == nil || read(t, filepath.Join(whole, "a.ring")) != "x" {
		t.Errorf("%v: RemoveDir followed a link, want an error and the files left", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(whole, 4242, -1); err != nil {
			t.Fatal(err)
		}
		if err := fswrite.RemoveDir(whole, ours); err == nil || read(t, filepath.Join(whole, "a.ring")) != "x" {
			t.Errorf("%v: RemoveDir deleted the directory of another user, want an error and the files left", err)
		}
	}
}

// OwnDir makes a private folder, or accepts an existing folder that is private.
func TestOwnDir(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for range 2 {
		if err := fswrite.OwnDir(at("own")); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(at("own")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory is %v, %v; want 0700", info, err)
	}
	write(t, at("file"), "x")
	if err := os.Chmod(at("file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("open"), 0o755); err != nil {
		t.Fatal(err)
	}
	symlink(t, at("own"), at("link"))
	for _, name := range []string{"file", "open", "link"} {
		if err := fswrite.OwnDir(at(name)); err == nil || !strings.Contains(err.Error(), "mode 0700") || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("OwnDir(%s): %v, want an error with mode 0700 and the path", name, err)
		}
	}
	if err := fswrite.OwnDir(at("missing/own")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
