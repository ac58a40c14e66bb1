package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
)

// asProgram makes the test binary run the program, which starts itself.
const asProgram = "CHARLM_RANKS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOtherFilesAreKept checks that the directory of -out loses only files of an earlier run.
func TestOtherFilesAreKept(t *testing.T) {
	for _, c := range []struct {
		has, left []string
		ok        bool
	}{
		{[]string{}, []string{}, true},
		{[]string{"notes"}, []string{"notes"}, false},
		{[]string{"checkpoints"}, []string{"checkpoints"}, false},
		{[]string{"attempt-0", "attempt-1", "checkpoints", "report.html"}, []string{"report.html"}, true},
	} {
		dir := t.TempDir()
		for _, name := range c.has {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		err := clean(dir)
		files, readErr := os.ReadDir(dir)
		left := []string{}
		for _, f := range files {
			left = append(left, f.Name())
		}
		if (err == nil) != c.ok || !slices.Equal(left, c.left) || readErr != nil {
			t.Errorf("a directory with %v: %v, error %v; want %v, success %v", c.has, left, err, c.left, c.ok)
		}
	}
	if err := clean(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Error(err)
	}
}

// TestFaultsAreFound checks that the report of a real job names the injected
// faults.
func TestFaultsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("a job of four processes takes ten seconds")
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "text.go")
	if err := os.WriteFile(text, []byte(strings.Repeat("package p // the model learns this by heart\n", 400)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	// The delay is much longer than the delays from load.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-out", out, "-text", text, "-steps", "52", "-save-every", "20", "-kill-at", "33", "-delay", "150ms", "-pause", "500ms")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ranks: %v\n%s", err, said)
	}
	set, err := job.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1: %v", len(jobs), err)
	}
	r := report.Build(jobs[0])
	v := r.Verdict.Rank
	if v == nil || v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{2}) || v.Cause != "input" || r.ExitCode() != 3 {
		t.Errorf("verdict %+v, want slow rank 2, cause input, exit code 3", v)
	}
	if len(r.Attempts) != 2 || r.Attempts[0].Ended || !r.Attempts[1].Ended || r.Attempts[1].FirstStep != 20 || r.Attempts[1].LastStep != 51 {
		t.Errorf("attempts %+v, want two, the first killed, the second steps 20 to 51 with a proper end", r.Attempts)
	}
	if d := r.Ledger.Disruptions; len(d) != 1 || d[0].Iterations == 0 || d[0].Iterations > 14 || d[0].LostWork <= 0 || d[0].Down <= 0 {
		t.Errorf("disruptions %+v, want one of 1 to 14 steps with lost and down time", d)
	}
	for _, want := range []string{"Rank 2", "data loading", "steps repeated"} {
		if !strings.Contains(r.Verdict.Sentence, want) {
			t.Errorf("sentence %q, want one with %q", r.Verdict.Sentence, want)
		}
	}
}

func TestSum(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var wait sync.WaitGroup
	for rank := range 3 {
		wait.Go(func() {
			r, err := join(rank, 3, listener, listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer r.close()
			for round := range 3 {
				x := []float32{float32(rank), 1, float32(round)}
				if err := r.sum(x); err != nil || !slices.Equal(x, []float32{3, 3, float32(3 * round)}) {
					t.Errorf("rank %d: sum is %v, %v; want 3, 3, %d", rank, x, err, 3*round)
				}
			}
		})
	}
	wait.Wait()
}
