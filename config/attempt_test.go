package config_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/settings"
)

func TestDetectRunAndAttempt(t *testing.T) {
	for _, c := range []struct {
		name    string
		env     []string
		attempt int
		known   bool
		job     string
		run     string // job unless set
		err     string
	}{
		{name: "nothing"},
		{name: "torchrun", env: []string{"TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_RUN_ID=abc"}, attempt: 2, known: true, job: "abc"},
		{name: "torchrun under Slurm", env: []string{"TORCHELASTIC_RUN_ID=abc", "SLURM_JOB_ID=77", "SLURM_STEP_ID=0"}, job: "abc", run: "abc/77.0"},
		{name: "steps of one allocation", env: []string{"SLURM_JOB_ID=77", "SLURM_STEP_ID=3", "SLURM_RESTART_COUNT=1"}, attempt: 1, known: true, job: "77", run: "77.3"},
		{name: "array", env: []string{"SLURM_JOB_ID=78", "SLURM_ARRAY_TASK_ID=2", "SLURM_STEP_ID=0"}, job: "78", run: "78_2.0"},
		{name: "torchrun in a requeued job", env: []string{"TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0", "SLURM_JOB_ID=77", "SLURM_RESTART_COUNT=2"}, known: true, job: "77", run: "77+2"},
		{name: "our own id", env: []string{"TRAINSPAN_JOB=mine", "PBS_JOBID=8"}, job: "mine", run: "mine/8"},
		{name: "Open MPI", env: []string{"PMIX_NAMESPACE=prterun-host-12@1"}, job: "prterun-host-12@1"},
		{name: "Flux", env: []string{"FLUX_JOB_ID=f5"}, job: "f5"},
		{name: "torchrun without an id", env: []string{"TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=77"}, job: "77"},
		{name: "our own first", env: []string{"TRAINSPAN_ATTEMPT=5", "SLURM_RESTART_COUNT=1", "SLURM_JOB_ID=77"}, attempt: 5, known: true, job: "77"},
		{name: "bad", env: []string{"SLURM_RESTART_COUNT=x"}, err: "SLURM_RESTART_COUNT"},
		{name: "negative", env: []string{"TRAINSPAN_ATTEMPT=-1"}, err: "TRAINSPAN_ATTEMPT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := config.DetectRanks(config.Environ(c.env))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("DetectRanks: error %v, want one with %q", err, c.err)
				}
				return
			}
			if c.run == "" {
				c.run = c.job
			}
			if err != nil || l.Run != c.run || l.Attempt.IsSet() != c.known || l.Attempt.Or(0) != c.attempt || l.Job != c.job {
				t.Errorf("DetectRanks() = %+v, %v; want run %q, attempt %d, known %v, job %q", l, err, c.run, c.attempt, c.known, c.job)
			}
		})
	}
	if l, err := config.DetectRanks(nil); err != nil || l.Job != "" {
		t.Errorf("DetectRanks(nil) = %+v, %v; want no job", l, err)
	}
}

// Values set by the program win, and an invalid variable that is not needed
// does not matter.
func TestCompleteRanks(t *testing.T) {
	env := config.Environ([]string{"RANK=first", "WORLD_SIZE=8", "TRAINSPAN_ATTEMPT=2", "SLURM_JOB_ID=7"})
	r, err := settings.Ranks(config.Ranks{Rank: config.Value(3), Job: "mine"}, env)
	if err != nil || r.Rank.Get() != 3 || r.WorldSize.IsSet() || r.Attempt.Get() != 2 || r.Job != "mine" || r.Run != "mine" {
		t.Errorf("ranks %+v, %v; want rank 3, no world size, attempt 2, job and run mine", r, err)
	}
	if _, err := settings.Ranks(config.Ranks{Attempt: config.Value(0)}, env); err == nil || !strings.Contains(err.Error(), "RANK") {
		t.Errorf("ranks with a bad RANK: %v, want an error that names it", err)
	}
	if _, err := settings.Ranks(config.Ranks{Rank: config.Value(3)}, config.Environ([]string{"TRAINSPAN_ATTEMPT=x"})); err == nil {
		t.Error("TRAINSPAN_ATTEMPT=x was accepted, want an error")
	}
}
