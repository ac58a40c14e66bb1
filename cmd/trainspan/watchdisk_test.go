//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWatchOfAFullDisk checks that a profile whose events are not in the trace
// does not count as imported, and that --retry imports it.
func TestWatchOfAFullDisk(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rank0.1778000000000000000.pt.trace.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	watch := func(limit, more string) (status int, said string) {
		t.Helper()
		cmd := exec.Command("sh", "-c", limit+"exec trainspan trace watch . -o live.pfw.gz --once --interval 5ms"+more)
		cmd.Dir, cmd.Env = dir, append(clean(bin), "TMPDIR="+t.TempDir())
		text, err := cmd.CombinedOutput()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if status, said := watch("ulimit -f 1; ", ""); status != 2 || !strings.Contains(said, "not imported: ") || strings.Contains(said, " events\n") {
		t.Errorf("on a full disk: status %d, output %s; want 2 and that the profile is not imported", status, said)
	}
	if status, said := watch("", " --retry"); status != 0 || !strings.Contains(said, " events\n") {
		t.Errorf("with room: status %d, output %s; want 0 and the events", status, said)
	}
}
