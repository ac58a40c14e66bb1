//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPairs checks that two commands are run alternately, in reverse order in
// every other pair, and that their runs are compared.
func TestPairs(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want int // status; -1 means any status of compare
		says string
		runs int
	}{
		"two pairs":         {[]string{"--pairs", "2", "--", "runjob", "train", "60", "0", "--", "runjob", "train", "60", "0"}, -1, "pair 1 of 2: base, runjob|pair 1 of 2: new, runjob|pair 2 of 2: new, runjob|pair 2 of 2: base, runjob", 4},
		"a command fails":   {[]string{"--pairs", "2", "--", "runjob", "train", "3", "0", "--", "false"}, 2, "the new command of pair 1 failed", 2},
		"no training":       {[]string{"--pairs", "3", "--", "true", "--", "true"}, 1, "no training process", 1},
		"one command":       {[]string{"--pairs", "2", "--", "runjob", "train", "3", "0"}, 2, "takes two commands", 0},
		"one pair":          {[]string{"--pairs", "1", "--", "true", "--", "true"}, 2, "use 2 to 100", 0},
		"a flag that fails": {[]string{"--pairs", "2", "--fail-over", "much", "--", "true", "--", "true"}, 2, "--fail-over much", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(filepath.Join(bin, "trainspan"), append([]string{"compare"}, c.args...)...)
			var out, said bytes.Buffer
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(clean(bin), "TMPDIR="+t.TempDir()), &out, &said
			err := cmd.Run()
			var ended *exec.ExitError
			if err != nil && !errors.As(err, &ended) {
				t.Fatal(err)
			}
			got := cmd.ProcessState.ExitCode()
			if c.want >= 0 && got != c.want || c.want < 0 && got != 0 && got != 3 && got != 4 {
				t.Errorf("status %d, want %d: %s%s", got, c.want, out.String(), said.String())
			}
			notes := regexp.MustCompile(`pair \d of \d: \w+, \w+`).FindAllString(said.String(), -1)
			if text := strings.Join(notes, "|") + said.String(); !strings.Contains(text, c.says) {
				t.Errorf("comparison reports %q, want %q", text, c.says)
			}
			if c.want < 0 && (!strings.Contains(out.String(), "step, median") || !strings.Contains(out.String(), "base-1, base-2")) {
				t.Errorf("compare prints no comparison of base-1 and base-2: %s", out.String())
			}
			runs, err := filepath.Glob(filepath.Join(dir, "trainspan-runs", "pairs-*", "*-*"))
			if err != nil || len(runs) != c.runs {
				t.Errorf("runs are in %q, want %d of them", runs, c.runs)
			}
		})
	}
}

// TestPairsLeaveProcesses checks that a command may leave a process that holds
// its output, and that the first run may have profiles and no training process.
func TestPairsLeaveProcesses(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("p.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	compare := func(job string) (status int, said string) {
		t.Helper()
		// A process that is left would hold a pipe to this test, but not a file.
		out, err := os.Create(path("out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.Command(filepath.Join(bin, "trainspan"), "compare", "--pairs", "2", "--", "sh", "-c", job, "--", "sh", "-c", job)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(clean(bin), "TMPDIR="+t.TempDir()), out, out
		var ended *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path("out"))
		if err != nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	status, said := compare("sleep 100 & echo $! >> pids; exec runjob train 60 0")
	pids, err := os.ReadFile(path("pids"))
	for _, pid := range strings.Fields(string(pids)) {
		n, _ := strconv.Atoi(pid)
		if p, err := os.FindProcess(n); n > 0 && err == nil {
			_ = p.Kill()
		}
	}
	if err != nil || len(strings.Fields(string(pids))) != 4 || status == 2 || !strings.Contains(said, "step, median") {
		t.Errorf("commands that leave processes: status %d, processes %q, %v, output %s; want a comparison of four runs", status, pids, err, said)
	}
	if status, said := compare(`cp p.json "$TRAINSPAN_DIR"/x.pt.trace.json`); strings.Contains(said, "panic") || strings.Contains(said, "goroutine") || strings.Contains(said, "pair 2") && status == 2 {
		t.Errorf("commands with profiles alone: status %d, output %s; want no crash", status, said)
	}
}
