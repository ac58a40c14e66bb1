package job_test

import (
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestOutcomeOfHang checks that what ended a hanging job is not its cause,
// unless it is what the others waited for.
func TestOutcomeOfHang(t *testing.T) {
	base := time.Unix(1_700_000_000, 0)
	ended := func(rank int, by, signal string, status int, says string) *job.Outcome {
		s := &rundir.Run{State: rundir.Ended, EndedBy: by, Signal: signal, Host: "a", Started: base, Seen: base.Add(time.Minute), Error: says}
		if signal == "" {
			s.ExitStatus = &status
		}
		if rank >= 0 {
			s.Rank = &rank
		}
		return job.OutcomeOf([]*rundir.Run{s}, nil, nil)
	}
	stopped := func() *job.Outcome {
		at := base.Add(59 * time.Second)
		s := &rundir.Run{State: rundir.Ended, EndedBy: rundir.BySignal, Signal: "SIGINT", Host: "a", Started: base, Seen: base.Add(time.Minute), Stopped: "SIGINT", StoppedAt: &at}
		return job.OutcomeOf([]*rundir.Run{s}, nil, nil)
	}
	second := int64(1e9)
	long := map[int]int64{0: 50 * second, 1: 49 * second}
	short := map[int]int64{0: 50 * second, 1: 10 * second}
	tests := []struct {
		name string
		o    *job.Outcome
		h    job.Hang
		text string
	}{
		{"goes on", nil, job.Hang{Ranks: []int{1}, What: "input", Until: long}, "hung: rank 1 in input"},
		{"goes on, nobody missing", nil, job.Hang{Until: long}, "hung: all ranks wait"},
		{"two ranks", nil, job.Hang{Ranks: []int{1, 2}, Until: long}, "hung: 2 ranks"},
		{"Ctrl-C", stopped(), job.Hang{Ranks: []int{1}, Until: long}, "hung: rank 1, then stopped by Ctrl-C"},
		{"killed with the others", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Until: long}, "hung: rank 1, then ended by SIGKILL"},
		{"killed after a long wait", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Since: 20 * second, Until: long}, "hung: rank 1, then ended by SIGKILL"},
		{"killed when the others began to wait", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Since: 49 * second, Until: long}, "ended by SIGKILL: rank 1"},
		{"killed soon, nobody missing", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Since: 49 * second, Until: long}, "ended by SIGKILL: rank 1"},
		{"another killed soon", ended(0, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Since: 49 * second, Until: long}, "hung: rank 1, then ended by SIGKILL"},
		{"killed before the others", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Until: short}, "ended by SIGKILL: rank 1"},
		{"killed, and the others wait", ended(1, rundir.BySignal, "SIGKILL", 0, ""), job.Hang{Until: short}, "ended by SIGKILL: rank 1"},
		{"aborted by a watchdog", ended(0, rundir.BySignal, "SIGABRT", 0, ""), job.Hang{Ranks: []int{1}, Until: long}, "hung: rank 1, then ended by SIGABRT"},
		{"timed out", ended(0, rundir.ByExit, "", 1, "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"), job.Hang{Ranks: []int{1}, Until: long},
			"hung: rank 1, then failed, RuntimeError: Timed out waiting 1800000ms for recv operation to complete"},
		{"an exception", ended(1, rundir.ByExit, "", 1, "ValueError: boom"), job.Hang{Ranks: []int{1}, Until: long}, "failed: rank 1, ValueError: boom"},
		{"memory", ended(1, rundir.ByMemory, "SIGKILL", 0, ""), job.Hang{Ranks: []int{1}, Until: long}, "out of memory: rank 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.h.At = 50 * second
			if o := job.OutcomeOfHang(tt.o, &tt.h); o.Text != tt.text {
				t.Errorf("%q, want %q", o.Text, tt.text)
			}
		})
	}
}
