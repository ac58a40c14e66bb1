package python

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// A process is gone when the system says so, not when it cannot be asked.
func TestAlive(t *testing.T) {
	self := int64(os.Getpid())
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := int64(cmd.Process.Pid)
	if !alive(self, 0) || alive(self, 1) || alive(gone, 0) {
		t.Errorf("this process lives: %v, started at another time: %v; one that ended: %v", alive(self, 0), alive(self, 1), alive(gone, 0))
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
	unknown := alive(self, 0)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if !unknown {
		t.Error("without a file descriptor a process counts as gone")
	}
}
