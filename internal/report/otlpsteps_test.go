package report_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// TestFastStepsOfOTLP checks that a report of OTLP files counts all steps of an hour of 10
// ms each. They are known only from the metrics updates, which are events of the training
// loop.
func TestFastStepsOfOTLP(t *testing.T) {
	const steps = 360_000
	dir := t.TempDir()
	e, err := otlp.New(t.Context(), otlp.Config{
		OTLP:     config.OTLP{Endpoint: "http://127.0.0.1:1", SpillDir: dir},
		RetryFor: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64
	now.Store(1_760_000_000e9)
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "app", SessionTag: config.Value("s"), Training: &config.Training{}}).
		WithLogger(slog.New(slog.DiscardHandler)).WithClock(func() time.Time { return time.Unix(0, now.Load()) }).
		WithSpanExporter(e).WithShutdownTimeout(5 * time.Minute).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, app := tel.Start(t.Context(), spans.Application)
	inside, loop := tel.Start(ctx, spans.TrainingLoop)
	for range steps {
		_, step := tel.Start(inside, spans.TrainingIteration)
		now.Add(10e6)
		step.End()
	}
	loop.End()
	app.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
	}
	r := report.Build(jobs[0])
	if r.Steps.Count != steps || r.Goodput == nil || *r.Goodput < 0.99 {
		t.Errorf("%d steps, goodput %v; want %d and nearly 1", r.Steps.Count, r.Goodput, steps)
	}
}
