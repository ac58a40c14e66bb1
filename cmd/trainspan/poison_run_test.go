//go:build linux

package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestRunPoison checks that neither the output of trainspan run about a job nor
// its page contains the characters of malicious names.
func TestRunPoison(t *testing.T) {
	files := poisonedFiles(t)
	name := strings.ReplaceAll(poisonName, "\xff", "")
	for label, args := range map[string][]string{
		"report":     {"--name", name, "--", "sh", "-c", `cp "$0"/* "$TRAINSPAN_DIR"`, files["JOB"]},
		"no process": {"--dir", "d" + poisonName, "--profiles", files["DIR"], "--", "sh", "-c", `cp "$0" "$TRAINSPAN_DIR"`, files["RANKS"]},
		"problems":   {"--name", name, "--forward", "http://" + name, "--profiles", files["NONE"], "--", "sh", "-c", `echo "$0" > "$TRAINSPAN_DIR"/x.pfw`, poison},
		"no program": {"--", "./" + poisonName},
		"no folder":  {"--dir", "/dev/null/" + poisonName, "--", "true"},
	} {
		t.Run(label, func(t *testing.T) {
			dir := t.TempDir()
			s := prepare(t, dir, args...)
			s.Env = append(s.Env, "TRAINSPAN_SESSION_TAG="+poison, "TRAINSPAN_JOB="+poison, "RANK=0"+poison)
			status := s.finish()
			for _, text := range []string{s.out.String(), s.err.String()} {
				if found := hiddenIn(text); found != "" {
					t.Errorf("status %d: it prints %s, want \"\": %q", status, found, text)
				}
			}
			if s.err.Len() == 0 {
				t.Error("got no output, want the report")
			}
			if label == "report" {
				if !strings.Contains(s.err.String(), "Rank 1's data loading") {
					t.Errorf("there is no report: %s, want \"Rank 1's data loading\" in it", s.err.String())
				}
				lookAtFiles(t, dir)
			}
		})
	}
}

// TestPoisonWithColours checks that the output on a terminal has the command's
// colours, and no escape sequences from a trace.
func TestPoisonWithColours(t *testing.T) {
	files := poisonedFiles(t)
	own := regexp.MustCompile(`\x1b\[(1|2|3[123]|0)m`)
	for line, colour := range map[string]string{
		"trace summary TRACE": "\x1b[1m", "trace info TRACE": "\x1b[2m", "trace steps JOB": "\x1b[2m", "trace events TRACE --sort duration": "\x1b[2m", "trace validate TRACE": "\x1b[31m", "compare JOB JOB": "\x1b[2m",
		"trace info NONE": "\x1b[31mtrainspan:\x1b[0m ", "trace info BYTES": "\x1b[33mtrainspan:\x1b[0m ",
	} {
		keyboard, tty, err := pty.Open()
		if err != nil {
			t.Skipf("no pseudo-terminal: %v", err)
		}
		var shown bytes.Buffer
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(&shown, keyboard) // ends with an error when the terminal is closed
		}()
		args := []string{"--no-progress"}
		for word := range strings.FieldsSeq(line) {
			if path, ok := files[word]; ok {
				word = path
			}
			args = append(args, word)
		}
		run(t.Context(), args, ui.Streams{Out: tty, Err: tty})
		_ = tty.Close()
		select {
		case <-read:
		case <-time.After(5 * time.Minute): // only a safeguard
			t.Fatal("the program on the terminal does not exit")
		}
		_ = keyboard.Close()
		text := strings.ReplaceAll(shown.String(), "\r\n", "\n")
		if !strings.Contains(text, colour) {
			t.Errorf("%s: want %q in the text, got %q", line, colour, text)
		}
		if found := hiddenIn(own.ReplaceAllString(text, "")); found != "" || strings.Contains(text, "\x1b[35m") {
			t.Errorf("%s prints %s, want no control characters but its own colours: %q", line, found, text)
		}
	}
}

// TestPoisonOnTop checks the same for top.
func TestPoisonOnTop(t *testing.T) {
	files := poisonedFiles(t)
	for _, paths := range [][]string{{files["JOB"]}, {files["NONE"]}, {files["WORDS"]}, {files["DIR"]}} {
		m := newTopModel(t.Context(), &topReader{paths: paths, interval: time.Second, now: time.Now}, ui.Painter{})
		for _, width := range []int{200, 60} {
			update(m, m.reader.read(t.Context(), true))
			m.width, m.height = width, 100
			v := m.View()
			if found := hiddenIn(v.Content + v.WindowTitle); found != "" {
				t.Errorf("top on %q shows %s in %q, want no control characters", paths, found, v.Content+v.WindowTitle)
			}
		}
	}
	x := startOnTerminal(t, 100, 30, "top", files["JOB"])
	x.see("Rank 1's data loading")
	x.press("q")
	x.end()
}
