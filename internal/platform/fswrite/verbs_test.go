//go:build unix

package fswrite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"go.uber.org/goleak"
)

// killAt is a variable that gives a child the operation, the disabled features,
// and the step at which it is killed.
const killAt = "OUTFILE_KILL_AT"

func TestMain(m *testing.M) {
	if at := os.Getenv(killAt); at != "" {
		killed(at)
		return
	}
	goleak.VerifyTestMain(m)
}

const target, old, next, foreign = "file.json", "old", "new text", "of somebody else"

// verbs are the operations on target, which exists before unless fresh is set.
var verbs = map[string]struct {
	fresh bool
	do    func() error
	gone  bool // the file is gone afterwards
}{
	"make": {fresh: true, do: func() error {
		_, err := fswrite.Write(target, []byte(next), 0o644, nil)
		return err
	}},
	"replace": {do: func() error {
		_, err := fswrite.Write(target, []byte(next), 0o644, holds(old))
		return err
	}},
	"remove": {do: func() error { return fswrite.Remove(target, holds(old)) }, gone: true},
}

// systems are sets of features that a file system may lack.
var systems = []string{"", "exchange", "rename,exchange", "rename,exchange,link"}

// holds returns a Proof that accepts files with this text.
func holds(text string) fswrite.Proof {
	return func(f *os.File) error {
		got := make([]byte, len(text)+1)
		if n, _ := f.ReadAt(got, 0); string(got[:n]) != text {
			return &fs.PathError{Op: "replace", Path: f.Name(), Err: fs.ErrExist}
		}
		return nil
	}
}

func killed(at string) {
	part := strings.Split(at, "/")
	left, err := strconv.Atoi(part[2])
	if err != nil {
		panic(err)
	}
	fswrite.Without(strings.Split(part[1], ",")...)
	fswrite.AtStep(func(string) {
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if err := verbs[part[0]].do(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A program that is killed between any two steps leaves the old file or the new
// one, and nothing that prevents the next attempt.
func TestKilledAtEachStep(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a process at each step of each verb: make test-long")
	}
	for name, verb := range verbs {
		for _, lacks := range systems {
			for n := 0; ; n++ {
				dir := t.TempDir()
				path := filepath.Join(dir, target)
				want := []string{old, next}
				if verb.fresh {
					want[0] = "absent"
					if strings.Contains(lacks, "link") {
						want = append(want, "") // the name is reserved
					}
				} else {
					write(t, path, old)
				}
				if verb.gone {
					want[1] = "absent"
				}
				child := exec.Command(os.Args[0])
				child.Dir, child.Env = dir, append(os.Environ(), fmt.Sprintf("%s=%s/%s/%d", killAt, name, lacks, n))
				out, err := child.CombinedOutput()
				var exit *exec.ExitError
				died := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
				if err != nil && !died {
					t.Fatalf("%s without %q: %v, want no error or the death of the test: %s", name, lacks, err, out)
				}
				got := read(t, path)
				if !slices.Contains(want, got) {
					t.Errorf("%s without %q killed at step %d: file is %q, want one of %q", name, lacks, n, got, want)
				}
				for _, left := range names(t, dir) {
					if left != target && !(strings.HasPrefix(left, ".") && strings.HasSuffix(left, ".tmp")) {
						t.Errorf("%s without %q killed at step %d left %s, want only the target and hidden temporary files", name, lacks, n, left)
					}
				}
				if !died {
					if got != want[1] || len(names(t, dir)) > 1 {
						t.Errorf("%s without %q: file is %q, want %q and no other file in %q", name, lacks, got, want[1], names(t, dir))
					}
					if n == 0 {
						t.Errorf("%s without %q ran no steps", name, lacks)
					}
					break
				}
				if _, err := fswrite.Write(path, []byte("again"), 0o644, func(*os.File) error { return nil }); err != nil || read(t, path) != "again" {
					t.Errorf(`%s without %q killed at step %d: Write again: %v, file %q; want "again"`, name, lacks, n, err, read(t, path))
				}
			}
		}
	}
}

// A foreign file that appears between any two steps stays.
func TestForeignAtEachStep(t *testing.T) {
	for name, verb := range verbs {
		for _, lacks := range systems {
			for n, more := 0, true; more; n++ {
				t.Chdir(t.TempDir())
				if !verb.fresh {
					write(t, target, old)
				}
				write(t, "theirs", foreign)
				left := n
				undoStep := fswrite.AtStep(func(string) {
					if left--; left == -1 {
						if err := os.Rename("theirs", target); err != nil {
							t.Error(err)
						}
					}
				})
				undo := fswrite.Without(strings.Split(lacks, ",")...)
				err := verb.do()
				undo()
				undoStep()
				if more = left < 0; !more {
					if err != nil {
						t.Errorf("%s without %q: %v", name, lacks, err)
					}
					continue
				}
				if got := read(t, target); got != foreign {
					t.Errorf("%s without %q: what came at step %d is %q, want %q, error %v", name, lacks, n, got, foreign, err)
				}
				if all := names(t, "."); len(all) != 1 {
					t.Errorf("%s without %q: left are %q, want one", name, lacks, all)
				}
			}
		}
	}
}

// Only files that the proof accepts are replaced or deleted, and nothing
// through a link.
func TestRefused(t *testing.T) {
	type put func(t *testing.T, path string)
	for name, make := range map[string]put{
		"file":     func(t *testing.T, path string) { write(t, path, foreign) },
		"link":     func(t *testing.T, path string) { write(t, "victim", old); symlink(t, "victim", path) },
		"dangling": func(t *testing.T, path string) { symlink(t, "nowhere", path) },
		"folder": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"pipe": func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			make(t, target)
			before, err := os.Lstat(target)
			if err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"write": second(fswrite.Write(target, []byte(next), 0o644, holds(old))), "make": second(fswrite.Write(target, []byte(next), 0o644, nil)),
				"create": second(fswrite.Create(target, 0o644)), "remove": fswrite.Remove(target, holds(old)),
			} {
				why := map[string]string{"link": "symbolic link", "dangling": "symbolic link", "folder": "is a directory", "pipe": "not a regular file"}[name]
				if err == nil || !strings.Contains(err.Error(), target) || (what == "write" || what == "make") && !strings.Contains(err.Error(), why) {
					t.Errorf("%s: %v, want an error that names %s and contains %q", what, err, target, why)
				}
			}
			if name != "file" && name != "pipe" {
				if _, err := fswrite.OpenAppend(target); err == nil {
					t.Error("got no error for appending, want one")
				}
			}
			now, err := os.Lstat(target)
			if err != nil || !os.SameFile(now, before) || now.ModTime() != before.ModTime() {
				t.Errorf("the file was replaced, want it left: %v", err)
			}
			if got := read(t, "victim"); name == "link" && got != old {
				t.Errorf("file behind the link is %q, want %q", got, old)
			}
			if _, err := os.Lstat("nowhere"); err == nil {
				t.Error("a file was created through the link, want none")
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// A published draft keeps permissions and owner; a file with several names is
// refused, because it would become two files.
func TestKeep(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, target, old)
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(target, 4242, 4343); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := fswrite.Begin(target, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Keep(f), second(d.Write([]byte(next))), d.Publish(fswrite.Same(f))); err != nil {
		t.Fatal(err)
	}
	before, errBefore := f.Stat()
	now, errNow := os.Stat(target)
	if err := errors.Join(errBefore, errNow); err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	if read(t, target) != next || now.Mode() != before.Mode() || is.Uid != was.Uid || is.Gid != was.Gid {
		t.Errorf("file is %q, mode %v, owner %d:%d; want %q, %v, %d:%d", read(t, target), now.Mode(), is.Uid, is.Gid, next, before.Mode(), was.Uid, was.Gid)
	}
	if err := os.Link(target, "other"); err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if d, err = fswrite.Begin(target, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Keep(g); err == nil || !strings.Contains(err.Error(), "hard link") {
		t.Error(err)
	}
	d.Discard()
	if all := names(t, "."); !slices.Equal(all, []string{target, "other"}) {
		t.Errorf("left are %q, want %q", all, []string{target, "other"})
	}
}

func TestNextFree(t *testing.T) {
	taken := 3
	n, err := fswrite.NextFree(1, func(n int) error {
		if n <= taken {
			return &fs.PathError{Op: "create", Path: "x", Err: syscall.EEXIST}
		}
		return nil
	})
	if n != 4 || err != nil {
		t.Errorf("NextFree() = %d, %v; want 4", n, err)
	}
	if _, err := fswrite.NextFree(0, func(int) error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if n, err := fswrite.NextFree(0, func(int) error { return fs.ErrExist }); err == nil {
		t.Errorf("NextFree() = %d, want an error: every number is in use", n)
	}
}

func TestSafeName(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 9, ""}, {"..", 9, ""}, {". x .", 9, "x"}, {"a/b\\c", 9, "a_b_c"}, {"../../etc/passwd", 99, "_.._etc_passwd"},
		{"a job", 9, "a job"}, {"Müller", 9, "Müller"}, {"模型", 9, "模型"}, {"lr=0.1,bs+2@x", 99, "lr=0.1,bs+2@x"},
		{"a\x1b[31m", 9, "a__31m"}, {"a\u202eb", 9, "a_b"}, {"a\u0085b", 9, "a_b"}, {"a\xffb", 9, "a_b"}, {"a\x00b\nc", 9, "a_b_c"},
		{"$(rm)`;&", 9, "__rm____"}, {"a*?[x]{y}", 9, "a___x__y_"},
		{strings.Repeat("ä", 9), 7, "äää"}, {"12345678", 7, "1234567"}, {"123456 .x", 8, "123456"},
	} {
		if got := fswrite.SafeName(c.text, c.most); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// Lines of several programs are appended whole, after the existing ones.
func TestOpenAppend(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, text := range []string{"first\n", "second\n"} {
		f, err := fswrite.OpenAppend("log")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(second(f.WriteString(text)), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, "log"); got != "first\nsecond\n" {
		t.Errorf("file is %q, want %q", got, "first\nsecond\n")
	}
	f, err := fswrite.OpenAppend(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// The names of drafts are never too long, and errors name the final file.
func TestDraftNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, long := range []string{strings.Repeat("ä", 127), strings.Repeat("\x80", 220)} { // the second has no valid character
		if _, err := fswrite.Write(long, []byte(next), 0o644, nil); err != nil || read(t, long) != next {
			t.Error(err)
		}
	}
	if _, err := fswrite.Begin("missing/file", 0o644); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), ".tmp") {
		t.Error(err)
	}
	d, err := fswrite.Begin("closed", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Publish(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("x")); err == nil || !strings.Contains(err.Error(), "closed") || strings.Contains(err.Error(), ".tmp") {
		t.Error(err)
	}
	d.Discard()
	if text, err := os.ReadFile("closed"); err != nil || !bytes.Equal(text, nil) {
		t.Errorf("file is %q, %v; want it empty", text, err)
	}
}

// Discard removes only the file it made.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	begin := func() (*fswrite.Draft, string) {
		d, err := fswrite.Begin(filepath.Join(dir, "x"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("files %v, %v; want one", entries, err)
		}
		return d, filepath.Join(dir, entries[0].Name())
	}
	d, path := begin()
	d.Discard()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
	d, path = begin()
	write(t, path+".other", "theirs")
	if err := os.Rename(path+".other", path); err != nil {
		t.Fatal(err)
	}
	d.Discard()
	if text := read(t, path); text != "theirs" {
		t.Errorf("the other file holds %q, want \"theirs\"", text)
	}
}

// TestFailedSync checks that a draft that cannot be synced replaces nothing,
// and leaves nothing behind.
func TestFailedSync(t *testing.T) {
	for name, publish := range map[string]func(d *fswrite.Draft) error{
		"publish": func(d *fswrite.Draft) error { return d.Publish(func(*os.File) error { return nil }) },
		"sync":    func(d *fswrite.Draft) error { defer d.Discard(); return d.Sync() },
		"end":     func(d *fswrite.Draft) error { defer d.Discard(); return d.End() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("file", []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := fswrite.Begin("file", 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
			defer fswrite.FailSync(syscall.EIO)()
			if err := publish(d); !errors.Is(err, syscall.EIO) {
				t.Errorf("%v, want %v", err, syscall.EIO)
			}
			if got := read(t, "file"); got != "old" {
				t.Errorf("the file holds %q, want %q", got, "old")
			}
			if all, _ := os.ReadDir("."); len(all) != 1 {
				t.Errorf("left %v, want the file alone", all)
			}
		})
	}
}

// A text that does not fit on the disk replaces nothing and leaves no draft.
func TestWriteToAFullDisk(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.json")
	mine, err := fswrite.Write(path, []byte("before"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := old
	full.Cur = 16 << 20 // the limit is that of the process, whose test log is shorter
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	_, err = fswrite.Write(path, make([]byte, full.Cur+1), 0o600, mine)
	if undo := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); undo != nil {
		t.Fatal(undo)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Write() = %v, want %v", err, syscall.EFBIG)
	}
	if got := read(t, path); got != "before" {
		t.Errorf("the file holds %q, want %q", got, "before")
	}
	if list, err := os.ReadDir(filepath.Dir(path)); len(list) != 1 || err != nil {
		t.Errorf("%d files are in the folder (%v), want 1", len(list), err)
	}
}
