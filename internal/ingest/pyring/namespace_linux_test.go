package pyring_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// The id of a process in a container belongs to another process here, or to
// none: that must not be mistaken for its end.
func TestDrainFollowsAProcessOfAnotherNamespace(t *testing.T) {
	rings, out := t.TempDir(), t.TempDir()
	cmd := pyrun.Command(t, rings, `
import sys
from trainspan.dftracer import ai
with ai.compute.forward: pass
sys.stdin.read()
with ai.compute.backward: pass
`)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	d, err := pyring.New(pyring.Options{Dir: rings, Out: out, Attempt: -1})
	if err != nil {
		t.Skip(err)
	}
	until.True(t, "a span", func() bool { return d.Stats().Spans == 1 })
	// When the end of a later process has been noticed, this one has been checked
	// too.
	pyrun.Run(t, rings, "from trainspan.dftracer import ai\nwith ai.compute.forward: pass\n")
	until.True(t, "the end of the other process", func() bool {
		paths, _ := pyring.Rings(rings)
		return d.Stats().Spans == 2 && len(paths) == 1
	})
	paths, err := pyring.Rings(rings)
	if err != nil || len(paths) != 1 {
		t.Fatalf("rings %v, %v; want one", paths, err)
	}
	if pid, runs := pyring.Writer(paths[0]); pid != 1 || !runs {
		t.Errorf("writer is process %d, running %v; want 1, true", pid, runs)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := d.Stats(); st.Spans != 3 || st.Processes != 2 {
		t.Errorf("stats %+v, want 3 spans of 2 processes", st)
	}
}
