package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestUnits(t *testing.T) {
	for us, text := range map[float64]string{0: "0 µs", 7: "7 µs", 7.25: "7.2 µs", 999: "999 µs", 1000: "1.00 ms", 12345: "12.3 ms",
		999_400: "999 ms", 999_600: "1.00 s", 59_990_000: "60.0 s", 599e6: "599 s", 600e6: "10 min 00 s", 3_725e6: "1 h 02 min", 900_000e6: "10 d 10 h", 9.2e18: "106,481,481 d 11 h", -5: "-5 µs"} {
		if got := micros(us); got != text {
			t.Errorf("micros(%v) = %q, want %q", us, got, text)
		}
	}
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := count(n); got != text {
			t.Errorf("count(%d) = %q, want %q", n, got, text)
		}
	}
	for n, text := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1 << 20: "1.00 MiB", 150 << 20: "150 MiB", 3 << 30: "3.00 GiB"} {
		if got := size(n); got != text {
			t.Errorf("size(%d) = %q, want %q", n, got, text)
		}
	}
	if got := plural(2, "process") + plural(1, "event") + plural(3, "entry"); got != "2 processes1 event3 entries" {
		t.Error(got)
	}
}

func TestColourNeedsATerminalAndLeave(t *testing.T) {
	a := &app{}
	if a.paint(&bytes.Buffer{}).on {
		t.Error("a buffer is no terminal")
	}
	if got := (painter{on: true}).bad("x"); got != "\x1b[31mx\x1b[0m" {
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
	if !a.paint(tty).on || !a.paint(&stickyWriter{w: tty}).on {
		t.Error("a terminal gets no colour")
	}
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		a.lookup = func(key string) (string, bool) { v, ok := env[key]; return v, ok }
		if a.paint(tty).on {
			t.Errorf("%v is not honoured", env)
		}
	}
	a.noBar = true
	a.err = tty
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
		if got := oneLine(explain(tc.err)); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
