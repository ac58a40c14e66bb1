//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestRunGivesItsStreamsBack checks that after the end of the job and of
// trainspan run no process holds their streams, so that a reader gets EOF.
func TestRunGivesItsStreamsBack(t *testing.T) {
	s := prepare(t, t.TempDir(), "--", "sh", "-c", `read x; kill -STOP $(cat telemetry)`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close() //nolint:errcheck // only read
	s.Cmd.Stderr = write
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	_ = write.Close()
	var helper int
	until.True(t, "the telemetry process", func() bool {
		for _, pid := range children(s.Process.Pid) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), helperCommand) {
				helper = pid
			}
		}
		return helper != 0
	})
	if err := os.WriteFile(filepath.Join(s.dir, "telemetry"), []byte(fmt.Sprint(helper)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "go\n")
	until.True(t, "its stop", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", helper))
		return strings.Contains(string(stat), ") T ")
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	until.True(t, "the end of trainspan run, whose waiting a signal ends", func() bool {
		_ = s.Process.Signal(syscall.SIGTERM)
		return len(ended) == 1
	})
	text, err := io.ReadAll(read) // to its end
	if err != nil || !strings.Contains(string(text), "in the background") {
		t.Errorf(`output after the command: %q, %v; want "in the background"`, text, err)
	}
	if err := syscall.Kill(helper, syscall.SIGCONT); err != nil {
		t.Errorf("the telemetry process has ended: %v", err)
	}
	s.settle()
}

// TestRunMakesAPage checks that a run ends with a page, and with -q without
// one.
func TestRunMakesAPage(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		dir := t.TempDir()
		s := prepare(t, dir, fmt.Sprintf("--quiet=%v", quiet), "--dir", "files", "--", "runjob", "train", "3", "0")
		if status := s.finish(); status != 0 {
			t.Fatalf("status %d, want 0: %s", status, s.err.String())
		}
		if _, err := os.Stat(filepath.Join(dir, "files", "report.html")); os.IsNotExist(err) != quiet {
			t.Errorf("quiet %v: report.html: %v, want it written: %v", quiet, err, !quiet)
		}
		if told := s.err.String(); strings.Contains(told, "Files      files") == quiet {
			t.Errorf("quiet %v: stderr %q, want the files listed: %v", quiet, told, !quiet)
		}
	}
}

// TestRunEndsInAScreenForItsTerminal checks that the last lines of trainspan
// run fit the terminal, have the colors of the report only there, and name the
// page, which is written.
func TestRunEndsInAScreenForItsTerminal(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns uint16
		env     []string
		colors  bool
	}{
		{"60 columns", 60, []string{"TERM=xterm-256color"}, true},
		{"45 columns", 45, []string{"TERM=xterm-256color"}, true},
		{"NO_COLOR", 60, []string{"TERM=xterm-256color", "NO_COLOR=1"}, false},
		{"a dumb terminal", 60, []string{"TERM=dumb"}, false},
		{"no terminal", 0, []string{"TERM=xterm-256color"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := prepare(t, t.TempDir(), "--dir", "files", "--no-resources", "--", "runjob", "train", "3", "0")
			s.Env = append(s.Env, c.env...)
			read := func() string { return s.err.String() }
			if c.columns > 0 {
				screen, tty, err := pty.Open()
				if err != nil {
					t.Skipf("no pseudo-terminal: %v", err)
				}
				if err := pty.Setsize(tty, &pty.Winsize{Cols: c.columns, Rows: 40}); err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				ended := make(chan struct{})
				go func() { defer close(ended); _, _ = io.Copy(&text, screen) }() // ends with an error when the terminal is closed
				s.Cmd.Stderr = tty
				read = func() string {
					_ = tty.Close()
					<-ended
					_ = screen.Close()
					return strings.ReplaceAll(text.String(), "\r\n", "\n")
				}
			}
			if status := s.finish(); status != 0 {
				t.Fatalf("status = %d, want 0: %s", status, read())
			}
			s.settle()
			text := read()
			if got := strings.Contains(text, "\x1b["); got != c.colors {
				t.Errorf("colors = %v, want %v: %q", got, c.colors, text)
			}
			plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, "")
			for line := range strings.Lines(plain) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); c.columns > 0 && n > int(c.columns) {
					t.Errorf("a line has %d characters, want at most %d: %q", n, c.columns, line)
				}
			}
			if !strings.HasPrefix(plain, "runjob.1 · COMPLETED") || !strings.HasSuffix(plain, "\nPage       files/report.html\nTrace      trainspan open files\nFiles      files\n") {
				t.Errorf("screen = %q, want the report, then the page, the trace and the files", plain)
			}
		})
	}
}

// probe is a program that prints the state of its interpreter, and records a
// span.
const probe = `
import sys
print("sitecustomize" in sys.modules)
print(sys.argv[1:], sys.flags.isolated if sys.version_info > (3, 4) else "")
try:
    from trainspan.dftracer import ai
    with ai.compute.forward: pass
except ImportError:
    pass
sys.exit(7)
`

// interpreters returns the Python interpreters of the variable
// TRAINSPAN_PYTHONS, or of this machine.
func interpreters() (paths []string) {
	if v := os.Getenv("TRAINSPAN_PYTHONS"); v != "" {
		return strings.Fields(v)
	}
	for _, pattern := range []string{"/usr/bin/python[23]", os.Getenv("HOME") + "/.pyenv/versions/*/bin/python"} {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	return paths
}

// python38 returns an interpreter that the client supports, or skips the test.
func python38(t *testing.T) string {
	t.Helper()
	paths := interpreters()
	i := slices.IndexFunc(paths, func(path string) bool {
		return exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 8))").Run() == nil
	})
	if i < 0 {
		t.Skip("no Python 3.8 is here")
	}
	return paths[i]
}

// TestRunPythons checks the table of docs/guide/python.md: status and output
// are those without trainspan run, and if nothing is recorded the reason is
// printed.
func TestRunPythons(t *testing.T) {
	paths := interpreters()
	if len(paths) == 0 {
		t.Skip("no Python is here")
	}
	if testing.Short() {
		paths = paths[:1]
	}
	for _, python := range paths {
		version, err := exec.Command(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
		v := strings.TrimSpace(string(version))
		if err != nil {
			t.Errorf("%s: %v", python, err)
			continue
		}
		old := strings.HasPrefix(v, "2.") || v == "3.6" || v == "3.7"
		for name, c := range map[string]struct {
			args []string // command line; PYTHON and PROGRAM are replaced
			own  string   // the program's sitecustomize.py
			env  string
			why  string // why nothing is recorded; empty if the span is
		}{
			"plain":           {args: []string{"PYTHON", "PROGRAM", "a"}},
			"-E":              {args: []string{"PYTHON", "-E", "PROGRAM"}, why: "with -E it does not load the client"},
			"-I":              {args: []string{"PYTHON", "-I", "PROGRAM"}, why: "with -I it does not load the client"},
			"-S":              {args: []string{"PYTHON", "-S", "PROGRAM"}},
			"env -i":          {args: []string{"env", "-i", "PYTHON", "PROGRAM"}, why: "it did not get PYTHONPATH"},
			"its own":         {args: []string{"PYTHON", "PROGRAM"}, own: "import sys; sys.stderr.write('mine')"},
			"one that raises": {args: []string{"PYTHON", "PROGRAM"}, own: "1/0"},
			"PYTHONSAFEPATH":  {args: []string{"PYTHON", "PROGRAM"}, env: "PYTHONSAFEPATH=1"},
		} {
			if strings.HasPrefix(v, "2.") && name == "-I" {
				continue // the interpreter has no such flag
			}
			t.Run(v+" "+name, func(t *testing.T) {
				t.Parallel()
				dir, own := t.TempDir(), t.TempDir()
				program := filepath.Join(dir, "probe.py")
				if err := os.WriteFile(program, []byte(probe), 0o600); err != nil {
					t.Fatal(err)
				}
				if c.own != "" {
					if err := os.WriteFile(filepath.Join(own, "sitecustomize.py"), []byte(c.own), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				args := strings.Fields(strings.NewReplacer("PYTHON", python, "PROGRAM", program).Replace(strings.Join(c.args, " ")))
				s := prepare(t, dir, append([]string{"--"}, args...)...)
				s.Env = append(s.Env, "PYTHONPATH="+own, "PYTHONDONTWRITEBYTECODE=1", c.env)
				alone := exec.Command(args[0], args[1:]...)
				alone.Dir, alone.Env = s.Dir, s.Env
				var errs strings.Builder
				alone.Stderr = &errs
				out, _ := alone.Output()
				if status := s.finish(); status != alone.ProcessState.ExitCode() || s.out.String() != string(out) {
					t.Errorf("status %d, output %q; want %d, %q as without trainspan", status, s.out.String(), alone.ProcessState.ExitCode(), out)
				}
				ours, same := strings.CutPrefix(s.err.String(), errs.String())
				if !same {
					t.Errorf("stderr %q, want %q as without trainspan", ours, errs.String())
				}
				why := c.why
				switch {
				case name == "-S":
					why = map[bool]string{true: "with -S it does not load the client"}[old]
				case old && why == "":
					why = "the client needs Python 3.8 or later, and this is " + v
				}
				ours = strings.Join(strings.Fields(ours), " ")
				if saw := !strings.Contains(ours, "Python ran and was not recorded: "); saw != (why == "") || !strings.Contains(ours, why) {
					t.Errorf("it says %q, want %q", ours, why)
				}
			})
		}
	}
}

// TestRunRefused checks that the last lines say why a process could not record, whether others could or not.
func TestRunRefused(t *testing.T) {
	python := python38(t)
	for name, c := range map[string]struct{ first, want string }{
		"none records": {"true", "Python ran and was not recorded: it had no place for its records: "},
		"one records":  {"$0 train.py", "a Python process had no place for its records: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program := "import time, trainspan as ts\nfor i in range(3):\n  with ts.step(): time.sleep(0.01)"
			if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			s := prepare(t, dir, "--", "sh", "-c", c.first+" && ulimit -f 8 && exec $0 train.py", python)
			if status := s.finish(); status != 0 {
				t.Errorf("status %d, want 0", status)
			}
			got := strings.Join(strings.Fields(s.err.String()), " ")
			if !strings.Contains(got, c.want) || !strings.Contains(got, "the file size limit of the process (ulimit -f) is too small") {
				t.Errorf("it says %q, want %q and the limit", got, c.want)
			}
		})
	}
}

// TestRunFrameworks checks that the screen names the page about frameworks if
// the steps of a program's framework need additional lines and the program lacks
// them.
func TestRunFrameworks(t *testing.T) {
	python := python38(t)
	const page = "trainspan help recipes"
	for name, c := range map[string]struct {
		program, want, not string
	}{
		"nothing is recorded": {
			program: "import jax, keras",
			want:    "Python ran and was not recorded: jax and keras were imported, and no step was recorded: " + page,
		},
		"a module that imports it": {program: "import own", want: "jax was imported, and no step was recorded"},
		"it fails":                 {program: "import jax; 1/0", not: page},
		"only looked for":          {program: "import importlib.util; importlib.util.find_spec('jax')", want: "it trained nothing with PyTorch", not: page},
		"not installed":            {program: "try: import lightgbm\nexcept ImportError: pass", want: "it trained nothing with PyTorch", not: page},
		"spans, no step": {
			program: "import jax, time, trainspan as ts\nwith ts.span('generate'): time.sleep(0.01)",
			want:    "Record the training steps: jax was imported, and " + page + " has the lines",
		},
		"steps": {
			program: "import jax, time, trainspan as ts\nfor i in range(3):\n  with ts.step(): time.sleep(0.01)",
			want:    "Files ", not: page,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{"jax.py": "", "keras.py": "import jax", "own.py": "import jax", "train.py": c.program} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := prepare(t, dir, "--", python, "train.py")
			s.finish()
			if got := strings.Join(strings.Fields(s.err.String()), " "); !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("it says %q, want %q, not %q", got, c.want, c.not)
			}
		})
	}
}

// TestRunWithoutScript checks that the screen has Python's error if the file that
// Python was to run does not exist, and only then.
func TestRunWithoutScript(t *testing.T) {
	python := pyrun.Interpreter(t)
	const missing = "FAILED with status 2 before the first step · "
	for name, c := range map[string]struct {
		args []string
		said string // the error on the screen, or empty
	}{
		"missing":          {[]string{"nope.py", "--lr", "1"}, "Error      can't open file 'nope.py': No such file or directory\n"},
		"in a folder":      {[]string{"of/nope.py"}, "Error      can't open file 'nope.py': No such file or directory\n"},
		"its own status 2": {[]string{"train.py", "nope.py"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte("import sys; sys.exit(2)"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := prepare(t, dir, append([]string{"--", python}, c.args...)...)
			if status := s.finish(); status != 2 {
				t.Errorf("status %d, want that of Python, 2", status)
			}
			got := s.err.String()
			if !strings.Contains(got, missing) || !strings.Contains(got, c.said) || strings.Contains(got, "Error ") != (c.said != "") || strings.Contains(got, "trainspan help") {
				t.Errorf("stderr is %q, want %q and %q, and no help", got, missing, c.said)
			}
			if status, out, _ := cli(t, "report", filepath.Join(dir, "trainspan-runs")); status != 0 || !strings.Contains(out, c.said) {
				t.Errorf("report: status %d: %q, want %q", status, out, c.said)
			}
		})
	}
}
