package telemetry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// ranked makes a provider for one of two ranks that writes both files in dir.
func ranked(t *testing.T, dir string, rank int, on bool) *telemetry.Provider {
	t.Helper()
	cfg := base()
	cfg.WorldSize, cfg.EnableForCurrentRank = config.Value(2), config.Value(on)
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(quietLog()).
		WithRanks(config.Ranks{Rank: config.Value(rank)}).
		WithSpanExporter(pfw.New(filepath.Join(dir, "trace.pfw.gz"), nil)).
		WithExporter(file.New(filepath.Join(dir, "records.jsonl"), nil)).ConfigureProvider(context.Background())
	check(t, err)
	return tel
}

func work(t *testing.T, tel *telemetry.Provider, n int) {
	t.Helper()
	for range n {
		_, s := tel.StartSpan(context.Background(), "work")
		s.End()
	}
	check(t, tel.Shutdown(context.Background()))
}

// Ranks, runs and providers with the same paths have separate files, and a rank
// that is off opens none.
func TestEveryWriterHasFilesOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	first, second, off := ranked(t, dir, 0, true), ranked(t, dir, 1, true), ranked(t, dir, 0, false)
	again := ranked(t, dir, 0, true) // a second provider, while the first one writes
	work(t, off, 5)
	work(t, first, 10)
	work(t, second, 20)
	work(t, again, 30)
	work(t, ranked(t, dir, 1, true), 40) // a restart
	want := map[string]int{
		"trace-rank0.pfw.gz": 10, "trace-rank1.pfw.gz": 20, "trace-rank0.run2.pfw.gz": 30, "trace-rank1.run2.pfw.gz": 40,
		"records-rank0.jsonl": 20, "records-rank1.jsonl": 40, "records-rank0.run2.jsonl": 60, "records-rank1.run2.jsonl": 80,
	}
	files, err := os.ReadDir(dir)
	check(t, err)
	for _, f := range files {
		n, path := 0, filepath.Join(dir, f.Name())
		if strings.Contains(f.Name(), "trace") {
			dftest.Check(t, path)
			for _, e := range dftest.Events(t, path) {
				if e.Phase == dftracer.PhaseComplete && e.Name == "work" {
					n++
				}
			}
		} else {
			data, err := os.ReadFile(path)
			check(t, err)
			n = strings.Count(string(data), `"name":"work"`)
		}
		if w, ok := want[f.Name()]; !ok || n != w {
			t.Errorf("%s has %d, want %d", f.Name(), n, w)
		}
		delete(want, f.Name())
	}
	for name := range want {
		t.Errorf("file %s is missing", name)
	}
}

// An output that fails often and works in between is never given up.
func TestOutputThatWorksAgain(t *testing.T) {
	j := newJob(t)
	for i := range 50 {
		j.mem.mu.Lock()
		if j.mem.fail = nil; i%2 == 1 {
			j.mem.fail = errors.New("for a moment")
		}
		j.mem.mu.Unlock()
		_, s := j.tel.StartSpan(j.ctx, "x")
		s.End()
	}
	h := j.tel.Stats().Outputs[0]
	if h.GivenUp || h.Failures != 50 || len(j.mem.events(spans.EventSpanStop)) != 25 {
		t.Errorf("health %+v, %d spans; want 50 failures, not given up, 25 spans", h, len(j.mem.events(spans.EventSpanStop)))
	}
}

// The samples, tokens and operations of all ranks add up to those of the job,
// even if the batch cannot be divided by the number of ranks.
func TestSharesOfRanksAddUp(t *testing.T) {
	const ranks, batch, iterations = 3, 64, 7
	sums := map[string]float64{}
	for rank := range ranks {
		reader := metric.NewManualReader()
		j := newJob(t, func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
			c.WorldSize = config.Value(ranks)
			b.WithRanks(config.Ranks{Rank: config.Value(rank)}).WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
		})
		started(t)(j.cb.OnAppStart(j.ctx))
		started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
		for range iterations {
			j.iteration(t, time.Second)
		}
		var all metricdata.ResourceMetrics
		check(t, reader.Collect(j.ctx, &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch d := m.Data.(type) {
				case metricdata.Sum[int64]:
					for _, p := range d.DataPoints {
						sums[m.Name] += float64(p.Value)
					}
				case metricdata.Sum[float64]:
					for _, p := range d.DataPoints {
						sums[m.Name] += p.Value
					}
				}
			}
		}
	}
	for name, want := range map[string]float64{
		"samples": batch * iterations, "tokens": batch * iterations * 2048, "flops": batch * iterations * 1250000000000,
	} {
		share, job := sums["training."+name], sums["training.job."+name]
		if diff := share/want - 1; diff > 1e-12 || diff < -1e-12 {
			t.Errorf("%s: the ranks add up to %v, want %v", name, share, want)
		}
		if job != want*ranks {
			t.Errorf("%s of the job: every rank should say %v, together they say %v, want %v", name, want, job, want*ranks)
		}
	}
}

// A loop with throughput needs no targets: values that depend on a target are
// left out.
func TestThroughputWithoutTargets(t *testing.T) {
	j := newJob(t, func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		c.Training.TrainIterationsTarget, c.Training.TrainSamplesTarget = config.Var[int]{}, config.Var[int]{}
	})
	started(t)(j.cb.OnAppStart(j.ctx))
	started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
	for range 2 {
		j.iteration(t, time.Second)
	}
	check(t, j.cb.OnTrainEnd(j.ctx))
	updates := j.mem.events(spans.EventTrainingMetricsUpdate)
	if len(updates) != 1 || attr(updates[0], "train_throughput_per_gpu") == "" {
		t.Errorf("updates %v, want one with train_throughput_per_gpu", updates)
	}
	for _, r := range j.mem.all() {
		for _, key := range []string{"train_iterations_target", "train_samples_target", "train_tokens_target"} {
			if r.Span != nil && attrIn(r.Span.Attributes, key) != "" {
				t.Errorf("attribute %s is %s, want it absent", key, attrIn(r.Span.Attributes, key))
			}
		}
	}
}
