package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
)

func TestColourNeedsATerminalAndLeave(t *testing.T) {
	a := &ui.App{}
	if a.Paint(display.NewWriter(&bytes.Buffer{})).On {
		t.Error("a buffer counts as a terminal, want not")
	}
	if got := (ui.Painter{On: true}).Bad("x\x1b[0m"); got != "\x1b[31mx·[0m\x1b[0m" {
		t.Errorf("Bad with colours = %q, want \"\x1b[31mx·[0m\x1b[0m\"", got)
	}
	if got := (ui.Painter{}).Bad("x"); got != "x" {
		t.Errorf(`Bad without colours = %q, want "x"`, got)
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	defer tty.Close() //nolint:errcheck // nothing was written
	if !a.Paint(display.NewWriter(tty)).On {
		t.Error("got no colour on a terminal, want colour")
	}
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		a.Streams.Lookup = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
		if a.Paint(display.NewWriter(tty)).On {
			t.Errorf("with %v in the environment, the terminal still gets colours", env)
		}
	}
	a.NoBar = true
	a.Streams.Err = tty
	if a.StartProgress("x", nil) != nil || a.StartSpinner("x") != nil {
		t.Error("got a progress bar with --no-progress, want none")
	}
}

func TestProgressOnATerminal(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	defer tty.Close() //nolint:errcheck // only a bar was written
	path := smallTrace(t)
	var out bytes.Buffer
	status := run(t.Context(), []string{"trace", "summary", path, path}, ui.Streams{Out: &out, Err: tty})
	if status != 0 || !strings.Contains(out.String(), "29 events") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("trace summary on a terminal: status %d, %q; want 0, 29 events and no colours", status, out.String())
	}
	a := &ui.App{Streams: ui.Streams{Err: tty}}
	bar := a.StartProgress("reading", []string{path})
	if bar == nil {
		t.Fatal("got no progress bar on a terminal, want one")
	}
	bar.File(path, 0)
	if bar.Expect < 20 || bar.Expect > 200 {
		t.Errorf("%d events are expected of 29", bar.Expect)
	}
	for range 1 << 14 {
		bar.Step()
	}
	if got := bar.Bar.State().CurrentNum; got != bar.Size {
		t.Errorf("progress bar ends at %d, want %d", got, bar.Size)
	}
	bar.EndFile()
	bar.Finish()
	s := a.StartSpinner("working")
	s.Finish()
}

func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, "x: there is no such file; check the name"},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "x: permission denied; ask its owner for access"},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "x: no space left on the device; free space or write elsewhere"},
		{&os.PathError{Op: "read", Path: "x", Err: syscall.EISDIR}, "x: is a directory; name a file in it"},
		{errors.New("dftracer: odd\nthing"), "odd; thing"},
	} {
		if got := ui.Explain(tc.err); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
