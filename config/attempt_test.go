package config_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
)

func TestDetectLaunch(t *testing.T) {
	for _, c := range []struct {
		name    string
		env     []string
		attempt int
		known   bool
		job     string
		err     string
	}{
		{name: "nothing"},
		{name: "torchrun", env: []string{"TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_RUN_ID=abc"}, attempt: 2, known: true, job: "abc"},
		{name: "torchrun without an id", env: []string{"TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=77"}, job: "77"},
		{name: "our own first", env: []string{"TRAINSPAN_ATTEMPT=5", "SLURM_RESTART_COUNT=1", "SLURM_JOB_ID=77"}, attempt: 5, known: true, job: "77"},
		{name: "bad", env: []string{"SLURM_RESTART_COUNT=x"}, err: "SLURM_RESTART_COUNT"},
		{name: "negative", env: []string{"TRAINSPAN_ATTEMPT=-1"}, err: "TRAINSPAN_ATTEMPT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := config.DetectLaunch(config.Environ(c.env))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || l.Attempt.IsSet() != c.known || l.Attempt.Or(0) != c.attempt || l.Job != c.job {
				t.Errorf("got %+v, %v", l, err)
			}
		})
	}
	if l, err := config.DetectLaunch(nil); err != nil || l.Job != "" {
		t.Errorf("a nil lookup gave %+v, %v", l, err)
	}
}
