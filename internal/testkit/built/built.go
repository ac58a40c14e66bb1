//go:build unix

// Package built provides the command trainspan to tests of other packages:
// built once for all of them.
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

// Command returns the path of the command, which all tests share. It fails the
// test if the command cannot be built.
func Command(t testing.TB) string {
	t.Helper()
	path, err := Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Path is Command without a test. The go command does not rebuild an unchanged
// program. It writes the file in place if it cannot rename one, so only one
// build runs at a time.
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
	build.Env = append(os.Environ(), "GOWORK=") // not that of the module whose tests run
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})
