package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGate checks that the script of the action passes its inputs to trainspan
// compare, shows the report, and fails if a run is slower, or if the result is
// unknown and the caller asked for that check.
func TestGate(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash: the script of the action is not run")
	}
	script, err := filepath.Abs("github/gate")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env    []string
		status string // of trainspan compare
		want   int
		args   string
		says   string
	}{
		"equal":            {[]string{"INPUT_BASE=a b", "INPUT_NEW=c"}, "0", 0, "compare|--markdown|--fail-over|3%|--floor|0s|--margin|1%|a|b|--|c|", "the answer"},
		"slower":           {[]string{"INPUT_BASE=a", "INPUT_NEW=b", "INPUT_FAIL_OVER=5%", "INPUT_FLOOR=2ms"}, "3", 1, "compare|--markdown|--fail-over|5%|--floor|2ms|--margin|1%|a|--|b|", "::error title=Training is slower::the answer"},
		"not known":        {[]string{"INPUT_BASE=a", "INPUT_NEW=b"}, "4", 0, "", "::warning title=Not known::the answer"},
		"not known, fails": {[]string{"INPUT_BASE=a", "INPUT_NEW=b", "INPUT_INCONCLUSIVE=fail"}, "4", 1, "", "::error title=Not known::the answer"},
		"commands in turns": {[]string{"INPUT_BASE=cd a && train", "INPUT_NEW=cd b && train", "INPUT_PAIRS=5"}, "0", 0,
			"compare|--markdown|--fail-over|3%|--floor|0s|--margin|1%|--pairs|5|--|bash|-c|cd a && train|--|bash|-c|cd b && train|", "the answer"},
		"a damaged file": {[]string{"INPUT_BASE=a", "INPUT_NEW=b"}, "1", 0, "", "::warning title=Files are damaged::the answer"},
		"no answer":      {[]string{"INPUT_BASE=none", "INPUT_NEW=b"}, "1", 2, "", "trainspan compare failed with status 1"},
		"wrong use":      {[]string{"INPUT_BASE=a", "INPUT_NEW=b"}, "2", 2, "", "trainspan compare failed with status 2"},
		"wrong input":    {[]string{"INPUT_BASE=a", "INPUT_NEW=b", "INPUT_INCONCLUSIVE=maybe"}, "0", 2, "", "choose pass or fail"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fake := filepath.Join(dir, "trainspan")
			text := "#!/usr/bin/env bash\nprintf '%s|' \"$@\" >" + filepath.Join(dir, "args") + "\n[ \"$INPUT_BASE\" = none ] || echo '**the answer** of the comparison'\nexit " + c.status + "\n"
			if err := os.WriteFile(fake, []byte(text), 0o755); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
			cmd := exec.Command("bash", script)
			cmd.Env = append(os.Environ(), "INPUT_TRAINSPAN="+fake, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"))
			cmd.Env = append(cmd.Env, c.env...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			_ = cmd.Run() // the test compares the exit status
			if got := cmd.ProcessState.ExitCode(); got != c.want || !strings.Contains(out.String(), c.says) {
				t.Errorf("status %d, want %d and %q in %s", got, c.want, c.says, out.String())
			}
			if args, _ := os.ReadFile(filepath.Join(dir, "args")); c.args != "" && string(args) != c.args {
				t.Errorf("the command got %s, want %s", args, c.args)
			}
			if !strings.Contains(out.String(), "the answer") {
				return
			}
			summary, _ := os.ReadFile(filepath.Join(dir, "summary"))
			output, _ := os.ReadFile(filepath.Join(dir, "output"))
			if !strings.Contains(string(summary), "**the answer**") || !strings.Contains(string(output), "status="+c.status+"\n") {
				t.Errorf("summary %q, output %q; want the answer and status=%s", summary, output, c.status)
			}
		})
	}
}
