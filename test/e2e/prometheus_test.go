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
	"github.com/trainspan/trainspan/internal/analyze/account/live"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// watchedPython trains until a file is there, with one-logger's callbacks.
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

// noLoss are panels that are empty for a job in Python: its callbacks have no loss.
var noLoss = []string{"Loss"}

// dashboard is what is asked of a file for Grafana.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// TestPrometheus lets a real Prometheus scrape a job in Go and one in Python. Each
// query of each dashboard has an answer with data, and the alerts are evaluated.
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
	targets := map[string]string{"go": trainInGo(t, dir), "python": trainInPython(t, ctx, python, dir)}
	p, err := servers.StartPrometheus(ctx, program, t.TempDir(), rules, targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	for _, job := range []string{"go", "python"} {
		until.Nil(t, func() error {
			s, err := p.Query(ctx, `training_checkpoint_saves_total{outcome="success",job="`+job+`"} > 1 and on (job) up == 1`)
			if err == nil && len(s) != 1 {
				err = fmt.Errorf("no metrics of %s at %s\n%s", job, targets[job], p.Log())
			}
			return err
		})
	}

	for file, jobs := range map[string][]string{"job.json": {"go", "python"}, "fleet.json": {""}} {
		text, err := os.ReadFile("../../deploy/grafana/" + file)
		var board dashboard
		if err == nil {
			err = json.Unmarshal(text, &board)
		}
		if err != nil || len(board.Panels) < 5 {
			t.Fatalf("%s: %v, %d panels", file, err, len(board.Panels))
		}
		for _, job := range jobs {
			for _, panel := range board.Panels {
				for _, target := range panel.Targets {
					expr := strings.NewReplacer("$job", job, "$__rate_interval", "10s").Replace(target.Expr)
					empty := job == "python" && slices.Contains(noLoss, panel.Title)
					until.Nil(t, func() error {
						samples, err := p.Query(ctx, expr)
						if err == nil && slices.ContainsFunc(samples, isNumber) == empty {
							err = fmt.Errorf("%s, %s, %q: %s gives %v", file, job, panel.Title, expr, samples)
						}
						return err
					})
				}
			}
		}
	}
	var values []string
	if err := p.Ask(ctx, "/api/v1/label/job/values", url.Values{"match[]": {"otel_sdk_span_live"}}, &values); err != nil || !slices.Equal(values, []string{"go", "python"}) {
		t.Errorf("the jobs to choose from are %v, %v", values, err)
	}

	var evaluated struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	until.Nil(t, func() error {
		err := p.Ask(ctx, "/api/v1/rules", nil, &evaluated)
		if all := fmt.Sprint(evaluated); err == nil && (len(evaluated.Groups) != 2 || strings.Contains(all, "unknown")) {
			err = fmt.Errorf("the alerts are not evaluated: %s", all)
		}
		return err
	})
	for _, g := range evaluated.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" || r.State != "inactive" {
				t.Errorf("%+v", r)
			}
		}
	}
}

func isNumber(s servers.Sample) bool {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// trainInGo trains in this process until the test is over, and gives the address of its metrics.
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
	tel, err := b.WithExporter(live.New(live.Options{})).ConfigureProvider(t.Context())
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

// trainInPython trains below trainspan run until the test is over, and gives the address of
// its metrics.
func trainInPython(t *testing.T, ctx context.Context, python, dir string) string {
	program := built.Command(t)
	address, err := servers.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	script, stop := filepath.Join(dir, "job.py"), filepath.Join(dir, "stop")
	if err := os.WriteFile(script, []byte(watchedPython), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, "run", "--quiet", "--dir", filepath.Join(dir, "run"), "--", python, script, stop)
	cmd.Env = append(os.Environ(), "TRAINSPAN_PROMETHEUS_ADDRESS="+address)
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
			t.Errorf("the job in Python: %v\n%s", err, &out)
		}
	})
	return address
}
