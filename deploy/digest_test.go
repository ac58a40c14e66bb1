package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDigestScript checks that examples/slurm/digest.sh writes both reports if
// files of the job are damaged, which is status 1 of every command.
func TestDigestScript(t *testing.T) {
	for _, program := range []string{"sh", "realpath", "seq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: the script is not run", err)
		}
	}
	script, err := filepath.Abs("../examples/slurm/digest.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sbatch":    `for a; do case $a in --array=*) ids=${a#*=} ;; esac; done; while [ "${1#--}" != "$1" ]; do shift; done; s=0; for i in $(echo "$ids" | tr , ' '); do SLURM_ARRAY_TASK_ID=$i "$@" || s=1; done; exit $s`,
		"srun":      `while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"`,
		"trainspan": `case "$*" in "trace digest"*) echo "of $3" >"$5" ;; *--html*) for last; do :; done; echo page >"$last" ;; *) cat "$2" "$3" ;; esac; echo "a file is damaged" >&2; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	parts := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	cmd := exec.Command(script, append([]string{filepath.Join(dir, "out")}, parts...)...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TRAINSPAN="+filepath.Join(dir, "trainspan"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the test compares the exit status
	if got := cmd.ProcessState.ExitCode(); got != 1 || strings.Contains(out.String(), "tasks failed") {
		t.Errorf("status %d, want 1 and no failed task: %s", got, out.String())
	}
	for name, want := range map[string]string{"report.html": "page\n", "report.json": "of " + parts[0] + "\nof " + parts[1] + "\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, "out", name)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q: %s", name, got, err, want, out.String())
		}
	}
}
