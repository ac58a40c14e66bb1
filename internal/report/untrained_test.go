package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
)

// Only a command that completed without a training step is the wrong one: others may not have
// reached the first step.
func TestUntrainedNext(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	zero := 0
	for how, run := range map[job.How]rundir.Run{
		job.Completed:  {State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: &zero},
		job.Unfinished: {State: rundir.Running},
		job.Stopped:    {State: rundir.Ended, EndedBy: rundir.BySignal, Signal: "SIGINT"},
		job.Lost:       {State: rundir.Ended, EndedBy: rundir.ByUnknown},
		job.Killed:     {State: rundir.Ended, EndedBy: rundir.BySignal, Signal: "SIGKILL"},
	} {
		run.Program, run.Started, run.Seen = "python", at, at.Add(45*time.Second)
		u := report.NewUntrained("", &run, nil)
		text := strings.Join(u.First(0), "\n")
		if next := strings.Contains(text, "\nNext "); u.Outcome.How != how || next != (how == job.Completed) {
			t.Errorf("%s: outcome %q, advice %v, want it only for a completed command:\n%s", how, u.Outcome.How, next, text)
		}
	}
}

// TestUntrainedSaysWhatIsMissing checks that the reason is what the client could not record, if it says so.
func TestUntrainedSaysWhatIsMissing(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	run := rundir.Run{State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: new(int), Program: "python", Started: at, Seen: at.Add(time.Second)}
	p := &job.Process{Facts: map[string]string{job.FactMissing: `["unknown phase in TRAINSPAN_ONLY: forwards"]`}}
	text := strings.Join(strings.Fields(strings.Join(report.NewUntrained("r.1", &run, []*job.Process{p}).First(0), " ")), " ")
	if !strings.Contains(text, "Not recorded: unknown phase in TRAINSPAN_ONLY: forwards.") || strings.Contains(text, "Put trainspan run in front") {
		t.Errorf("the screen is %q, want the reason, and no other advice", text)
	}
}
