//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestDemoIsInterrupted checks that a signal to the demo alone ends its job
// regularly, with a word and the status of an interrupt.
func TestDemoIsInterrupted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "trainspan")
	if err := os.Link(self, program); err != nil { // the demo starts its own file
		t.Skip(err)
	}
	cmd := exec.Command(program, "demo")
	var said lockedBuffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(clean(dir), "TMPDIR="+t.TempDir()), &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started := func() *rundir.Run {
		for _, r := range rundir.All(filepath.Join(dir, "trainspan-runs")) {
			return r
		}
		return nil
	}
	until.Nil(t, func() error {
		if r := started(); r == nil || r.CommandPID == 0 {
			return fmt.Errorf("the job has not started: %s", said.String())
		}
		return nil
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the status is checked
	if got := cmd.ProcessState.ExitCode(); got != 2 || !strings.Contains(said.String(), "interrupted") {
		t.Errorf(`status %d, output %s; want 2 and "interrupted"`, got, said.String())
	}
	if r := started(); r == nil || r.State != rundir.Ended || r.EndedBy == rundir.ByUnknown {
		t.Errorf("run.json has %+v, want how the command ended", r)
	}
}

// TestHangupCleansUp checks that a command that is ended by closing its terminal
// removes its temporary files.
func TestHangupCleansUp(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir, temp := t.TempDir(), t.TempDir()
	for i, name := range []string{"a.pfw.gz", "b.pfw.gz"} {
		if err := makeTrace([]string{filepath.Join(dir, name), strconv.Itoa(i), strconv.Itoa(100 + i), "node1"}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "trainspan"), "open", "--no-browser", "--port", "0", "a.pfw.gz", "b.pfw.gz")
	var out, said lockedBuffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(clean(bin), "TMPDIR="+temp), &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until.Nil(t, func() error {
		if !strings.Contains(said.String(), "press Ctrl-C") {
			return errors.New(said.String())
		}
		return nil
	})
	if left := listing(t, temp); len(left) != 1 {
		t.Errorf("files while it serves: %q, want the merged trace", left)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("status %v, want 0: %s", err, said.String())
	}
	if left := listing(t, temp); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}
