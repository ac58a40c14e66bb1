//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
)

// runsIn returns the ranks of each attempt of the runs in a directory, latest
// first.
func runsIn(t *testing.T, dir string) string {
	t.Helper()
	s, err := report.Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, j := range s.Jobs() {
		ranks := make(map[int][]int)
		for _, p := range j.Job.Processes {
			ranks[p.Attempt] = append(ranks[p.Attempt], p.Rank)
			slices.Sort(ranks[p.Attempt])
		}
		all = append(all, strings.TrimPrefix(fmt.Sprint(ranks), "map"))
	}
	return strings.Join(all, " ")
}

// TestRunsByLauncher checks which starts are attempts of one run, given the
// variables of launchers.
func TestRunsByLauncher(t *testing.T) {
	fresh, failed, on := []string{"4", "0"}, []string{"4", "0", "fail"}, []string{"4", "4"}
	type begun struct {
		args  []string
		env   string // variables of all ranks
		ranks int    // number of ranks, 0 without a launcher
	}
	for _, c := range []struct {
		name   string
		starts []begun // one after the other
		want   string
	}{
		{"sweep by hand", []begun{{fresh, "", 0}, {fresh, "", 0}}, "[2:[0]] [1:[0]]"},
		{"sweep in which one fails", []begun{{failed, "", 0}, {fresh, "", 0}}, "[2:[0]] [1:[0]]"},
		{"rerun after a success", []begun{{fresh, "", 0}, {on, "", 0}}, "[2:[0]] [1:[0]]"},
		{"goes on where it failed", []begun{{failed, "", 0}, {on, "", 0}}, "[1:[0] 2:[0]]"},
		{"sweep in a batch script", []begun{{fresh, "SLURM_JOB_ID=7", 2}, {fresh, "SLURM_JOB_ID=7", 2}}, "[2:[0 1]] [1:[0 1]]"},
		{"sweep in a step", []begun{{fresh, "SLURM_JOB_ID=7 SLURM_STEP_ID=0", 2}, {fresh, "SLURM_JOB_ID=7 SLURM_STEP_ID=0", 2}}, "[2:[0 1]] [1:[0 1]]"},
		{"two steps of an allocation", []begun{{fresh, "SLURM_JOB_ID=7 SLURM_STEP_ID=0", 2}, {fresh, "SLURM_JOB_ID=7 SLURM_STEP_ID=1", 2}}, "[2:[0 1]] [1:[0 1]]"},
		{"two steps, torchrun with the id of the job", []begun{{fresh, "TORCHELASTIC_RUN_ID=7 TORCHELASTIC_RESTART_COUNT=0 SLURM_JOB_ID=7 SLURM_STEP_ID=0", 2},
			{fresh, "TORCHELASTIC_RUN_ID=7 TORCHELASTIC_RESTART_COUNT=0 SLURM_JOB_ID=7 SLURM_STEP_ID=1", 2}}, "[2:[0 1]] [1:[0 1]]"},
		{"a step goes on with the one that failed", []begun{{failed, "SLURM_JOB_ID=7 SLURM_STEP_ID=0", 1}, {on, "SLURM_JOB_ID=7 SLURM_STEP_ID=1", 1}}, "[1:[0] 2:[0]]"},
		{"array", []begun{{fresh, "SLURM_JOB_ID=8 SLURM_ARRAY_JOB_ID=8 SLURM_ARRAY_TASK_ID=1 SLURM_STEP_ID=0", 1}, {fresh, "SLURM_JOB_ID=9 SLURM_ARRAY_JOB_ID=8 SLURM_ARRAY_TASK_ID=2 SLURM_STEP_ID=0", 1},
			{fresh, "SLURM_JOB_ID=9 SLURM_ARRAY_JOB_ID=8 SLURM_ARRAY_TASK_ID=2 SLURM_STEP_ID=0 SLURM_RESTART_COUNT=1", 1}}, "[2:[0] 3:[0]] [1:[0]]"},
		{"requeue", []begun{{failed, "SLURM_JOB_ID=7 SLURM_STEP_ID=0", 2}, {fresh, "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_RESTART_COUNT=1", 2}}, "[1:[0 1] 2:[0 1]]"},
		{"requeue of torchrun", []begun{{failed, "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 SLURM_JOB_ID=7", 2},
			{fresh, "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1", 2}}, "[1:[0 1] 2:[0 1]]"},
		{"torchrun with an id", []begun{{failed, "TORCHELASTIC_RUN_ID=llama TORCHELASTIC_RESTART_COUNT=0", 2}, {fresh, "TORCHELASTIC_RUN_ID=llama TORCHELASTIC_RESTART_COUNT=1", 2},
			{fresh, "TORCHELASTIC_RUN_ID=other TORCHELASTIC_RESTART_COUNT=0", 2}}, "[3:[0 1]] [1:[0 1] 2:[0 1]]"},
		{"torchrun without", []begun{{failed, "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0", 2}, {fresh, "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=1", 2}}, "[1:[0 1] 2:[0 1]]"},
		{"elastic world", []begun{{failed, "TORCHELASTIC_RUN_ID=llama TORCHELASTIC_RESTART_COUNT=0", 2}, {failed, "TORCHELASTIC_RUN_ID=llama TORCHELASTIC_RESTART_COUNT=0", 1},
			{fresh, "TORCHELASTIC_RUN_ID=llama TORCHELASTIC_RESTART_COUNT=0", 3}}, "[1:[0 1] 2:[0] 3:[0 1 2]]"},
		{"Kubernetes", []begun{{failed, "TRAINSPAN_JOB=uid TRAINSPAN_ATTEMPT=0", 2}, {fresh, "TRAINSPAN_JOB=uid TRAINSPAN_ATTEMPT=1", 2}, {fresh, "TRAINSPAN_JOB=uid2 TRAINSPAN_ATTEMPT=0", 2}}, "[3:[0 1]] [1:[0 1] 2:[0 1]]"},
		{"Kubernetes, nobody counts", []begun{{failed, "TRAINSPAN_JOB=uid", 2}, {fresh, "TRAINSPAN_JOB=uid", 2}}, "[1:[0 1] 2:[0 1]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, b := range c.starts {
				var all []*started
				for rank := range max(b.ranks, 1) {
					s := prepare(t, dir, append([]string{"--name", "job", "-q", "--no-resources", "--", "runjob", "train"}, b.args...)...)
					s.Env = append(s.Env, strings.Fields(b.env)...)
					if b.ranks > 0 {
						s.Env = append(s.Env, fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("LOCAL_RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", b.ranks))
					}
					if err := s.Start(); err != nil {
						t.Fatal(err)
					}
					all = append(all, s)
				}
				for _, s := range all {
					if status := s.status(s.Wait()); status != len(b.args)-2 {
						t.Fatalf("status %d, want %d: %s", status, len(b.args)-2, s.err.String())
					}
				}
			}
			if got := runsIn(t, filepath.Join(dir, rundir.Root)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			agreeOnRuns(t, filepath.Join(dir, rundir.Root, "job"))
		})
	}
}

// agreeOnRuns checks that all commands have the same runs with the same
// attempts.
func agreeOnRuns(t *testing.T, dir string) {
	t.Helper()
	type row struct {
		Run, ID string
		Attempt int
	}
	reported, listed, lists := make(map[string][]int), make(map[string]int), json.NewDecoder(strings.NewReader(want(t, "runs", "--json", dir)))
	for lists.More() {
		var r struct {
			ID       string
			Attempts int
		}
		if err := lists.Decode(&r); err != nil {
			t.Fatal(err)
		}
		listed[r.ID] = r.Attempts
		var rep report.Report
		if err := json.Unmarshal([]byte(want(t, "report", "--json", "--run", r.ID, dir)), &rep); err != nil {
			t.Fatal(err)
		}
		for _, a := range rep.Attempts {
			reported[r.ID] = append(reported[r.ID], a.Number)
		}
		if len(reported[r.ID]) != r.Attempts {
			t.Errorf("%s: the report has %d attempts, want %d as in the list", r.ID, len(reported[r.ID]), r.Attempts)
		}
	}
	check := func(verb string, rows []row) {
		t.Helper()
		got := make(map[string][]int)
		for _, r := range rows {
			if r.Run == "" && len(reported) == 1 {
				for r.Run = range reported {
				}
			}
			if !slices.Contains(got[r.Run], r.Attempt) {
				got[r.Run] = append(got[r.Run], r.Attempt)
			}
			slices.Sort(got[r.Run])
		}
		if fmt.Sprint(got) != fmt.Sprint(reported) {
			t.Errorf("%s has runs %v, want %v as in the report", verb, got, reported)
		}
	}
	var steps []row
	for d := json.NewDecoder(strings.NewReader(want(t, "trace", "steps", "--json", dir))); d.More(); {
		var r row
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, r)
	}
	check("steps", steps)
	var sum struct{ Processes []row }
	if err := json.Unmarshal([]byte(want(t, "trace", "summary", "--json", dir)), &sum); err != nil {
		t.Fatal(err)
	}
	check("summary", sum.Processes)
	var made []convertedRun
	lake := filepath.Join(t.TempDir(), "lake")
	if err := json.Unmarshal([]byte(want(t, "trace", "convert", "--to", "parquet", "--json", "-o", lake, dir)), &made); err != nil {
		t.Fatal(err)
	}
	for _, m := range made {
		if _, ok := reported[m.Run]; !ok && len(made) > 1 {
			t.Errorf("Parquet has the run %s, want one of the report: %v", m.Run, reported)
		}
	}
	if len(made) != len(reported) {
		t.Errorf("Parquet has %d runs, want %d as in the report", len(made), len(reported))
	}
}
