package live_test

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/account/live"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

// train is an attempt that runs steps from first to last, saves a checkpoint
// after every fifth, and loses time in most of the ways there are.
func train(t *testing.T, tel *telemetry.Provider, c *clock, first, last int, beforeEnd func()) {
	t.Helper()
	ctx := context.Background()
	tree := ai.NewTree(tel)
	cb := callbacks.New(tel)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := cb.OnAppStart(ctx)
	check(err)
	_, init := tel.Start(ctx, spans.ModelInit)
	c.pass(700 * time.Millisecond)
	init.End()
	if first > 0 {
		_, load := tel.Start(ctx, spans.CheckpointLoad)
		c.pass(300 * time.Millisecond)
		load.End()
	}
	ctx, err = cb.OnTrainStart(ctx, callbacks.TrainStart{IterationsStart: first})
	check(err)
	for i := first; i <= last; i++ {
		step, err := cb.OnTrainingSingleIterationStart(ctx)
		check(err)
		_, wait := tel.Start(step, spans.DataLoading)
		c.pass(20 * time.Millisecond)
		wait.End()
		forward := tree.Compute.Forward.Start(step)
		c.pass(50 * time.Millisecond)
		forward.End()
		fetch := tree.DataLoader.Fetch.Start(step)
		c.pass(5 * time.Millisecond)
		fetch.End()
		_, own := tel.StartSpan(step, "tokenize", attribute.Int("n", i))
		c.pass(3 * time.Millisecond)
		own.End()
		check(cb.OnTrainingSingleIterationEnd(step))
		c.pass(2 * time.Millisecond)
		if i%5 == 4 {
			_, err := cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{GlobalStep: i + 1})
			check(err)
			c.pass(40 * time.Millisecond)
			check(cb.OnSaveCheckpointSuccess(ctx, callbacks.SaveSuccess{GlobalStep: i + 1}))
			check(cb.OnSaveCheckpointEnd(ctx))
		}
	}
	check(cb.OnTrainEnd(ctx))
	beforeEnd()
	check(cb.OnAppEnd(ctx))
}

// The ledger that a provider keeps while it runs is the one that its trace gives
// afterwards, over two attempts of which the second takes work back.
func TestLiveIsOffline(t *testing.T) {
	dir := t.TempDir()
	c := &clock{now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	var last *live.Output
	reader := sdkmetric.NewManualReader()
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	var collected metricdata.ResourceMetrics
	for attempt, steps := range [][2]int{{0, 12}, {10, 24}} {
		o := live.Options{Dir: dir}
		if attempt == 1 {
			o.Meter = metrics
		}
		last = live.New(o)
		if last.Snapshot() != nil {
			t.Error("an output that is not attached has a ledger")
		}
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithClock(c.Now).
			WithBaseConfig(config.Base{ApplicationName: "job", SessionTag: config.Value("one"), WorldSize: config.Value(1)}).
			WithTrainingConfig(config.Training{PerfTag: config.Value("none"), GlobalBatchSize: config.Value(8)}).
			WithRanks(config.Ranks{Attempt: config.Value(attempt), Job: "job-7"}).
			WithExporter(pfw.New(filepath.Join(dir, "trace.pfw.gz"), nil)).
			WithExporter(last).
			ConfigureProvider(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		train(t, tel, c, steps[0], steps[1], func() {
			if err := reader.Collect(context.Background(), &collected); err != nil {
				t.Fatal(err)
			}
		})
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if attempt == 0 {
			c.pass(4 * time.Second)
		}
	}
	want, got := offline(t, dir), last.Snapshot()
	equal(t, want, got)
	if want.Categories[account.LostWork] == 0 || want.Categories[account.Downtime] == 0 || want.Categories["custom.tokenize"] == 0 {
		t.Errorf("the job shows too little: %v", want.Categories)
	}
	if got.Committed == 0 || got.Late > 0 || got.LostWorkUnknown {
		t.Errorf("%+v", got)
	}
	t.Logf("%.1f %% of %v: %v", 100*got.Ratio(), time.Duration(got.Wall), got.Categories)

	found := map[string]int{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[float64]:
				found[m.Name] = len(d.DataPoints)
			case metricdata.Sum[float64]:
				found[m.Name] = len(d.DataPoints)
				if m.Name == "training.time" && d.IsMonotonic {
					t.Error("training.time may not be a counter: a resume takes work back")
				}
			}
		}
	}
	if found["training.goodput.ratio"] != 1 || found["training.time.committed"] != 1 || found["training.goodput.window.ratio"] != 2 || found["training.time"] < 6 {
		t.Errorf("metrics: %v", found)
	}
}

// offline is the ledger of the only job below a folder.
func offline(t *testing.T, dir string) *account.Report {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := account.Collect(set)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d jobs, %v", len(all), err)
	}
	return all[0].Ledger.Report(account.Query{})
}

// equal checks that two ledgers of a job say the same.
func equal(t *testing.T, want *account.Report, got *account.Snapshot) {
	t.Helper()
	if d := got.Wall - want.Wall; max(d, -d) > 1e6 || got.Categories.Sum() != got.Wall {
		t.Errorf("wall %d, offline %d, sum %d", got.Wall, want.Wall, got.Categories.Sum())
	}
	for _, categories := range []account.Totals{want.Categories, got.Categories} {
		for k := range categories {
			if d := got.Categories[k] - want.Categories[k]; max(d, -d) > 1e6 {
				t.Errorf("%s: live %v, offline %v", k, time.Duration(got.Categories[k]), time.Duration(want.Categories[k]))
			}
		}
	}
}

// A program that has scopes of DFTracer's AI logging only has one ledger, too:
// what a scope means is not decided twice.
func TestScopesLiveAreScopesOffline(t *testing.T) {
	want := scopes(t, func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
		root := tree.Root.Start(context.Background())
		scope(root.Context(), tree.NewNode("compute", "compute.init"), 100*time.Millisecond)
		scope(root.Context(), tree.NewNode("comm", "comm.init"), 50*time.Millisecond)
		scope(root.Context(), tree.Checkpoint.Restart, 30*time.Millisecond)
		loop := tree.Pipeline.Train.Start(root.Context())
		for i := range 20 {
			scope(loop.Context(), tree.NewNode("dataloader", "fetch.iter"), 7*time.Millisecond)
			step := tree.NewNode("pipeline", "train.iteration").Start(loop.Context(), attribute.Int("step", i))
			scope(step.Context(), tree.Data.Item, 2*time.Millisecond)
			scope(step.Context(), tree.Device.Transfer, time.Millisecond)
			scope(step.Context(), tree.Compute.Forward, 11*time.Millisecond)
			scope(step.Context(), tree.Compute.Backward, 21*time.Millisecond)
			scope(step.Context(), tree.Comm.AllReduce, 3*time.Millisecond)
			scope(step.Context(), tree.NewNode("postprocess", "tokens"), 4*time.Millisecond)
			step.End()
			if i%10 == 9 {
				scope(loop.Context(), tree.Pipeline.Evaluate, 40*time.Millisecond)
				scope(loop.Context(), tree.Checkpoint.Capture, 60*time.Millisecond)
			}
		}
		loop.End()
		root.End()
	})
	if want.Categories[account.Productive] == 0 || want.Categories[account.DataWait] < 140e6 || want.Categories[account.Init] != 150e6 || want.Categories[account.CheckpointSave] != 120e6 || want.Categories["custom.tokens"] != 80e6 {
		t.Errorf("%v", want.Categories)
	}
}

// TestGuideLiveIsGuideOffline: the loop of DFTracer's guide, which calls nothing an
// iteration, has its steps.
func TestGuideLiveIsGuideOffline(t *testing.T) {
	const epochs, steps = 3, 20
	want := scopes(t, func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
		scope(t.Context(), tree.Checkpoint.Restart, 5*time.Millisecond)
		train := tree.Pipeline.Train.Start(t.Context())
		for ctx := range tree.Pipeline.Epoch.RangeContext(train.Context(), epochs) {
			for ctx := range tree.DataLoader.Fetch.RangeContext(ctx, steps) {
				scope(ctx, tree.Data.Item, 4*time.Millisecond)
				scope(ctx, tree.Device.Transfer, time.Millisecond)
				step := tree.Compute.Step.Start(ctx)
				scope(step.Context(), tree.Compute.Forward, 8*time.Millisecond)
				backward := tree.Compute.Backward.Start(step.Context())
				scope(backward.Context(), tree.Comm.AllReduce, 14*time.Millisecond)
				backward.End()
				step.End()
			}
			scope(ctx, tree.Checkpoint.Capture, 10*time.Millisecond)
		}
		train.End()
	})
	equal(t, &account.Report{Wall: want.Wall, Categories: account.Totals{
		account.Productive: epochs * steps * 23e6, account.DataWait: epochs * steps * 4e6, account.CheckpointSave: epochs * 10e6, account.CheckpointLoad: 5e6,
	}}, &account.Snapshot{Wall: want.Wall, Categories: want.Categories})
	if n := want.Iterations.Kept; n != epochs*steps {
		t.Errorf("%d steps", n)
	}
}

// TestLoopsLiveAreLoopsOffline: what a body starts with the context around its loop
// lies in the body, as in the trace; where loops overlap the context says nothing.
func TestLoopsLiveAreLoopsOffline(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		program    func(*ai.Tree, func(context.Context, *ai.Node, time.Duration))
		data, work int64 // in ms
	}{
		"nested": {func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
			train := tree.Pipeline.Train.Start(t.Context())
			for range tree.Pipeline.Epoch.Range(train.Context(), 3) {
				for range tree.DataLoader.Fetch.Range(train.Context(), 20) {
					scope(train.Context(), tree.Data.Item, 4*ms)
					scope(train.Context(), tree.Compute.Forward, 8*ms)
					scope(train.Context(), tree.Compute.Backward, 14*ms)
				}
				scope(train.Context(), tree.Checkpoint.Capture, ms)
			}
			train.End()
		}, 240, 1320},
		"no context": {func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
			for range tree.DataLoader.Fetch.Range(t.Context(), 10) {
				scope(t.Context(), tree.Data.Item, 4*ms)
				scope(t.Context(), tree.Compute.Backward, 14*ms)
			}
		}, 40, 140},
		"another loop around the data": {func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
			train := tree.Pipeline.Train.Start(t.Context())
			for range tree.DataLoader.Fetch.Range(train.Context(), 10) {
				for range tree.Data.Item.Range(train.Context(), 2) {
					scope(train.Context(), tree.Data.Preprocess, 2*ms)
				}
				scope(train.Context(), tree.Compute.Backward, 14*ms)
			}
			train.End()
		}, 40, 140},
		"a loop over a loop": {func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
			train := tree.Pipeline.Train.Start(t.Context())
			batches := func(yield func(int) bool) { // a generator
				for i := range tree.Data.Item.Range(train.Context(), 10) {
					scope(train.Context(), tree.Data.Preprocess, 4*ms)
					if !yield(i) {
						return
					}
				}
			}
			for range ai.Iter(train.Context(), tree.DataLoader.Fetch, batches) {
				scope(train.Context(), tree.Compute.Forward, 6*ms)
				scope(train.Context(), tree.Compute.Backward, 8*ms)
			}
			train.End()
		}, 40, 140},
		"overlapping": {func(tree *ai.Tree, scope func(context.Context, *ai.Node, time.Duration)) {
			train := tree.Pipeline.Train.Start(t.Context())
			next, stop := iter.Pull(tree.DataLoader.Fetch.Range(train.Context(), 8))
			other, stopOther := iter.Pull(tree.Pipeline.Epoch.Range(train.Context(), 8))
			for range 8 {
				next()
				scope(train.Context(), tree.Data.Item, 3*ms)
				other()
				scope(train.Context(), tree.Compute.Backward, 5*ms)
			}
			stop()
			stopOther()
			train.End()
		}, -1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			want := scopes(t, c.program)
			if c.data < 0 {
				return // it is enough that both say the same
			}
			if want.Categories[account.DataWait] != c.data*1e6 || want.Categories[account.Productive] != c.work*1e6 {
				t.Errorf("%v", want.Categories)
			}
		})
	}
}

// TestNumbersLiveAreNumbersOffline: the numbers of steps mean the same as whole
// numbers, as text, and as floats of languages that have nothing else.
func TestNumbersLiveAreNumbersOffline(t *testing.T) {
	for name, value := range map[string]func(key string, n int64) attribute.KeyValue{
		"whole": attribute.Int64,
		"text":  func(key string, n int64) attribute.KeyValue { return attribute.String(key, strconv.FormatInt(n, 10)) },
		"float": func(key string, n int64) attribute.KeyValue { return attribute.Float64(key, float64(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			want := liveLedger(t, func(tel *telemetry.Provider, c *clock) {
				tracer := tel.Tracer("program")
				at := func(kv ...attribute.KeyValue) trace.SpanStartOption { return trace.WithAttributes(kv...) }
				ctx, app := tracer.Start(t.Context(), spans.Application)
				for _, first := range []int64{100, 104} { // the second goes back over six steps
					ctx, loop := tracer.Start(ctx, spans.TrainingLoop, at(value("train_iterations_start", first)))
					for i := range int64(10) {
						_, step := tracer.Start(ctx, spans.TrainingIteration, at(value("step", first+i)))
						c.pass(10 * time.Millisecond)
						step.End()
					}
					loop.End()
				}
				app.End()
			})
			if lost := want.Categories[account.LostWork]; lost != 60e6 || want.Iterations.Kept != 14 {
				t.Errorf("%v lost, %d steps kept", time.Duration(lost), want.Iterations.Kept)
			}
		})
	}
}

// scopes is books for a program that has scopes.
func scopes(t *testing.T, program func(*ai.Tree, func(context.Context, *ai.Node, time.Duration))) *account.Report {
	t.Helper()
	return liveLedger(t, func(tel *telemetry.Provider, c *clock) {
		program(ai.NewTree(tel), func(ctx context.Context, n *ai.Node, d time.Duration) {
			s := n.Start(ctx)
			c.pass(d)
			s.End()
		})
	})
}

// liveLedger runs a program with a clock of its own, and compares what its ledger said
// with that of its trace, which it returns.
func liveLedger(t *testing.T, program func(*telemetry.Provider, *clock)) *account.Report {
	t.Helper()
	dir := t.TempDir()
	c := &clock{now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	live := live.New(live.Options{})
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithClock(c.Now).
		WithBaseConfig(config.Base{ApplicationName: "job", WorldSize: config.Value(1)}).
		WithRanks(config.Ranks{Rank: config.Value(0)}).
		WithExporter(pfw.New(filepath.Join(dir, "trace.pfw.gz"), nil)).WithExporter(live).
		ConfigureProvider(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	program(tel, c)
	got := live.Snapshot()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := offline(t, dir)
	equal(t, want, got)
	return want
}

// A span costs no allocation more than with an output that does nothing.
func TestLedgerAllocatesNothing(t *testing.T) {
	var got []float64
	for _, out := range []outputs.Output{idle{}, live.New(live.Options{})} {
		tel, err := telemetry.NewTrainingTelemetryBuilder().
			WithBaseConfig(config.Base{ApplicationName: "job", SessionTag: config.Value("one"), WorldSize: config.Value(1)}).
			WithTrainingConfig(config.Training{PerfTag: config.Value("none"), GlobalBatchSize: config.Value(8)}).
			WithExporter(out).ConfigureProvider(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tel.Shutdown(context.Background()) //nolint:errcheck // nothing is written
		got = append(got, testing.AllocsPerRun(2000, func() {
			_, s := tel.Start(t.Context(), spans.ModelForward)
			s.End()
		}))
	}
	if got[1] > got[0] {
		t.Errorf("%.0f allocations with the ledger, %.0f without", got[1], got[0])
	}
}

// What the ledger adds to the start and end of a span, beside an output that
// looks at spans and does nothing.
func BenchmarkSpans(b *testing.B) {
	for _, out := range []struct {
		name string
		make func() outputs.Output
	}{
		{"nothing", func() outputs.Output { return idle{} }},
		{"ledger", func() outputs.Output { return live.New(live.Options{}) }},
	} {
		b.Run(out.name, func(b *testing.B) {
			tel, err := telemetry.NewTrainingTelemetryBuilder().
				WithBaseConfig(config.Base{ApplicationName: "job", SessionTag: config.Value("one"), WorldSize: config.Value(1)}).
				WithTrainingConfig(config.Training{PerfTag: config.Value("none"), GlobalBatchSize: config.Value(8)}).
				WithExporter(out.make()).ConfigureProvider(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer tel.Shutdown(context.Background()) //nolint:errcheck // nothing is written
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, s := tel.Start(ctx, spans.ModelForward)
				s.End()
			}
		})
	}
}

type idle struct{ outputs.None }

func (idle) Attach(context.Context, *outputs.Telemetry) (outputs.Wants, error) {
	return outputs.Wants{Spans: true, All: true, Selects: true}, nil
}

func provider(t *testing.T, out *live.Output, ranks config.Ranks, world int) (*telemetry.Provider, error) {
	t.Helper()
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "job", SessionTag: config.Value("one"), WorldSize: config.Value(world)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("none"), GlobalBatchSize: config.Value(8)}).
		WithRanks(ranks).WithExporter(out).ConfigureProvider(t.Context())
	if err == nil {
		t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	}
	return tel, err
}

func (stuck) Enabled(context.Context, slog.Level) bool { return true }
