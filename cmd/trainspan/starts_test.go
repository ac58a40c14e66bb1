package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestReportOfStarts checks that the report of a command without training has
// its outcome and resource use.
func TestReportOfStarts(t *testing.T) {
	dir := t.TempDir()
	recordStarts(t, dir)
	status, out, said := cli(t, "report", dir)
	if status != 0 || said != "" {
		t.Errorf("report: status %d, want 0 and no message: %s", status, said)
	}
	for _, want := range []string{
		"OUT OF MEMORY before the first step · host node-7 · 12.0 s\n", "Reached    no training step is on record\n", "2026-03-01 10:00:00  12.0 s     36.0 s    3.0   2.1 GB  80 % of 2, 45 GB  completed", "Resources  memory grows",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "Next ") {
		t.Errorf("report of a command that ran out of memory gives advice on how to record, want none:\n%s", out)
	}
	var back struct {
		Goodput *float64
		Starts  []rundir.Run
	}
	if status, out, _ := cli(t, "report", dir, "--json", "--check"); status != 4 || json.Unmarshal([]byte(out), &back) != nil || len(back.Starts) != 2 || back.Goodput != nil {
		t.Errorf("report --json --check: status %d, want 4, two starts and no goodput: %s", status, out)
	}
	if status, _, said := cli(t, "compare", dir, dir); status == 0 || !strings.Contains(said, "found no trace in this directory") {
		t.Errorf(`compare: status %d, want an error "found no trace in this directory": %s`, status, said)
	}
	if status, _, _ := cli(t, "report", dir, "--html", filepath.Join(dir, "x.html")); status == 0 {
		t.Error("got a page without training, want none")
	}
}

// recordStarts writes two starts of a command in which nothing trains.
func recordStarts(t *testing.T, dir string) {
	t.Helper()
	began := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i, r := range []rundir.Run{
		{Program: "prep", Script: "prep.sh", State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: new(int), User: 30, System: 6, MaxRSS: 2 << 30, GPUs: []rundir.GPU{{Index: "0", Busy: 90, Memory: 45e9}, {Index: "1", Busy: 70}}},
		{Program: "prep", Script: "prep.sh", State: rundir.Ended, EndedBy: rundir.ByMemory, Signal: "SIGKILL", Evidence: []string{"memory grows 40 MB a minute"}},
	} {
		r.Host, r.Started = "node-7", began.Add(time.Duration(i)*time.Hour)
		r.Seen = r.Started.Add(12 * time.Second)
		r.Ended = &r.Seen
		file, _, err := rundir.CreateFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReportOfTheNewest checks that report without a directory reports the job
// that was started last.
func TestReportOfTheNewest(t *testing.T) {
	t.Chdir(t.TempDir())
	if status, _, said := cli(t, "report"); status != 2 || !strings.Contains(said, "trainspan-runs has no run") {
		t.Errorf(`report without runs: status %d, want 2 and "trainspan-runs has no run": %s`, status, said)
	}
	for i, name := range []string{"new job", "old"} {
		where, err := rundir.Wanted{Name: name, Attempt: -1, Host: "h", PID: 1}.Make()
		if err != nil {
			t.Fatal(err)
		}
		file, _, err := rundir.CreateFile(where.Dir)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 3, 5-i, 10, 0, 0, 0, time.UTC)
		if err := file.Write(&rundir.Run{Name: name, Program: name, State: rundir.Ended, Started: at, Seen: at, Ended: &at}); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, said := cli(t, "runs"); status != 0 || said != "" || !regexp.MustCompile(`(?s)2026-03-05 10:00:00 .* new job .* ended, cause unknown: .* unknown.*2026-03-04 10:00:00 .* old `).MatchString(out) {
		t.Errorf("runs: status %d, want 0, first new job with an unknown end, then old: %s%s", status, out, said)
	}
	if status, out, said := cli(t, "report"); status != 0 || !strings.Contains(said, "the newest run: new job.1") || !strings.HasPrefix(out, "new job.1 · END UNKNOWN · ") || !strings.Contains(out, "last seen 2026-03-05 10:00:00 UTC.") {
		t.Errorf("report: status %d, want 0, new job.1 with an unknown end: %s%s", status, out, said)
	}
}

// TestRunsAreListed checks that each run has a row and an id, and that report
// accepts the id.
func TestRunsAreListed(t *testing.T) {
	dir := t.TempDir()
	for n, job := range []string{"a", "b"} {
		at := time.Date(2026, 3, 1+n, 10, 0, 0, 0, time.UTC)
		w, err := dftracer.Create(filepath.Join(dir, job+".pfw.gz"), &dftracer.Options{Start: at, Process: dftracer.Process{PID: 7 + n, Attempt: &n, SessionTag: "train", JobID: job}})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for i := range 10 {
			w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(i) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(i)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file, _, err := rundir.CreateFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		end := at.Add(10 * time.Second)
		if err := file.Write(&rundir.Run{Session: "train", Job: job, Program: "train", State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: new(int), Started: at, Seen: end, Ended: &end}); err != nil {
			t.Fatal(err)
		}
	}
	// Commands without training are listed too, also beside a concurrent training.
	file, _, err := rundir.CreateFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 10, 0, 1, 0, time.UTC)
	if err := file.Write(&rundir.Run{Session: "prep", Job: "p", Program: "prep.sh", State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: new(int), Started: at, Seen: at, Ended: &at}); err != nil {
		t.Fatal(err)
	}
	_, out, said := cli(t, "runs", dir)
	if !strings.Contains(out, "prep.sh") {
		t.Errorf("prep.sh is not in\n%s, want \"prep.sh\" in it", out)
	}
	if !regexp.MustCompile(`(?s)train\.2 +2026-03-02 10:00:00 .* train +1 +1 +completed +9.*train\.1 +2026-03-01 10:00:00`).MatchString(out) || said != "" {
		t.Errorf("runs: want train.2 before train.1 and no message, got %s%s", out, said)
	}
	var row struct {
		ID      string
		Goodput float64
	}
	if _, out, _ := cli(t, "runs", "--json", dir); json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &row) != nil || row.ID != "train.2" || row.Goodput < 0.9 {
		t.Errorf("runs --json: first row %+v, want train.2 with goodput 0.9 or more: %s", row, out)
	}
	if status, out, said := cli(t, "report", "--full", "--run", "train.1", dir); status != 0 || said != "" || !strings.Contains(out, "\n  1   ") {
		t.Errorf("report --run train.1: status %d, want 0 and its steps: %s%s", status, out, said)
	}
	if status, out, _ := cli(t, "report", "--all", dir); status != 0 || !strings.HasPrefix(out, "train.2\n\n") || !strings.Contains(out, "\n\ntrain.1\n\n") {
		t.Errorf("report --all: status %d, want 0, train.2, then train.1: %s", status, out)
	}
	if status, _, said := cli(t, "report", "--run", "train.9", dir); status != 2 || !strings.Contains(said, "trainspan runs "+dir) {
		t.Errorf("report --run train.9: status %d, want 2 and advice to list runs: %s", status, said)
	}
	if status, _, said := cli(t, "report", dir); status != 0 || !strings.Contains(said, "--run train.1") {
		t.Errorf("report of two runs: status %d, want 0 and --run train.1: %s", status, said)
	}
	// Report accepts the ids of runs in the folders of trainspan run.
	here := t.TempDir()
	t.Chdir(here)
	if err := os.Symlink(dir, filepath.Join(here, rundir.Root)); err != nil {
		t.Fatal(err)
	}
	if status, out, said := cli(t, "compare", "train.1", "train.2"); status != 4 || !strings.HasPrefix(out, "train.2 and train.1 cannot be compared: train.1 has 9 steps") {
		t.Errorf("compare: status %d, want 4 and that train.1 has 9 steps: %s%s", status, out, said)
	}
	if status, _, said := cli(t, "compare", "train.1", "train.9"); status != 2 || !strings.Contains(said, "train.9") {
		t.Errorf("compare with an unknown run: status %d, want 2 and train.9: %s", status, said)
	}
}
