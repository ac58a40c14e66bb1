//go:build unix

package fswrite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// Each part of a file has its start and its end, and reports the next part.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	out, err := fswrite.Open(filepath.Join(dir, "t.x"), fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	s, err := fswrite.New(out, fswrite.Options{Format: words{}, Rotate: 10 << 10, OnPath: func(path string) { paths = append(paths, filepath.Base(path)) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 25 { // one block each
		feed(s, i, 1)
		flushed(t, s)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if st := s.Stats(); !slices.Equal(paths, []string{"t.1.x", "t.2.x"}) || filepath.Base(s.Path()) != "t.2.x" || st.Parts != 2 || st.Lines != 25+6 {
		t.Errorf("reports %v, path %s, stats %+v; want t.1.x and t.2.x, 31 lines in 2 more parts", paths, s.Path(), st)
	}
	for n, name := range []string{"t.x", "t.1.x", "t.2.x"} {
		text := read(t, filepath.Join(dir, name))
		lines, _ := sums(text)
		if want := []int{10, 10, 5}[n]; lines != want || !strings.HasPrefix(text, fmt.Sprintf("begin %d\n", n)) || !strings.HasSuffix(text, fmt.Sprintf("\nend lines=%d lost=0\n", want+1)) {
			t.Errorf("%s has %d lines, want %d of part %d: %.30q", name, lines, want, n, text)
		}
	}
}

// A suspended file has no end except for what Pause returns, until another Sink
// continues it; a closed file is not continued.
func TestSuspend(t *testing.T) {
	for _, pause := range []func() fswrite.Block{nil, func() fswrite.Block {
		return fswrite.Block{Data: []byte("pause\n"), Lines: 1}
	}} {
		path := filepath.Join(t.TempDir(), "t.x")
		out, err := fswrite.Open(path, fswrite.NextName)
		if err != nil {
			t.Fatal(err)
		}
		o := fswrite.Options{Format: words{}, Pause: pause}
		first, err := fswrite.New(out, o)
		if err != nil {
			t.Fatal(err)
		}
		feed(first, 0, 3)
		if err := first.Suspend(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "begin 0\n"
		for i := range 3 {
			want += string(line(i))
		}
		lines := 4
		if pause != nil {
			want += "pause\n"
			lines++
		}
		if got := read(t, path); got != want {
			t.Errorf("suspended it holds %q, want %q", got, want)
		}
		second, err := fswrite.Continue(first, o)
		if err != nil {
			t.Fatal(err)
		}
		feed(second, 3, 1)
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := read(t, path); got != want+string(line(3))+fmt.Sprintf("end lines=%d lost=0\n", lines+1) {
			t.Errorf("file ends up with %q, want line 3 and the end appended to %q", got, want)
		}
		for _, s := range []*fswrite.Sink{first, second} {
			if _, err := fswrite.Continue(s, o); err == nil {
				t.Error("Resume of a file that is not suspended succeeded, want an error")
			}
		}
	}
}

// What was written since the last Commit can be taken back.
func TestUndo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.x")
	out, err := fswrite.Open(path, fswrite.NextName)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"whole ", "torn", "then"} {
		if _, err := out.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		if text != "torn" {
			out.Commit()
		} else if !out.Undo() || out.Size() != 6 {
			t.Errorf("Undo left %d bytes, want 6", out.Size())
		}
	}
	if got := read(t, path); got != "whole then" || out.Close() != nil {
		t.Errorf(`file is %q, want "whole then"`, got)
	}
}
