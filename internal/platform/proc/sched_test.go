package proc_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/proc"
)

func put(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRunDelays(t *testing.T) {
	root := t.TempDir()
	put(t, root, "7/task/7/schedstat", "482274039 1909206551 253\n")
	put(t, root, "7/task/9/schedstat", "1 2 3\n")
	put(t, root, "7/task/10/schedstat", "broken")
	put(t, root, "7/status", "Name:\tpython\nCpus_allowed:\tff,00000003\nCpus_allowed_list:\t0-1,32-39\n")
	got := proc.RunDelays(root, 7)
	if len(got) != 2 || got[7] != 1909206551 || got[9] != 2 {
		t.Errorf("RunDelays() = %v, want 7: 1909206551 and 9: 2", got)
	}
	if got := proc.RunDelays(root, 8); got != nil {
		t.Errorf("RunDelays() of no process = %v, want nil", got)
	}
	if got := proc.AllowedCores(root, 7); got != 10 {
		t.Errorf("AllowedCores() = %d, want 10", got)
	}
	put(t, root, "9/status", "Name:\tpython\nCpus_allowed:\t100,00000006\n")
	if got := proc.AllowedCores(root, 7, 9); got != 12 {
		t.Errorf("AllowedCores() of two processes = %d, want 12", got)
	}
	if got := proc.AllowedCores(root, 7, 8); got != 0 {
		t.Errorf("AllowedCores() with an unknown process = %d, want 0", got)
	}
	if got := proc.AllowedCores(root, 8); got != 0 {
		t.Errorf("AllowedCores() of no process = %d, want 0", got)
	}
}

func TestReadHost(t *testing.T) {
	const stat = "cpu  100 20 30 400 50 1 4 60 0 0\ncpu0 50 10 15 200 25 0 2 30 0 0\ncpu1 50 10 15 200 25 1 2 30 0 0\nintr 5\nctxt 238335978\nprocs_running 11\nprocs_blocked 0\n"
	root := t.TempDir()
	put(t, root, "stat", stat)
	put(t, root, "pressure/cpu", "some avg10=93.48 avg60=81.95 avg300=47.03 total=28370515573\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	put(t, root, "pressure/io", "nothing")
	got, err := proc.ReadHost(root)
	want := proc.Host{Busy: 155, Steal: 60, IOWait: 50, All: 665, Cores: 2, Runnable: 11, Pressure: [3]uint64{28370515573}, PressureKnown: [3]bool{true}}
	if err != nil || got != want {
		t.Errorf("ReadHost() = %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2 3\n", "cpu  a 20 30 400 50 1 4 60 0 0\n", "cpu  1 20 30 400 50 1 4 60 0 0\nprocs_running x\n"} {
		put(t, root, "stat", bad)
		if got, err := proc.ReadHost(root); err == nil {
			t.Errorf("ReadHost() of %q = %+v, want an error", bad, got)
		}
	}
}
