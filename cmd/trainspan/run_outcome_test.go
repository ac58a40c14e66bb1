//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestRunReportsTheOutcome checks that the outcome is correct, both at the end
// and later in the files. No file contains the secret.
func TestRunReportsTheOutcome(t *testing.T) {
	const python = `
import sys
from trainspan.dftracer import ai, dft_fn
if sys.argv[1] == "train":
    for i in range(3):
        with dft_fn("pipeline", "train.iteration"): pass
if sys.argv[1] == "handled":
    try: raise KeyError("x")
    except KeyError: sys.exit(0)
if sys.argv[1] == "exit": sys.exit(4)
raise RuntimeError("https://me:hunter2@host refused\n  password=hunter2")
`
	const elastic = `echo '{"message": {"message": "KeyError: token=hunter2", "extraInfo": {"timestamp": "1"}}}' > "$TORCHELASTIC_ERROR_FILE"; exit 1`
	for name, c := range map[string]struct {
		command []string // PROGRAM is replaced by the file of the Python program
		signal  syscall.Signal
		want    string
		screen  string // parts of the screen, separated by |
	}{
		"well":                {[]string{"true"}, 0, "completed", "COMPLETED · "},
		"a status":            {[]string{"sh", "-c", "exit 3"}, 0, "failed: status 3", "FAILED with status 3 before the first step · "},
		"a signal":            {[]string{"sh", "-c", "kill -SEGV $$"}, 0, "ended by SIGSEGV", "KILLED before the first step|End        Ended by SIGSEGV."},
		"a shell":             {[]string{"sh", "-c", "sh -c 'kill -9 $$'; exit $?"}, 0, "failed: status 137 (SIGKILL of its child process)", "End        Failed: status 137 (SIGKILL of its child process)."},
		"asked":               {[]string{"runjob", "signals"}, syscall.SIGTERM, "stopped by SIGTERM in a job of Slurm", "STOPPED by SIGTERM in a job of Slurm · "},
		"asked by Ctrl-C":     {[]string{"runjob", "signals"}, syscall.SIGINT, "stopped by Ctrl-C", "STOPPED by Ctrl-C · "},
		"an exception":        {[]string{"python3", "PROGRAM", ""}, 0, "failed: RuntimeError: https://REDACTED@host refused", "Error      RuntimeError: https://REDACTED@host refused|           train.py:11: raise RuntimeError("},
		"one of a training":   {[]string{"python3", "PROGRAM", "train"}, 0, "failed: RuntimeError: https://REDACTED@host refused", "Error      RuntimeError: https://REDACTED@host refused|           train.py:11: raise RuntimeError("},
		"an exit":             {[]string{"python3", "PROGRAM", "exit"}, 0, "failed: status 4", "FAILED with status 4 before the first step · "},
		"a handled exception": {[]string{"python3", "PROGRAM", "handled"}, 0, "completed", "COMPLETED · "},
		"torchelastic's file": {[]string{"sh", "-c", elastic}, 0, "failed: KeyError: token=REDACTED", "FAILED with status 1 before the first step · |Error      KeyError: token=REDACTED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i, arg := range c.command {
				switch arg {
				case "PROGRAM":
					c.command[i] = program(t, dir, python)
				case "python3":
					c.command[i] = pyrun.Interpreter(t)
				}
			}
			s := prepare(t, dir, append([]string{"--dir", "files", "--"}, c.command...)...)
			s.Env = append(s.Env, "SLURM_JOB_ID=7", "TORCHELASTIC_ERROR_FILE="+filepath.Join(t.TempDir(), "error.json"))
			s.begin()
			if c.signal != 0 {
				s.expect("ready")
				if err := s.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				s.expect(c.signal.String())
				if err := s.Process.Signal(syscall.SIGUSR2); err != nil {
					t.Fatal(err)
				}
			}
			s.rest()
			said := s.err.String()
			for _, part := range strings.Split(c.screen, "|") {
				if !strings.Contains(said, part) {
					t.Errorf("the screen is %q, want %q", said, part)
				}
			}
			status, out, told := cli(t, "runs", dir, "--json")
			var row struct{ Outcome string }
			if err := json.Unmarshal([]byte(out), &row); err != nil || status != 0 || row.Outcome != c.want {
				t.Errorf("status %d: %s%s, want %q", status, out, told, c.want)
			}
			var later struct {
				Outcome struct {
					Text    string
					ErrorAt string `json:"error_at"`
				}
				Starts []struct{ Outcome struct{ Text string } }
			}
			_, out, _ = cli(t, "report", dir, "--json")
			if err := json.Unmarshal([]byte(out), &later); err != nil || later.Outcome.Text != c.want && (len(later.Starts) != 1 || later.Starts[0].Outcome.Text != c.want) {
				t.Errorf("%v: the report has no outcome %q: %s", err, c.want, out)
			}
			if raised := strings.HasSuffix(later.Outcome.ErrorAt, "train.py:11"); raised != (name == "one of a training") {
				t.Errorf("the exception is reported at %q, want train.py:11 only where a training raised it", later.Outcome.ErrorAt)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "files", "*"))
			for _, path := range files {
				text, _ := os.ReadFile(path)
				_, events, _ := cli(t, "trace", "events", path)
				if len(files) == 0 || strings.Contains(string(text)+events, "hunter2") {
					t.Errorf("%s contains the secret, or there are no files", path)
				}
			}
		})
	}
}

// TestRunThatRecordsNothing checks that a start without records ends with its
// own outcome, and not with the report of an earlier run of the same name.
func TestRunThatRecordsNothing(t *testing.T) {
	dir := t.TempDir()
	end := func(command ...string) string {
		s := prepare(t, dir, append([]string{"--name", "job", "--"}, command...)...)
		s.begin()
		s.rest()
		return s.out.String() + s.err.String()
	}
	if got := end("runjob", "train", "4", "0"); !strings.Contains(got, "COMPLETED") {
		t.Fatalf("report is %q, want the one of the first run", got)
	}
	if got := end("sh", "-c", "exit 2"); strings.Contains(got, "COMPLETED") || !strings.Contains(got, "job.2 · FAILED with status 2 before the first step") {
		t.Errorf("report is %q, want that the command failed, without the report of the run before", got)
	}
}
