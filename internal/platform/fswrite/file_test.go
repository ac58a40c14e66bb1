//go:build unix

package fswrite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

func TestName(t *testing.T) {
	rank := 3
	for _, c := range []struct {
		path  string
		rank  *int
		world int
		want  string
	}{
		{"a/trace.pfw.gz", &rank, 1, "a/trace.pfw.gz"},
		{"a/trace.pfw.gz", &rank, 8, "a/trace-rank3.pfw.gz"},
		{"a/trace.pfw.gz", nil, 8, "a/trace.pfw.gz"},
		{"a/{rank}/trace.pfw.gz", &rank, 8, "a/3/trace.pfw.gz"},
		{"t-{host}-{pid}.jsonl", &rank, 0, "t-n_1-7.jsonl"},
		{"t-{pid}.jsonl", &rank, 2, "t-7-rank3.jsonl"},
		{"dir.d/noext", &rank, 2, "dir.d/noext-rank3"},
		{".hidden", &rank, 2, ".hidden-rank3"},
		{"a.json.gz", &rank, 2, "a-rank3.json.gz"},
		{"a.jsonl.gz", &rank, 2, "a-rank3.jsonl.gz"},
		{"my.longword.gz", &rank, 2, "my.longword-rank3.gz"},
		{"{}-{ }.x", &rank, 0, "{}-{ }.x"},
		{fswrite.Stdout, &rank, 2, fswrite.Stdout},
		{os.DevNull, &rank, 2, os.DevNull},
	} {
		got, err := fswrite.Name{Path: c.path, Rank: c.rank, WorldSize: c.world, PID: 7, Host: "n/1"}.Resolve()
		if err != nil || got != c.want {
			t.Errorf("%s: %s %v, want %s", c.path, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "{rankk}.x", "{RANK}.x"} {
		if got, err := (fswrite.Name{Path: bad}).Resolve(); err == nil || bad != "" && !strings.Contains(err.Error(), "{rank}, {pid} or {host}") {
			t.Errorf("Resolve(%q) = %s, %v; want an error that names the placeholders", bad, got, err)
		}
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestOpenTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "new", "t.pfw.gz"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := fswrite.Open(path, fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	for _, n := range []string{"t.run2.pfw.gz", "t.run3.pfw.gz"} { // one dangling link and one regular file
		target := victim
		if n == "t.run3.pfw.gz" {
			target = filepath.Join(dir, "nowhere")
		}
		if err := os.Symlink(target, filepath.Join(dir, "new", n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []fswrite.Existing{fswrite.NextName, fswrite.Append} {
		held, err := fswrite.Open(path, fswrite.Append) // holds the lock
		if err != nil {
			t.Fatal(err)
		}
		out, err := fswrite.Open(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(out.Path()) != "t.run4.pfw.gz" {
			t.Errorf("mode %d: path %s, want t.run4.pfw.gz", mode, out.Path())
		}
		_, _ = out.Write([]byte("x"))
		_ = errors.Join(out.Close(), held.Close())
	}
	if _, err := fswrite.Open(path, fswrite.Fail); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the link was followed: %q, want \"precious\"", text)
	}
	info, _ := os.Stat(path)
	folder, _ := os.Stat(filepath.Dir(path))
	if info.Mode().Perm()&^0o644 != 0 || folder.Mode().Perm()&^0o755 != 0 {
		t.Errorf("modes %v and %v, want at most 0644 and 0755", info.Mode(), folder.Mode())
	}
}

func TestOpenRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.jsonl")
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			out, err := fswrite.Open(path, fswrite.NextName)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = fmt.Fprint(out, i)
			_ = out.Close()
		})
	}
	all.Wait()
	var seen []string
	for _, n := range names(t, dir) {
		text, _ := os.ReadFile(filepath.Join(dir, n))
		seen = append(seen, string(text))
	}
	slices.Sort(seen)
	if len(seen) != 32 || len(slices.Compact(seen)) != 32 {
		t.Errorf("paths %v, want 32 different ones", seen)
	}
}

// No two writers get the same file, even if one finds it before its creator has
// locked it.
func TestAppendRace(t *testing.T) {
	dir := t.TempDir()
	for i := range 300 {
		path := filepath.Join(dir, fmt.Sprint(i, ".jsonl"))
		var outs [4]fswrite.Output
		var all sync.WaitGroup
		for n := range outs {
			all.Go(func() {
				out, err := fswrite.Open(path, fswrite.Append)
				if err != nil {
					t.Error(err)
				}
				outs[n] = out
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		seen := make(map[string]bool)
		for _, out := range outs {
			if seen[out.Path()] {
				t.Errorf("%s was given to two writers, want one", out.Path())
			}
			seen[out.Path()] = true
		}
		for _, out := range outs {
			_ = out.Close()
		}
		if t.Failed() {
			return
		}
	}
}

// No writer appends to a file that its writer is about to delete, and the
// deletion is not reported as an error.
func TestAppendToAFileThatGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.x")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				out, err := fswrite.Open(path, fswrite.Append)
				if err != nil {
					t.Error(err)
					return
				}
				if err := out.Check(); err != nil {
					t.Error(err)
				}
				s, err := fswrite.New(out, fswrite.Options{Unwanted: func(fswrite.Part) bool { return true }})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := names(t, filepath.Dir(path)); len(left) != 0 {
		t.Errorf("%v are left, want none", left)
	}
}

func sink(t *testing.T, path string) (*fswrite.Sink, *told) {
	t.Helper()
	tell := &told{}
	out, err := fswrite.Open(path, fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	onPath := func(path string) { tell.paths = append(tell.paths, filepath.Base(path)) }
	s, err := fswrite.New(out, fswrite.Options{Format: words{}, OnError: tell.add, OnPath: onPath})
	if err != nil {
		t.Fatal(err)
	}
	return s, tell
}

// flushed waits until what was put is in the file. On a busy machine the
// writing goroutine may be delayed by as long as a stall takes.
func flushed(t *testing.T, s *fswrite.Sink) {
	t.Helper()
	until.Nil(t, func() error { return s.Flush(t.Context(), false) })
}

// TestDescriptorClosedFromOutside closes the writer's descriptor and reuses its
// number for a file that must not be written to.
func TestDescriptorClosedFromOutside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.x")
	before := descriptors(t)
	s, tell := sink(t, path)
	feed(s, 0, 10)
	flushed(t, s)
	for fd := range descriptors(t) {
		if target := descriptors(t)[fd]; before[fd] != target && target == path {
			if err := syscall.Close(fd); err != nil {
				t.Fatal(err)
			}
		}
	}
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		failed := s.Stats().Errors
		feed(s, 10+10*i, 10)
		s.Check()
		if i == 0 {
			until.True(t, "the closed descriptor is noticed", func() bool { return s.Stats().Errors > failed })
		}
	}
	flushed(t, s)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := other.WriteString("mine"); err != nil {
		t.Error(err)
	}
	_ = other.Close()
	if got := names(t, dir); !slices.Equal(got, []string{"other", "t.x"}) {
		t.Errorf("files %v, want [other t.x]", got)
	}
	text, _ := os.ReadFile(path)
	if lines, gaps := sums(string(text)); lines != 60 || gaps != 0 || s.Stats().Lost != 0 || len(tell.all) != 2 {
		t.Errorf("%d lines, %d in gaps, reports %+v; want 60, 0, two", lines, gaps, tell.all)
	}
	if len(tell.paths) != 0 { // it is the same file
		t.Errorf("told of paths %v, want none", tell.paths)
	}
	if mine, _ := os.ReadFile(other.Name()); string(mine) != "mine" {
		t.Errorf("the other file holds %.50q, want \"mine\"", mine)
	}
}

func descriptors(t *testing.T) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here")
	}
	all := map[int]string{}
	for _, e := range entries {
		var fd int
		_, _ = fmt.Sscan(e.Name(), &fd)
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			all[fd] = target
		}
	}
	return all
}

// TestEmptiedFile truncates the file from outside: the writer leaves it,
// continues in another file and reports the loss.
func TestEmptiedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.x")
	s, _ := sink(t, path)
	feed(s, 0, 10)
	flushed(t, s)
	if err := os.WriteFile(path, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	feed(s, 10, 10)
	_ = s.Flush(t.Context(), false)
	_ = s.Flush(t.Context(), false)
	feed(s, 20, 10)
	if err := s.Close(t.Context()); err == nil {
		t.Error("Close returned no error, want one with the lost lines")
	}
	if text, _ := os.ReadFile(path); string(text) != "theirs" {
		t.Errorf("their file holds %.40q, want \"theirs\"", text)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "t.1.x"))
	if lines, gaps := sums(string(text)); lines != 20 || gaps != 10 || s.Stats().Lost != 10 || !strings.HasPrefix(string(text), "begin 0 again\n") {
		t.Errorf("%d lines, %d in gaps, stats %+v, files %v; want 20, 10, 10 lost, the part begun again", lines, gaps, s.Stats(), names(t, dir))
	}
}

// A file that was moved away keeps its contents; if another file has its name
// by then, the writer continues in a third.
func TestMovedFile(t *testing.T) {
	dir := t.TempDir()
	path, aside := filepath.Join(dir, "t.x"), filepath.Join(dir, "aside")
	s, tell := sink(t, path)
	feed(s, 0, 10)
	flushed(t, s)
	if err := errors.Join(os.Rename(path, aside), os.WriteFile(path, []byte("theirs"), 0o644)); err != nil {
		t.Fatal(err)
	}
	feed(s, 10, 10)
	flushed(t, s)
	feed(s, 20, 10)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := read(t, path); got != "theirs" {
		t.Errorf("their file holds %.40q, want \"theirs\"", got)
	}
	before, _ := sums(read(t, aside))
	after, gaps := sums(read(t, filepath.Join(dir, "t.1.x")))
	if before < 10 || before+after != 30 || gaps != 0 || s.Stats().Lost != 0 || !slices.Equal(tell.paths, []string{"t.1.x"}) {
		t.Errorf("%d lines, then %d, %d in gaps, %+v in %v, reports %v; want 30 together, none lost, the new path t.1.x", before, after, gaps, s.Stats(), names(t, dir), tell.paths)
	}
}

// A file that is replaced by another one of ours is examined again; a file that
// appears where none was is an error.
func TestFileReplacedMeanwhile(t *testing.T) {
	for _, lacks := range systems {
		for _, c := range []struct {
			step, before string
			ours         fswrite.Proof
			want         string
			err          error
		}{
			{"proved", old, holds(old), next, nil},
			{"closed", "", nil, old, fs.ErrExist},
		} {
			t.Chdir(t.TempDir())
			if c.before != "" {
				write(t, target, c.before)
			}
			write(t, "theirs", old)
			undo := fswrite.Without(strings.Split(lacks, ",")...)
			undoStep := fswrite.AtStep(func(name string) {
				if _, err := os.Stat("theirs"); name == c.step && err == nil {
					if err := os.Rename("theirs", target); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := fswrite.Write(target, []byte(next), 0o644, c.ours)
			undoStep()
			undo()
			if got, all := read(t, target), names(t, "."); !errors.Is(err, c.err) || got != c.want || len(all) != 1 {
				t.Errorf("%s without %q: %v, file %q, files left %q; want %v, %q, one file", c.step, lacks, err, got, all, c.err, c.want)
			}
		}
	}
}

// TestPipeNobodyReads writes to a named pipe without a reader.
func TestPipeNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	s, tell := sink(t, path)
	refused := feed(s, 0, 3000) // 3 MB
	for range 100 {
		if errors.Is(s.Flush(t.Context(), false), fswrite.ErrStalled) {
			break
		}
	}
	if st := s.Stats(); refused != 0 || st.Outages != 1 || st.Held < 1<<20 {
		t.Errorf("%d lines refused, stats %+v; want 0, 1 outage, 1 MiB or more held", refused, st)
	}
	s.Abandon(errors.New("enough"))
	if err := s.Close(t.Context()); err == nil || s.Stats().Lost < 2000 || len(tell.all) != 1 {
		t.Errorf("Close() = %v, stats %+v, reports %+v; want an error, 2000 lines or more lost, one report", err, s.Stats(), tell.all)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files %v, want one", got)
	}
}
