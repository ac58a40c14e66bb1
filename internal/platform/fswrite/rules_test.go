package fswrite_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// A part of a file is overwritten only if its owner accepts that, and never
// makes the file longer.
func TestPatch(t *testing.T) {
	refused := errors.New("not ours")
	for _, c := range []struct {
		name  string
		at    int64
		proof error
		want  string
		err   error
	}{
		{name: "inside", at: 2, want: "abXYef"},
		{name: "up to the end", at: 4, want: "abcdXY"},
		{name: "beyond the end", at: 5, want: "abcdef", err: fs.ErrExist},
		{name: "of somebody else", at: 2, proof: refused, want: "abcdef", err: refused},
	} {
		path := filepath.Join(t.TempDir(), "f")
		write(t, path, "abcdef")
		err := fswrite.Patch(path, c.at, []byte("XY"), func(*os.File) error { return c.proof })
		if got := read(t, path); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: file is %q, error %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// Patch refuses a file without a Proof, and one that is not regular before its Proof.
func TestPatchRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "abcdef")
	if err := fswrite.Patch(path, 0, []byte("XY"), nil); !errors.Is(err, fs.ErrExist) || read(t, path) != "abcdef" {
		t.Errorf("without a proof: file is %q, error %v; want it unchanged, %v", read(t, path), err, fs.ErrExist)
	}
	asked := false
	if err := fswrite.Patch(os.DevNull, 0, nil, func(*os.File) error { asked = true; return nil }); !errors.Is(err, fs.ErrExist) || asked {
		t.Errorf("a device: error %v, proof asked: %v; want %v, not asked", err, asked, fs.ErrExist)
	}
}

// A draft has the permissions it was created with.
func TestDraftMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o644} {
		path := filepath.Join(t.TempDir(), "f")
		if _, err := fswrite.Write(path, []byte("x"), mode, nil); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v, want %v; %v", info.Mode(), mode, err)
		}
	}
}

// The file's state after other processes changed it.
func TestFileInOtherHands(t *testing.T) {
	for _, c := range []struct {
		name        string
		does        func(path string) error
		gone, fresh bool
		want        string // in the file in which it continues
	}{
		{name: "half a block is left", does: lengthen, want: "whole|more"},
		{name: "emptied", does: func(path string) error { return os.Truncate(path, 0) }, gone: true, fresh: true, want: "more"},
		{name: "cut", does: func(path string) error { return os.Truncate(path, 3) }, gone: true, fresh: true, want: "more"},
		{name: "removed", does: os.Remove, gone: true, fresh: true, want: "more"},
		{name: "renamed", does: func(path string) error { return os.Rename(path, path+".old") }, fresh: true, want: "more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.x")
			out, err := fswrite.Open(path, fswrite.NextName)
			if err != nil {
				t.Fatal(err)
			}
			put(t, out, "whole|")
			out.Commit()
			put(t, out, "torn")
			out.Undo()
			if err := c.does(path); err != nil {
				t.Fatal(err)
			}
			if out.Gone() != c.gone {
				t.Errorf("gone: %v, want %v", out.Gone(), c.gone)
			}
			fresh, gone, err := out.Resume()
			if fresh != c.fresh || gone != c.gone || err != nil {
				t.Errorf("fresh %v, gone %v, %v; want %v, %v", fresh, gone, err, c.fresh, c.gone)
			}
			put(t, out, "more")
			if got := read(t, out.Path()); got != c.want {
				t.Errorf("it holds %q, want %q", got, c.want)
			}
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			if n, err := out.Write([]byte("late")); n != 0 || err == nil {
				t.Errorf("Write after Close = %d, %v; want 0 and an error", n, err)
			}
		})
	}
}

// lengthen appends an incomplete block that could not be undone.
func lengthen(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("torn")
	return errors.Join(err, f.Close())
}

func put(t *testing.T, out fswrite.Output, text string) {
	t.Helper()
	if n, err := out.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write() = %d, %v; want %d", n, err, len(text))
	}
}

// A forked child does not write to the file of its parent, and does not take it over.
func TestFileOfTheParentProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.x")
	out, err := fswrite.Open(path, fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	put(t, out, "whole|")
	out.Commit()
	fswrite.Disown(out)
	if n, err := out.Write([]byte("more")); n != 0 || err == nil {
		t.Errorf("Write() = %d, %v, want 0 and an error", n, err)
	}
	if err := out.Check(); err == nil {
		t.Error("Check() returned no error, want one")
	}
	for range 2 {
		if fresh, gone, err := out.Resume(); fresh || gone || err == nil {
			t.Errorf("Resume() = %v, %v, %v, want an error", fresh, gone, err)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(path)); len(list) != 1 || err != nil || read(t, path) != "whole|" {
		t.Errorf("%d files, %v, the first holds %q, want one with %q", len(list), err, read(t, path), "whole|")
	}
}

// Check returns the error that a replacement would have.
func TestCheckOfAPath(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"mine": "mine", "other": "other"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	ours := func(f *os.File) error {
		if text, err := io.ReadAll(f); err != nil || string(text) != "mine" {
			return refused
		}
		return nil
	}
	for _, c := range []struct {
		path string
		ours fswrite.Proof
		want error
	}{
		{"missing", ours, nil},
		{"missing", nil, nil},
		{"mine", ours, nil},
		{"mine", nil, fs.ErrExist},
		{"other", ours, refused},
		{"folder", ours, fs.ErrExist},
	} {
		if err := fswrite.Check(c.path, c.ours); !errors.Is(err, c.want) {
			t.Errorf("Check(%s), accepting our own: %v, = %v, want %v", c.path, c.ours != nil, err, c.want)
		}
	}
}

// A stream cannot undo: what follows a failure continues it.
func TestStreamCannotUndo(t *testing.T) {
	s := fswrite.NewStream(&gate{})
	fresh, gone, err := s.Resume()
	if s.Undo() || s.Gone() || fresh || gone || err != nil || s.Check() != nil || s.Next() == nil {
		t.Error("got no stream, want one")
	}
}

// Check examines the file while nothing is written.
func TestCheckWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Output: fswrite.NewStream(&gate{})}
		s, err := fswrite.New(c, fswrite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Check()
		synctest.Wait()
		if c.checks != 1 {
			t.Errorf("it was looked at %d times, want 1", c.checks)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// vanished is an output that has vanished whenever it is checked, until Resume. Some of the
// first calls of Resume fail.
type vanished struct {
	fswrite.Output
	fail  int
	calls strings.Builder
}

func (v *vanished) Check() error { v.calls.WriteString("check "); return errors.New("removed") }
func (v *vanished) Resume() (fresh, gone bool, err error) {
	if v.fail > 0 {
		v.fail--
		v.calls.WriteString("failed ")
		return false, false, errors.New("no folder")
	}
	v.calls.WriteString("resume ")
	return v.Output.Resume()
}
func (v *vanished) Write(p []byte) (int, error) {
	v.calls.WriteString("write ")
	return v.Output.Write(p)
}

// Nothing is written to an output that has vanished, until it can be used again. In some
// of the attempts the check comes first.
func TestNothingIsWrittenToAVanishedOutput(t *testing.T) {
	for i := range 50 {
		synctest.Test(t, func(t *testing.T) {
			v, g := &vanished{fail: i % 3}, &gate{}
			v.Output = fswrite.NewStream(g)
			s, err := fswrite.New(v, fswrite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Check()
			feed(s, 0, 3)
			time.Sleep(time.Second) // until it was tried again
			synctest.Wait()
			if calls := v.calls.String(); strings.Contains(calls, "check write") || strings.Contains(calls, "failed write") {
				t.Errorf("calls %q, want resume between check and write", calls)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if lines, _ := sums(g.text()); lines != 3 {
				t.Errorf("%d lines were written, want 3", lines)
			}
		})
	}
}

// forced is a file that counts syncs, and may lose its name before its end is
// written.
type forced struct {
	fswrite.Output
	syncs  int
	before func(text string)
}

func (f *forced) Sync() error { f.syncs++; return f.Output.Sync() }

func (f *forced) Write(p []byte) (int, error) {
	if f.before != nil {
		f.before(string(p))
	}
	return f.Output.Write(p)
}

// Each part is synced to the disk at its end, if the options ask for it.
func TestPartsAreForced(t *testing.T) {
	for policy, want := range map[fswrite.SyncPolicy]int{fswrite.SyncNever: 0, fswrite.SyncOnClose: 3} {
		out, err := fswrite.Open(filepath.Join(t.TempDir(), "t.x"), fswrite.NextName)
		if err != nil {
			t.Fatal(err)
		}
		f := &forced{Output: out}
		s, err := fswrite.New(f, fswrite.Options{Format: words{}, Rotate: 2 << 10, Sync: policy})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			feed(s, i, 1)
			flushed(t, s)
		}
		if err := s.Close(t.Context()); err != nil || s.Stats().Parts != 2 || f.syncs != want {
			t.Errorf("policy %d: %d syncs, %d more parts, %v; want %d, 2", policy, f.syncs, s.Stats().Parts, err, want)
		}
	}
}

// last is a format whose end tells whether it is the last part.
type last struct{ words }

func (last) End(p fswrite.Part) fswrite.Block {
	return fswrite.Block{Data: fmt.Appendf(nil, "last %v\n", p.Last), Lines: 1}
}

// Only the end of the last part is marked as last. If the file fails while its
// end is written, the end is in the file that continues it.
func TestTheEnd(t *testing.T) {
	dir := t.TempDir()
	out, err := fswrite.Open(filepath.Join(dir, "t.x"), fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	f := &forced{Output: out}
	s, err := fswrite.New(f, fswrite.Options{Format: last{}, Rotate: 3 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		feed(s, i, 1)
		flushed(t, s)
	}
	f.before = func(text string) {
		if strings.HasPrefix(text, "last true") && !failed {
			failed = true
			if err := os.Truncate(f.Path(), 0); err != nil {
				t.Error(err)
			}
		}
	}
	_ = s.Close(t.Context()) // a line was lost
	if got := read(t, filepath.Join(dir, "t.x")); !strings.HasSuffix(got, "last false\n") {
		t.Errorf(`first part ends with %q, want "last false"`, got[len(got)-20:])
	}
	if got := read(t, s.Path()); !failed || !strings.HasPrefix(got, "begin 1 again\n") || !strings.HasSuffix(got, "last true\n") {
		t.Errorf(`last part is %q, want it begun again, with "last true"`, got)
	}
}

// An outage without losses leaves no record, and neither does one of a file
// without a format.
func TestGaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		format fswrite.Format
		lines  int
		lost   bool
		gaps   int
	}{
		{name: "nothing lost", format: words{}, lines: 1},
		{name: "lines lost", format: words{}, lines: 100, lost: true, gaps: 1},
		{name: "lines lost without a format", lines: 100, lost: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, tell := &gate{}, &told{}
			s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: c.format, Hold: 8 << 10, OnError: tell.add})
			if err != nil {
				t.Fatal(err)
			}
			g.set(func(g *gate) { g.err = errors.New("input/output error") })
			feed(s, 0, 1)
			synctest.Wait()
			feed(s, 1, c.lines-1)
			g.set(func(g *gate) { g.err = nil })
			time.Sleep(10 * time.Second) // in synthetic time; the sink retries meanwhile
			if gaps := strings.Count(g.text(), "gap "); gaps != c.gaps || s.Stats().Lost > 0 != c.lost {
				t.Errorf("%s: %d records of losses, stats %+v; want %d, lost %v", c.name, gaps, s.Stats(), c.gaps, c.lost)
			}
			if len(tell.all) != 2 || !tell.all[1].Over {
				t.Errorf("%s: reports %v, want two, the second when the outage is over", c.name, tell.all)
			}
			_ = s.Close(t.Context())
			if err := s.Close(t.Context()); (err != nil) != c.lost {
				t.Errorf("%s: Close() = %v, want an error: %v", c.name, err, c.lost)
			}
			before := s.Stats().Lost
			if s.Put(line(0), 1, 0); s.Stats().Lost != before+1 {
				t.Errorf("%s: a line after the end is not counted as lost: %+v", c.name, s.Stats())
			}
		})
	}
}

// The record of the loss is where lines are accepted again: before the last of
// those that waited, once few of them are left. All are written in one go.
func TestGapRecordPrecedesTheNextLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, Hold: 1 << 20, OnError: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		g.set(func(g *gate) { g.err = errors.New("input/output error") })
		feed(s, 0, 1)
		synctest.Wait()
		refused := feed(s, 1, 1100)
		g.set(func(g *gate) { g.err = nil })
		time.Sleep(time.Second) // in synthetic time; the sink retries once meanwhile
		text := g.text()
		before, after, _ := strings.Cut(text, "gap ")
		first, _ := sums(before)
		last, _ := sums(after)
		if refused == 0 || first+last != 1101-refused || last == 0 || last > 256 {
			t.Errorf("%d lines before the gap, %d after it, %d refused; want 1101 in all, 1 to 256 after it", first, last, refused)
		}
		_ = s.Close(t.Context()) // lines were lost
	})
}

// A Sink that cannot write the start of its file leaves no new file, keeps an
// older one, and reports the error once.
func TestNewThatFails(t *testing.T) {
	for _, old := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "f")
		existing := fswrite.NextName
		if old {
			write(t, path, "")
			existing = fswrite.Append
		}
		out, err := fswrite.Open(path, existing)
		if err != nil {
			t.Fatal(err)
		}
		fswrite.Disown(out)
		told := 0
		if _, err := fswrite.New(out, fswrite.Options{Format: words{}, OnError: func(error) { told++ }}); err == nil || told > 0 {
			t.Errorf("error %v, and %d calls of OnError; want an error and no call", err, told)
		}
		if _, err := os.Stat(path); (err == nil) != old {
			t.Errorf("existing before: %v; after: %v", old, err)
		}
	}
}
