package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/visible"
)

func TestColourNeedsATerminalAndLeave(t *testing.T) {
	a := &app{}
	if a.paint(visible.NewWriter(&bytes.Buffer{})).on {
		t.Error("a buffer is no terminal")
	}
	if got := (painter{on: true}).bad("x\x1b[0m"); got != "\x1b[31mx·[0m\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := (painter{}).bad("x"); got != "x" {
		t.Errorf("%q", got)
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	defer tty.Close() //nolint:errcheck // nothing was written
	if !a.paint(visible.NewWriter(tty)).on {
		t.Error("a terminal gets no colour")
	}
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		a.streams.lookup = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
		if a.paint(visible.NewWriter(tty)).on {
			t.Errorf("%v is not honoured", env)
		}
	}
	a.noBar = true
	a.streams.err = tty
	if a.startProgress("x", nil) != nil || a.startSpinner("x") != nil {
		t.Error("--no-progress is not honoured")
	}
}

func TestProgressOnATerminal(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminal:", err)
	}
	defer tty.Close() //nolint:errcheck // a bar is all that was written
	path := smallTrace(t)
	var out bytes.Buffer
	status := run(t.Context(), []string{"summary", path, path}, streams{out: &out, err: tty})
	if status != 0 || !strings.Contains(out.String(), "29 events") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("status %d: %s", status, out.String())
	}
	a := &app{streams: streams{err: tty}}
	bar := a.startProgress("reading", []string{path})
	if bar == nil {
		t.Fatal("no bar on a terminal")
	}
	bar.file(path, 0)
	if bar.expect < 20 || bar.expect > 200 {
		t.Errorf("%d events are expected of 29", bar.expect)
	}
	for range 1 << 14 {
		bar.step()
	}
	if got := bar.bar.State().CurrentNum; got != bar.size {
		t.Errorf("the bar is at %d of %d", got, bar.size)
	}
	bar.endFile()
	bar.finish()
	s := a.startSpinner("working")
	s.finish()
}

func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, "x: there is no such file; check the name"},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "x: permission denied; ask its owner for access"},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "x: no space left on the device; free some or write elsewhere"},
		{&os.PathError{Op: "read", Path: "x", Err: syscall.EISDIR}, "x: is a directory; name a file in it"},
		{errors.New("dftracer: odd\nthing"), "odd; thing"},
	} {
		if got := explain(tc.err); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
