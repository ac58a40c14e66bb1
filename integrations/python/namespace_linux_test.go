package python_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/integrations/python"
	"github.com/trainspan/trainspan/integrations/python/internal/pyrun"
)

// A process of a container below has a number of its own there, by which it is
// somebody else here, or nobody: that must not be taken for its end.
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
	d, err := python.NewDrain(python.Options{Dir: rings, Out: out, Attempt: -1})
	if err != nil {
		t.Skip(err)
	}
	for began := time.Now(); d.Stats().Spans == 0 && time.Since(began) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // the system is asked for the process meanwhile
	paths, err := python.Rings(rings)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	if pid, runs := python.Writer(paths[0]); pid != 1 || !runs {
		t.Errorf("the writer is process %d, running %v", pid, runs)
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
	if st := d.Stats(); st.Spans != 2 || st.Processes != 1 {
		t.Errorf("%+v", st)
	}
}
