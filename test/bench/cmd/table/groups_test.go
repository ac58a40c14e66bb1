package main

import (
	"encoding/json"
	"os"
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

// TestProfiledCommand checks that the main function of the command is where the
// table looks for it, and that its replacement records a profile.
func TestProfiledCommand(t *testing.T) {
	t.Chdir(filepath.Join("..", "..")) // the table runs there
	tables := tables{dir: t.TempDir()}
	overlay, err := tables.profilingMain()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(tables.dir, "main.go"))
	if err != nil || !strings.Contains(string(text), "pprof.StartCPUProfile(f)") {
		t.Errorf("%v, want a file that starts a profile:\n%s", err, text)
	}
	text, err = os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	var replaces struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &replaces); err != nil || len(replaces.Replace) != 1 {
		t.Fatalf("%v, overlay %s; want one replaced file", err, text)
	}
	for path := range replaces.Replace {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the overlay replaces %s: %v", path, err)
		}
	}
}
