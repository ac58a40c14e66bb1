package spanstats_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
)

// TestEpochsOfATrainingLoop checks the epochs of a training loop with plain
// iterators and an update in the body.
func TestEpochsOfATrainingLoop(t *testing.T) {
	lasts := []time.Duration{62 * time.Millisecond, 82 * time.Millisecond, 41 * time.Millisecond}
	base := time.Now()
	var passed atomic.Int64
	clock := func() time.Time { return base.Add(time.Duration(passed.Load())) }
	path := filepath.Join(t.TempDir(), "trace.pfw")
	trace, err := pfw.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "loop", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
		WithClock(clock).WithSpanProcessor(trace).ConfigureProvider(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tree := ai.NewTree(tel)
	train, scope := tree.Pipeline.Train.StartContext(ctx)
	for epoch := range tree.Pipeline.Epoch.Range(train, len(lasts)) {
		for step := range tree.DataLoader.Fetch.Range(train, 2) {
			tree.Root.Update(ai.Epoch(epoch), ai.Step(step))
			forward := tree.Compute.Forward.Start(train)
			passed.Add(int64(lasts[epoch] / 2))
			forward.End()
		}
	}
	scope.End()
	if err := tel.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	agg := spanstats.New(nil)
	for _, ev := range dftest.Events(t, path) {
		agg.Add(&ev)
	}
	epochs := agg.Result().Epochs
	if len(epochs) != len(lasts) {
		t.Fatalf("epochs %+v, want %d", epochs, len(lasts))
	}
	for i, e := range epochs {
		want := lasts[i].Microseconds()
		if e.Epoch != int64(i) || e.End-e.Start != want || e.Use.Compute != want {
			t.Errorf("epoch %d lasts %d µs with %d of compute, want %d: %+v", e.Epoch, e.End-e.Start, e.Use.Compute, want, e)
		}
	}
}
