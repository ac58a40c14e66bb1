//go:build unix

// Package built has the command trainspan as tests of other packages run it: built
// once for all of them.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Command returns the path of the command, which belongs to all tests. The test fails
// where it cannot be built.
func Command(t testing.TB) string {
	t.Helper()
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Path is Command outside of a test. The go command leaves alone what is built of the
// same sources already. It writes the file in place where it cannot rename one, so it
// is alone while it does.
var Path = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	alone, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer alone.Close()
	if err := syscall.Flock(int(alone.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "trainspan")
	build := exec.Command("go", "build", "-C", root, "-buildvcs=false", "-o", path, "./cmd/trainspan")
	build.Env = append(os.Environ(), "GOWORK=") // not that of the module whose tests these are
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})
