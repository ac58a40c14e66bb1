package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// requeued is a rank that saves a checkpoint after ten iterations. In its first
// start rank 0 requeues the job when all ranks have done five more.
const requeued = `
import glob, os, time
from trainspan.onelogger import *
from trainspan.onelogger import OneLoggerConfig, TrainingTelemetryConfig, TrainingTelemetryProvider
first = 10 if os.environ.get("SLURM_RESTART_COUNT", "0") != "0" else 0
TrainingTelemetryProvider.instance().with_base_config(OneLoggerConfig(
    application_name="llm", world_size_or_fn=int(os.environ["SLURM_NTASKS"]),
    telemetry_config=TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=8, log_every_n_train_iterations=5, save_checkpoint_strategy="sync"),
)).configure_provider()
with application():
    if first:
        with checkpoint_load():
            pass
    with training_loop(train_iterations_start=first, train_iterations_target_or_fn=20):
        for step in range(first, 20):
            with training_iteration():
                time.sleep(0.02)
            if step == 9:
                with checkpoint_save(global_step=10):
                    pass
            if step == 14 and not first:
                open("there-" + os.environ["SLURM_PROCID"], "w").close()
                if os.environ["SLURM_PROCID"] == "0":
                    while len(glob.glob("there-*")) < int(os.environ["SLURM_NTASKS"]):
                        time.sleep(0.01)
                    os.system("scontrol requeue $SLURM_JOB_ID")
                time.sleep(600)  # until Slurm ends it
`

// TestSlurm runs a job on two nodes of a real Slurm, four ranks, by
// docs/guide/clusters.md: all of them are one attempt, and after a requeue they
// are the second attempt of the same run.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("Slurm lets a job that was requeued wait")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	ctx := untilDeadline(t)
	s := startSlurm(ctx, t)
	dir := t.TempDir()
	program := built.Command(t)
	script := "#!/bin/sh\nsrun --overcommit " + program + " run --name llm -- " + python + " train.py\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "train.py"), []byte(requeued), 0o600), os.WriteFile(filepath.Join(dir, "job.sh"), []byte(script), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := s.Run(ctx, dir, "sbatch", "--requeue", "--nodes=2", "--ntasks=4", "--overcommit", "--output=log", "job.sh")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`\d+`).FindString(out)
	until.Nil(t, func() error { // at its end; if it waits for its second start, it starts now
		out, err := s.Run(ctx, dir, "scontrol", "show", "job", id)
		if err != nil || strings.Contains(out, "JobState=COMPLETED") {
			return err
		}
		if strings.Contains(out, "BeginTime") {
			_, _ = s.Run(ctx, dir, "scontrol", "update", "JobId="+id, "StartTime=now")
		}
		return fmt.Errorf("the job is %s\n%s", out, s.Log())
	})

	text, err := exec.CommandContext(ctx, program, "report", "--json", filepath.Join(dir, "trainspan-runs", "llm")).Output()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("trainspan report: %v\n%s", err, log)
	}
	var report struct {
		Outcome  struct{ How string }
		Attempts []struct {
			Attempt, Ranks int
			Outcome        struct{ How, Text string }
			First          int64 `json:"first_step"`
			Last           int64 `json:"last_step"`
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s %+v", report.Outcome.How, report.Attempts); len(report.Attempts) != 2 || report.Outcome.How != "completed" {
		t.Fatalf("run is %s, want two attempts, completed", got)
	}
	for i, want := range []struct {
		how, text   string
		first, last int64
	}{{"stopped", "job of Slurm", 0, 14}, {"completed", "completed", 10, 19}} {
		a := report.Attempts[i]
		if a.Attempt != i+1 || a.Ranks != 4 || a.Outcome.How != want.how || !strings.Contains(a.Outcome.Text, want.text) || a.First != want.first || a.Last != want.last {
			t.Errorf("attempt %d is %+v, want 4 ranks, %s, %q, steps %d to %d", i+1, a, want.how, want.text, want.first, want.last)
		}
	}
}

// startSlurm starts a Slurm of two nodes that ends with the test.
func startSlurm(ctx context.Context, t *testing.T) *servers.Slurm {
	t.Helper()
	cluster, err := os.MkdirTemp("", "slurm-*") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(cluster) })
	if err := os.Chmod(cluster, 0o755); err != nil { //nolint:gosec // munge wants it
		t.Fatal(err)
	}
	s, err := servers.StartSlurm(ctx, cluster)
	if errors.Is(err, servers.ErrNoSlurm) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	until.Nil(t, func() error {
		out, err := s.Run(ctx, cluster, "sinfo", "-h", "-o", "%D %t")
		if err == nil && strings.TrimSpace(out) != "2 idle" {
			err = fmt.Errorf("the nodes are %q\n%s", out, s.Log())
		}
		return err
	})
	return s
}

// TestSlurmArray digests the parts of a job in an array of a real Slurm with
// examples/slurm/digest.sh. A killed task leaves no files and does not stop the
// others; the second run reads only its part, and the report equals that of one
// command over all traces, byte for byte.
func TestSlurmArray(t *testing.T) {
	ctx := untilDeadline(t)
	s := startSlurm(ctx, t)
	dir := t.TempDir()
	if err := (simjob.Large{Ranks: 12, Steps: 30, Slow: 7, Extra: 12, Save: 10, Folder: 2}).Write(filepath.Join(dir, "job")); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "job", "*"))
	if err != nil || len(parts) != 6 {
		t.Fatalf("parts %v, %v; want 6", parts, err)
	}
	program := built.Command(t)
	// It is killed in its first task for the fourth part.
	wrapper := filepath.Join(dir, "killed")
	text := "#!/bin/sh\necho $1 $2 $3 >>" + dir + "/calls\ncase $3 in *node0003) [ -e " + dir + "/once ] || { : >" + dir + "/once; kill -9 $$; } ;; esac\nexec " + program + ` "$@"` + "\n"
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../examples/slurm/digest.sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRAINSPAN", wrapper)
	t.Setenv("SLURM_ARRAY_TASK_ID", "7") // at the end of the job script of an array
	args := append([]string{filepath.Join(dir, "out")}, parts...)
	out, err := s.Run(ctx, dir, script, args...)
	if err == nil || !strings.Contains(out, "no digest of "+parts[3]) || !strings.Contains(out, "1 of 6 parts are missing") {
		t.Fatalf("%v, want that 1 of 6 parts is missing: %s\n%s", err, out, s.Log())
	}
	if out, err = s.Run(ctx, dir, script, args...); err != nil || !strings.Contains(out, "12 ranks") {
		t.Fatalf("%v, want a report of 12 ranks: %s\n%s", err, out, s.Log())
	}
	want, err := exec.CommandContext(ctx, program, append([]string{"report", "--json"}, parts...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "out", "report.json")); err != nil || string(got) != string(want) {
		t.Errorf("the report differs from that of the traces, %v", err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || strings.Count(string(calls), "trace digest ") != 7 || strings.Count(string(calls), parts[3]) != 2 {
		t.Errorf("%v, want 7 digests, two of part 3\n%s", err, calls)
	}
	if out, err := s.Run(ctx, dir, script, args[:3]...); err == nil || !strings.Contains(out, "has digests of other parts") {
		t.Errorf(`%v, want "has digests of other parts": %s`, err, out)
	}
}
