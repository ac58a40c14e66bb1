package proc_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/proc"
)

// A process counts as ended only if the system reports that, not if the query
// fails.
func TestAlive(t *testing.T) {
	self := os.Getpid()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := cmd.Process.Pid
	if !proc.Alive(self, 0) || proc.Alive(self, 1) || proc.Alive(gone, 0) {
		t.Errorf("Alive: this process %v, with another start %v, an ended one %v; want true, false, false", proc.Alive(self, 0), proc.Alive(self, 1), proc.Alive(gone, 0))
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := old
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	unknown := proc.Alive(self, 0)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if !unknown {
		t.Error("without a file descriptor a process counts as gone")
	}
}
