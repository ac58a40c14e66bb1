package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

// asProgram is the variable that makes the test binary run the program.
const asProgram = "GOMLX_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// runOK runs the program in a separate process, like the attempts of a job.
func runOK(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // this binary
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("example: %v\n%s", err, &problems)
	}
	return out.String()
}

func readReport(t *testing.T, dir string) *report.Report {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, err := report.Read(set)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d jobs, want 1: %v", len(found), err)
	}
	return report.Build(found[0])
}

// TestRunAndResume checks that a run and its resumption are two attempts of one
// job in the trace, the goodput accounts and the report.
func TestRunAndResume(t *testing.T) {
	for name, text := range map[string]string{"charlm": "../../../examples/charlm", "made up": "no-such-folder"} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "job")
			args := []string{"-out", out, "-text", text, "-evaluate-every", "20", "-save-every", "15", "-steps"}
			first := runOK(t, append(args, "40")...)
			second := runOK(t, append(args, "80")...)
			if !strings.Contains(first, "step 20: validation loss") || !strings.HasSuffix(first, "step 40\n") ||
				!strings.HasPrefix(second, "step 40: validation loss") || !strings.HasSuffix(second, "step 80\n") {
				t.Errorf("first run printed\n%ssecond\n%swant steps 20 to 40, then 40 to 80", first, second)
			}
			for i, name := range []string{"trace.pfw.gz", "trace.run2.pfw.gz"} {
				checkTrace(t, filepath.Join(out, "telemetry", name), i, text != "no-such-folder")
			}
			checkReport(t, readReport(t, out), text != "no-such-folder")
		})
	}
}

// checkTrace checks one attempt: the second one starts at the last checkpoint,
// of step 30.
func checkTrace(t *testing.T, path string, attempt int, files bool) {
	t.Helper()
	steps := []int{40, 50}[attempt]
	counts := dftest.Check(t, path).Counts
	for key, n := range map[string]int{
		"ai_root/ai_root/X": 1, "dataloader/dataloader.init/X": 1, "checkpoint/restart/X": 1, "pipeline/train/X": 1,
		"pipeline/train.iteration/X": steps, "compute/step/X": steps, "pipeline/evaluate/X": []int{2, 3}[attempt],
		"compile/graph_compile/X": 2, "checkpoint/capture/X": []int{2, 3}[attempt],
	} {
		if counts[key] != n {
			t.Errorf("attempt %d: %d times %s, want %d", attempt, counts[key], key, n)
		}
	}
	if (counts["POSIX/read/X"] > 0) != files {
		t.Errorf("%d reads on record, want some: %v", counts["POSIX/read/X"], files)
	}
	sum := spanstats.New(nil)
	events := dftest.Events(t, path)
	for i := range events {
		sum.Add(&events[i])
	}
	if p := sum.Result().Processes[0]; p.Compute == 0 || p.Compute > p.Wall {
		t.Errorf("computed for %d of %d µs, want more than 0 and at most the wall time", p.Compute, p.Wall)
	}
}

func checkReport(t *testing.T, r *report.Report, files bool) {
	t.Helper()
	if len(r.Attempts) != 2 || r.Attempts[0].LastStep != 39 || r.Attempts[1].FirstStep != 30 || r.Attempts[1].LastStep != 79 || !r.Attempts[1].Ended {
		t.Errorf("attempts %+v, want steps to 39, then 30 to 79 with a proper end", r.Attempts)
	}
	var sum int64
	for _, ns := range r.Ledger.Categories {
		sum += ns
	}
	c := r.Ledger.Categories
	if sum != r.Ledger.Wall || c[account.Productive] == 0 || c[account.Warmup] == 0 || c[account.Validation] == 0 ||
		c[account.CheckpointSave] == 0 || c[account.CheckpointLoad] == 0 || c[account.LostWork] == 0 || c[account.Downtime] == 0 {
		t.Errorf("ledger of %d ns is %v, want every category above 0 and the sum of wall", r.Ledger.Wall, c)
	}
	for category := range c {
		if category.IsCustom() {
			t.Errorf("category %s is not one of the predefined", category)
		}
	}
	if len(r.Ledger.Disruptions) != 1 || r.Ledger.Disruptions[0].Iterations != 10 {
		t.Errorf("disruptions %+v, want one of 10 steps", r.Ledger.Disruptions)
	}
	if saved := slices.DeleteFunc(slices.Clone(r.Checkpoints), func(c report.Checkpoint) bool { return c.Load }); len(saved) != 5 {
		t.Errorf("%d checkpoints, want 5", len(saved))
	}
	if (r.IO != nil && r.IO.Read.Bytes > 0) != files {
		t.Errorf("I/O %+v, want reads on record: %v", r.IO, files)
	}
	if r.Verdict.Confidence != "high" {
		t.Errorf("verdict %+v, want confidence high", r.Verdict)
	}
}

// TestEarlyStop checks that an early stop is not a failure.
func TestEarlyStop(t *testing.T) {
	out := filepath.Join(t.TempDir(), "job")
	printed := runOK(t, "-out", out, "-text", "none", "-evaluate-every", "5", "-steps", "1000", "-stop-at", "100")
	if !strings.HasSuffix(printed, "step 5\n") {
		t.Errorf("program printed %q, want step 5 last", printed)
	}
	path := filepath.Join(out, "telemetry", "trace.pfw.gz")
	if n := dftest.Check(t, path).Counts["pipeline/train.iteration/X"]; n != 5 {
		t.Errorf("%d steps, want 5", n)
	}
	for _, e := range dftest.Events(t, path) {
		if status, ok := e.Arg("otel.status_code"); ok {
			t.Errorf("%s has the status %s, want none", e.Name, status.Text())
		}
	}
}
