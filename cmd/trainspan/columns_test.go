//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// onTerminal returns the output of a command line on a terminal with a number of
// columns.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: uint16(columns), Rows: 24}); err != nil { //nolint:gosec // small
		t.Fatal(err)
	}
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&shown, keyboard) // ends with an error when the terminal is closed
	}()
	run(t.Context(), args, ui.Streams{In: strings.NewReader(""), Out: tty, Err: tty})
	_ = tty.Close()
	<-read
	_ = keyboard.Close()
	return strings.ReplaceAll(shown.String(), "\r\n", "\n")
}

// part is a piece of a word or number that is never cut.
var part = regexp.MustCompile(`[\pL\d]+`)

// sequences are colour sequences, and those that clear the progress bar.
var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]|\r")

// TestColumns checks that on a terminal of at least 40 columns no command cuts
// a word or a number: its lines fit, and each part of a word also occurs in its
// output to a pipe.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join("..", "..", "internal", "ingest", "torch", "testdata")
	for name, a := range map[string][]simjob.Attempt{
		"job":  {{Ranks: 12, Steps: 60, Slow: 2, Extra: [4]float64{12}, Save: 20, Killed: true}, {Ranks: 12, Steps: 80, Number: 1, First: 40}},
		"base": {{Ranks: 2, Steps: 60}}, "new": {{Ranks: 2, Steps: 60, Scale: 1.2}},
	} {
		for i := range a {
			makeJob(t, filepath.Join(dir, name), a[i])
		}
	}
	profile, err := os.ReadFile(filepath.Join(fake, "overlap.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "profile.json"), profile, 0o600)
	}
	if err == nil {
		err = makeTrace([]string{filepath.Join(dir, "small.pfw.gz")})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // short names
	check(os.WriteFile("loose.pfw", []byte(`{"id":1,"name":"forward","cat":"compute","pid":1,"tid":1,"ts":5,"dur":2,"ph":"X","args":{"hhash":"ab"}}`+"\n"), 0o600))
	for _, line := range []string{
		"report job", "report job --full", "report base --full", "report profile.json --full", "runs .", "compare base new", "compare profile.json profile.json",
		"trace summary small.pfw.gz", "trace summary job --top 5", "trace steps job --limit 8", "trace events --sort duration small.pfw.gz", "trace events --sort duration job", "trace info small.pfw.gz", "trace events small.pfw.gz --limit 5",
		"trace validate small.pfw.gz", "trace validate loose.pfw", "trace import profile.json -o out.pfw.gz --force", "trace import profile.json -o out.pfw.gz --force -v",
		"trace summary none.pfw", "report none",
	} {
		args := strings.Fields(line)
		_, out, said := cli(t, args...)
		known := part.FindAllString(out+said+"more with", -1)
		for _, columns := range []int{40, 60, 80} {
			text := sequences.ReplaceAllString(onTerminal(t, columns, append([]string{"--no-progress"}, args...)...), "")
			for l := range strings.Lines(text) {
				l = strings.TrimRight(l, "\n")
				if display.Width(l) > columns {
					t.Errorf("%s on %d columns: a line takes %d columns: %q", line, columns, display.Width(l), l)
				}
				for _, w := range part.FindAllString(l, -1) {
					if !slices.Contains(known, w) {
						t.Errorf("%s on %d columns: %q is not part of a word of the full text: %q", line, columns, w, l)
					}
				}
			}
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s on %d columns prints nothing, want text", line, columns)
			}
		}
	}
}

// TestColour checks that --color decides about colours for any destination.
func TestColour(t *testing.T) {
	path := smallTrace(t)
	for when, want := range map[string]bool{"always": true, "never": false, "auto": false} {
		if _, out, _ := cli(t, "trace", "summary", path, "--color", when); strings.Contains(out, "\x1b[1m") != want {
			t.Errorf("trace summary --color %s in a pipe prints %q, want bold text %v", when, out, want)
		}
	}
	if text := onTerminal(t, 80, "trace", "summary", path, "--color=never", "--no-progress"); strings.Contains(text, "\x1b") {
		t.Errorf("--color never on a terminal: %q", text)
	}
	if status, _, said := cli(t, "trace", "summary", path, "--color", "pink"); status != 2 || !strings.Contains(said, "auto, always, never") {
		t.Errorf("trace summary --color pink: status %d, stderr %q; want 2 and the values of --color", status, said)
	}
}

// TestCompareNarrow checks that the tables of a comparison keep their headings on a terminal on which their
// rows become paragraphs, and that changes of phases have the unit of their columns.
func TestCompareNarrow(t *testing.T) {
	t.Chdir(t.TempDir())
	makeJob(t, "base", simjob.Attempt{Ranks: 2, Steps: 60})
	makeJob(t, "new", simjob.Attempt{Ranks: 2, Steps: 60, Scale: 1.5})
	narrow := sequences.ReplaceAllString(onTerminal(t, 40, "compare", "base", "new"), "")
	for _, heading := range []string{"\ntime of a rank\n", "\ndifference\n"} {
		if !strings.Contains(narrow, heading) {
			t.Errorf("compare on 40 columns has no line %q:\n%s", heading, narrow)
		}
	}
	wide := sequences.ReplaceAllString(onTerminal(t, 120, "compare", "base", "new"), "")
	if !regexp.MustCompile(`\n    backward +2\d\.\d\d ms +3\d\.\d\d ms +\+1\d\.\d\d ms +\+1\d\.\d\d … \+1\d\.\d\d ms`).MatchString(wide) {
		t.Errorf("compare on 120 columns: want the change of backward in milliseconds, got\n%s", wide)
	}
	if strings.Contains(wide, "-0.0 s") || strings.Contains(wide, "+0.0 s") || strings.Contains(wide, "start up") {
		t.Errorf("a difference without a value, or another word for the start:\n%s", wide)
	}
}

// TestHelpOnTerminal checks that the help of all commands fits on a terminal, except for words longer than a line.
func TestHelpOnTerminal(t *testing.T) {
	t.Setenv("PAGER", "")
	for _, line := range []string{"--help", "run --help", "report --help", "help compare", "trace --help", "trace convert --help", "help screen", "help goodput"} {
		for _, columns := range []int{60, 80} {
			for text := range strings.Lines(sequences.ReplaceAllString(onTerminal(t, columns, strings.Fields(line)...), "")) {
				if text = strings.TrimRight(text, "\n"); display.Width(text) > columns && strings.Contains(strings.TrimSpace(text), " ") {
					t.Errorf("%s, %d columns: %q is wider", line, columns, text)
				}
			}
		}
	}
}
