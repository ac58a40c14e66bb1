package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchmarksOfPackages checks that the packages whose benchmarks are rows of
// the table are where the table looks for them.
func TestBenchmarksOfPackages(t *testing.T) {
	for _, b := range []benchmark{receiverBench, ringBench} {
		cmd := exec.Command("go", "test", "-list", b.name, b.pkg)
		cmd.Dir = filepath.Join("..", "..", moduleRoot) // a test runs in its package's folder
		out, err := cmd.Output()
		if want := strings.Trim(b.name, "^$"); err != nil || !strings.HasPrefix(string(out), want+"\n") {
			t.Errorf("go test -list %s %s: %v, got %q, want %s", b.name, b.pkg, err, out, want)
		}
	}
}
