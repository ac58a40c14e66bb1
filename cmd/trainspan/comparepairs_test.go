//go:build unix

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
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
