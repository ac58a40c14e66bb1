package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// watchedPython trains until a file exists, with one-logger's callbacks.
const watchedPython = `
import os, sys, time
from trainspan.onelogger import *
from trainspan.onelogger import OneLoggerConfig, TrainingTelemetryConfig, TrainingTelemetryProvider
TrainingTelemetryProvider.instance().with_base_config(OneLoggerConfig(
    application_name="python", session_tag_or_fn="tag", world_size_or_fn=1,
    telemetry_config=TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=8, seq_length_or_fn=4, log_every_n_train_iterations=50,
        save_checkpoint_strategy="sync", is_log_throughput_enabled_or_fn=True, flops_per_sample_or_fn=1000),
)).configure_provider()
with application(), training_loop(train_iterations_start=0, train_iterations_target_or_fn=10**9):
    step = 0
    while not os.path.exists(sys.argv[1]):
        with training_iteration():
            time.sleep(0.01)
        step += 1
        if step % 20 == 0:
            with checkpoint_save(global_step=step):
                time.sleep(0.002)
`

// watchedTorch trains with DistributedDataParallel until a file exists. The
// data of rank 1 is late.
const watchedTorch = `
import os, socket, subprocess, sys, time
if "RANK" not in os.environ: # the launcher
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable] + sys.argv, env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)) for r in range(2)]
    sys.exit(max([abs(r.wait()) for r in ranks]))
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
class Late(Dataset):
    def __len__(self): return 1 << 30
    def __getitem__(self, i):
        if dist.get_rank() == 1: time.sleep(0.005)
        return torch.ones(8)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(DataLoader(Late(), batch_size=4)):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    stop = torch.tensor([float(os.path.exists(sys.argv[1]))])
    dist.broadcast(stop, 0)
    if dist.get_rank() == 0 and step % 20 == 19:
        torch.save(model.state_dict(), sys.argv[1] + ".pt")
    if stop.item():
        break
dist.destroy_process_group()
`

// empty has the panels without data for each job, and why.
var empty = map[string][]string{
	// They count their own steps; nothing reads their files.
	"go":     ofFiles,
	"python": append([]string{"Loss"}, ofFiles...), // its callbacks have no loss
	// The records do not contain these, and the telemetry of its processes is that
	// of trainspan run.
	"torch": {"Loss", "Tokens per second", "Operations per second per GPU", "Telemetry: queued spans", "Telemetry: time blocked by the disk"},
}

// ofFiles are the panels that only a job's files have.
var ofFiles = []string{
	"What slows the job down", "Productive time, by part", "Time that other ranks waited for a rank", "Where the time went", "Productive share of all time",
	"Work per step in excess of the other ranks", "Wait per step",
}

// dashboard is the part of a Grafana file that the test reads.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T, file string) (board dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/" + file)
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil || len(board.Panels) < 5 {
		t.Fatalf("%s: %v, %d panels; want 5 or more", file, err, len(board.Panels))
	}
	return board
}

// debianPython is the interpreter of the system, which has PyTorch if that is
// installed.
const debianPython = "/usr/bin/python3"

// TestPrometheus lets a real Prometheus scrape a job in Go and one in Python,
// which count their own steps, and one with plain PyTorch, whose files
// trainspan run reads. Each query of each dashboard has data, and the alerts
// are evaluated.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus (apt-get install prometheus): alerts and dashboards are not tried")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	ctx, dir := untilDeadline(t), t.TempDir()
	rules, err := filepath.Abs("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{
		"go":     trainInGo(t, dir),
		"python": trainUntil(t, ctx, filepath.Join(dir, "python"), watchedPython, "TRAINSPAN_PROMETHEUS_ADDRESS", python),
	}
	jobs := []string{"go", "python"}
	if exec.CommandContext(ctx, debianPython, "-c", "import torch.distributed").Run() == nil {
		targets["torch"] = trainUntil(t, ctx, filepath.Join(dir, "torch"), watchedTorch, "TRAINSPAN_METRICS", debianPython)
		jobs = append(jobs, "torch")
	} else {
		t.Log("there is no PyTorch (apt-get install python3-torch): its job and the panels of files are not tried")
	}
	p, err := servers.StartPrometheus(ctx, program, t.TempDir(), rules, targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	for _, job := range jobs {
		until.Nil(t, func() error {
			s, err := p.Query(ctx, `training_checkpoint_saves_total{outcome="success",job="`+job+`"} > 1 and on (job) up == 1`)
			if err == nil && len(s) != 1 {
				err = fmt.Errorf("no metrics of %s at %s\n%s", job, targets[job], p.Log())
			}
			return err
		})
	}

	answered := map[string]bool{} // a query of a panel, by any job
	for file, jobs := range map[string][]string{"job.json": jobs, "fleet.json": {""}} {
		board := readDashboard(t, file)
		for _, job := range jobs {
			for _, panel := range board.Panels {
				none := slices.Contains(empty[job], panel.Title)
				until.Nil(t, func() error { // one of its queries has data; an empty panel has none
					some := false
					for _, target := range panel.Targets {
						samples, err := p.Query(ctx, strings.NewReplacer("$job", job, "$__rate_interval", "20s").Replace(target.Expr))
						if err != nil {
							return err
						}
						if slices.ContainsFunc(samples, isNumber) {
							some, answered[target.Expr] = true, true
						}
					}
					if some == none {
						return fmt.Errorf("%s of job %q: %q has data %v, want %v: %v", file, job, panel.Title, some, !none, panel.Targets)
					}
					return nil
				})
			}
		}
	}
	if len(jobs) == 3 {
		for _, file := range []string{"job.json", "fleet.json"} {
			for _, panel := range readDashboard(t, file).Panels {
				for _, target := range panel.Targets {
					if !answered[target.Expr] && !strings.Contains(target.Expr, `kind=~"fine|unknown"`) { // the job with files is slowed down
						t.Errorf("%s, %q: no job has data for %s", file, panel.Title, target.Expr)
					}
				}
			}
		}
		until.Nil(t, func() error {
			s, err := p.Query(ctx, `training_diagnosis{job="torch",kind="slow_ranks",cause="input"} == 1 and on (job) topk(1, training_rank_excess_seconds{training_rank="1"}) > 0.01`)
			if err == nil && len(s) != 1 {
				all, _ := p.Query(ctx, `{job="torch",__name__=~"training_diagnosis|training_rank_.*|training_waited_for_seconds"}`)
				err = fmt.Errorf("the diagnosis of the job in PyTorch is not that rank 1 loads slowly: %v", all)
			}
			return err
		})
	}
	var values []string
	if err := p.Ask(ctx, "/api/v1/label/job/values", url.Values{"match[]": {"training_iterations_total"}}, &values); err != nil || !slices.Equal(values, jobs) {
		t.Errorf("jobs to choose from are %v, %v; want %v", values, err, jobs)
	}

	var evaluated struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	until.Nil(t, func() error { // rules are evaluated on their own schedule
		err := p.Ask(ctx, "/api/v1/rules", nil, &evaluated)
		if all := fmt.Sprint(evaluated); err == nil && (len(evaluated.Groups) != 2 || strings.Contains(all, "unknown")) {
			return fmt.Errorf("the alerts are not evaluated: %s", all)
		}
		for _, g := range evaluated.Groups {
			for _, r := range g.Rules {
				slowed := r.Name == "TrainingSlowedDown" && len(jobs) == 3 // for less than its 15 minutes
				if want := map[bool]string{true: "pending", false: "inactive"}[slowed]; r.Health != "ok" || r.State != want {
					return fmt.Errorf("got %+v, want the state %s", r, want)
				}
			}
		}
		return err
	})
}

func isNumber(s servers.Sample) bool {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// trainInGo trains in this process until the end of the test, and returns the
// address of its metrics.
func trainInGo(t *testing.T, dir string) string {
	cfg := config.Config{Base: config.Base{
		ApplicationName: "go", WorldSize: config.Value(1),
		Training: &config.Training{
			PerfTag: config.Value("p"), GlobalBatchSize: config.Value(8), SeqLength: config.Value(4), FlopsPerSample: config.Value(1000),
			IsLogThroughputEnabled: config.Value(true), LogEveryNTrainIterations: config.Value(50), TrainIterationsTarget: config.Value(1 << 30),
		},
	}}
	cfg.Ranks.Rank = config.Value(0)
	cfg.Outputs.Prometheus.Address = "127.0.0.1:0"
	cfg.Outputs.Trace.Path = filepath.Join(dir, "trace")
	b, made, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watchedGo(ctx, callbacks.New(tel)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the job in Go: %v", err)
		}
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Errorf("the job in Go: %v", err)
		}
	})
	u, err := url.Parse(made.Metrics.PrometheusURL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// watchedGo is the job in Go.
func watchedGo(ctx context.Context, cb *callbacks.Callbacks) error {
	app, err := cb.OnAppStart(context.Background())
	if err != nil {
		return err
	}
	loop, err := cb.OnTrainStart(app, callbacks.TrainStart{})
	if err != nil {
		return err
	}
	for step := 1; ctx.Err() == nil; step++ {
		if _, err := cb.OnTrainingSingleIterationStart(loop); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the work
		if err := cb.OnTrainingSingleIterationEnd(loop, callbacks.IterationEnd{Loss: callbacks.Some(1 / float64(step))}); err != nil {
			return err
		}
		if step%20 == 0 {
			if _, err := cb.OnSaveCheckpointStart(loop, callbacks.SaveStart{GlobalStep: step}); err != nil {
				return err
			}
			if err := cb.OnSaveCheckpointSuccess(loop, callbacks.SaveSuccess{GlobalStep: step}); err != nil {
				return err
			}
			if err := cb.OnSaveCheckpointEnd(loop); err != nil {
				return err
			}
		}
	}
	if err := cb.OnTrainEnd(loop); err != nil {
		return err
	}
	return cb.OnAppEnd(app)
}

// trainUntil trains under trainspan run until the end of the test, and returns
// the address of the metrics, which a variable names. The command gets the
// program's file and that of the end.
func trainUntil(t *testing.T, ctx context.Context, dir, text, variable string, command ...string) string {
	program := built.Command(t)
	address, err := servers.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as a user's
		t.Fatal(err)
	}
	script, stop := filepath.Join(dir, "job.py"), filepath.Join(dir, "stop")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, append(append([]string{"run", "--quiet", "--"}, command...), script, stop)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variable+"="+address)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the job of %s: %v\n%s", dir, err, &out)
		}
	})
	return address
}
