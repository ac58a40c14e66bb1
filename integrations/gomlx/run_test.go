package gomlxspan_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTelemetry makes a provider that writes a trace.
func newTelemetry(t testing.TB) (tel *telemetry.Provider, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "trace.pfw")
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{
			ApplicationName: "x", SessionTag: config.Value("x"), WorldSize: config.Value(1),
			Training: &config.Training{PerfTag: config.Value("x"), GlobalBatchSize: config.Value(4)},
		}).
		WithLogger(slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))).
		WithExporter(pfw.New(path, &pfw.Options{NoBegin: true})).ConfigureProvider(context.Background())
	check(t, err)
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return tel, path
}

// failing fails the test for every warning of telemetry, because the adapter
// must call it in the correct order.
type failing struct{ t testing.TB }

func (f failing) Write(p []byte) (int, error) {
	f.t.Errorf("telemetry warns: %s", p)
	return len(p), nil
}

// batches is a dataset of y = x0+x1 with batches of the given sizes.
type batches struct {
	sizes   []int
	forever bool
	fail    error // error after the batches
	panics  bool  // whether it panics after the batches
	closed  int   // number of passes that ended
}

func (d *batches) Name() string { return "sums" }

func (d *batches) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		defer func() { d.closed++ }()
		for first := true; first || d.forever; first = false {
			for _, n := range d.sizes {
				if !yield(batch(n), nil) {
					return
				}
			}
		}
		if d.panics {
			panic("the dataset is broken")
		}
		if d.fail != nil {
			yield(train.Batch{}, d.fail)
		}
	}
}

func batch(n int) train.Batch {
	x, y := make([]float32, 0, 2*n), make([]float32, 0, n)
	for i := range n {
		a, b := float32(i%3), float32(i%5)
		x, y = append(x, a, b), append(y, a+b)
	}
	return train.Batch{
		Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, n, 2)},
		Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, n, 1)},
	}
}

func newLoop(t testing.TB, store *model.Store, fn func(*model.Scope, *graph.Node) *graph.Node) *train.Loop {
	t.Helper()
	backend, err := gobackend.New("")
	check(t, err)
	store.SetParam(model.ParamInitialSeed, int64(7))
	return train.NewLoop(train.NewTrainer(backend, store, fn, loss.MeanSquaredError,
		optimizer.StochasticGradientDescent().WithLearningRate(0.01).Done(), nil, nil))
}

func linear(scope *model.Scope, x *graph.Node) *graph.Node {
	return layers.DenseWithBias(scope.In("sum"), x, 1)
}

// trace holds the content of a trace, by name.
type trace struct {
	t      testing.TB
	events map[string][]dftracer.Event
	names  map[int64]string
}

func readTrace(t testing.TB, tel *telemetry.Provider, path string) *trace {
	t.Helper()
	check(t, tel.Shutdown(context.Background()))
	dftest.Check(t, path)
	tr := &trace{t, map[string][]dftracer.Event{}, map[int64]string{}}
	for _, e := range dftest.Events(t, path) {
		if e.Phase == dftracer.PhaseComplete && e.Cat != dftracer.CatDFTracer {
			tr.events[e.Name] = append(tr.events[e.Name], e)
			tr.names[int64(e.ID)] = e.Name
		}
	}
	return tr
}

// want compares the number of events by name; other names must not occur.
func (tr *trace) want(counts map[string]int) {
	tr.t.Helper()
	for name, list := range tr.events {
		if len(list) != counts[name] {
			tr.t.Errorf("%d times %s, want %d", len(list), name, counts[name])
		}
	}
	for name, n := range counts {
		if len(tr.events[name]) != n {
			tr.t.Errorf("%d times %s, want %d", len(tr.events[name]), name, n)
		}
	}
}

func arg(e dftracer.Event, key string) string {
	a, ok := e.Arg(key)
	if !ok {
		return ""
	}
	return a.Text()
}

// failures returns the failed spans, sorted by name.
func (tr *trace) failures() string {
	var list []string
	for name, events := range tr.events {
		for _, e := range events {
			if arg(e, "otel.status_code") == "ERROR" {
				list = append(list, name)
			}
			if arg(e, "truncated") != "" {
				list = append(list, name+" (cut)")
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestSteps(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	for range 2 { // the second run continues
		_, err := loop.RunSteps(run.Train(&batches{sizes: []int{4}, forever: true}), 5)
		check(t, err)
	}
	_, err := loop.Trainer.Eval(run.Testing(&batches{sizes: []int{4, 4}}))
	check(t, err)
	run.End(nil)
	run.End(nil)
	tr := readTrace(t, tel, path)
	tr.want(map[string]int{
		"ai_root": 1, "train": 2, "train.iteration": 10, "step": 10, "fetch.iter": 10 + 3,
		"test": 1, "test.iteration": 2, "evaluate": 2, "graph_compile": 2,
	})
	if f := tr.failures(); f != "" {
		t.Errorf("failed: %s, want \"\"", f)
	}
	for i, e := range tr.events["train.iteration"] {
		if arg(e, "step") != fmt.Sprint(i) {
			t.Errorf("step %d has number %s, want the same", i, arg(e, "step"))
		}
	}
	for _, e := range tr.events["step"] {
		if e.Cat != "compute" || tr.names[e.Parent] != "train.iteration" || arg(e, gomlxspan.Fused) != "forward,backward,update" {
			t.Errorf("step %+v, want a compute event in train.iteration with its fused phases", e)
		}
	}
	if first := tr.events["train"][1]; arg(first, "train_iterations_start") != "5" || arg(first, "train_iterations_target") != "10" {
		t.Errorf("second loop is %+v, want steps 5 to 10", first)
	}
	var kinds []string
	for _, e := range tr.events["graph_compile"] {
		kinds = append(kinds, tr.names[e.Parent]+" "+arg(e, "graph"))
	}
	if !slices.Equal(kinds, []string{"train.iteration train", "test.iteration evaluate"}) {
		t.Errorf("compiled %v, want [train.iteration train test.iteration evaluate]", kinds)
	}
	// The step begins when its graph is built.
	if c, s := tr.events["graph_compile"][0], tr.events["step"][0]; c.End() > s.TS {
		t.Errorf("compiling ends at %d, the step starts at %d; want it later", c.End(), s.TS)
	}
}

// TestDatasetOfItsOwn checks that steps are recorded without Run.Train too,
// including the waits for their batches.
func TestDatasetOfItsOwn(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	_, err := loop.RunSteps(&batches{sizes: []int{4}, forever: true}, 5)
	check(t, err)
	run.End(nil)
	tr := readTrace(t, tel, path)
	if n := len(tr.events["train.iteration"]); n != 5 || tr.failures() != "" {
		t.Fatalf("%d steps, failed: %s; want 5, none", n, tr.failures())
	}
	end := tr.events["train"][0].TS
	for i, e := range tr.events["train.iteration"] {
		if tr.names[e.Parent] != "train" || arg(e, "step") != fmt.Sprint(i) || e.TS < end {
			t.Errorf("step %d, after %d: %+v; want it below train, with its number, after the one before", i, end, e)
		}
		end = e.End()
	}
}

func TestEpochs(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	train.EveryNSteps(loop, 3, "evaluate", 0, func(loop *train.Loop, _ []*tensors.Tensor) error {
		_, err := loop.Trainer.Eval(run.Validation(&batches{sizes: []int{4, 4}}))
		return err
	})
	// The last batch is smaller: a second graph, compiled once.
	_, err := loop.RunEpochs(run.Train(&batches{sizes: []int{4, 4, 2}}), 3)
	check(t, err)
	run.End(&err)
	tr := readTrace(t, tel, path)
	tr.want(map[string]int{
		"ai_root": 1, "train": 1, "epoch.block": 3, "train.iteration": 9, "step": 9, "fetch.iter": 3*4 + 3*3,
		"evaluate": 3 + 3*2, "evaluate.iteration": 6, "graph_compile": 3,
	})
	for _, e := range tr.events["epoch.block"] {
		if tr.names[e.Parent] != "train" {
			t.Errorf("the parent of an epoch is %s, want \"train\"", tr.names[e.Parent])
		}
	}
	for _, e := range tr.events["evaluate"] {
		if e.Cat == "pipeline" && tr.names[e.Parent] != "epoch.block" {
			t.Errorf("parent of an evaluation is %s, want epoch.block", tr.names[e.Parent])
		}
	}
}

// TestTelemetryChangesNothing checks that the training and its errors are the
// same with and without telemetry.
func TestTelemetryChangesNothing(t *testing.T) {
	failing := noThree(errHook)
	type result struct {
		losses []float32
		err    string
	}
	train := func(tel *telemetry.Provider, fn func(*model.Scope, *graph.Node) *graph.Node, sizes []int) (r result) {
		loop := newLoop(t, model.NewStore(), fn)
		run := gomlxspan.Attach(tel, loop, nil)
		loop.OnStep("note", 0, func(_ *train.Loop, m []*tensors.Tensor) error {
			r.losses = append(r.losses, tensors.ToScalar[float32](m[0]))
			return nil
		})
		data := &batches{sizes: sizes}
		_, err := loop.RunEpochs(run.Train(data), 2)
		if err != nil {
			r.err = err.Error()
		}
		if data.closed == 0 {
			t.Error("the dataset was not released")
		}
		run.End(&err)
		return r
	}
	for _, c := range []struct {
		fn    func(*model.Scope, *graph.Node) *graph.Node
		sizes []int
	}{{linear, []int{4, 2, 4}}, {failing, []int{4, 3}}, {failing, []int{3}}} {
		tel, _ := newTelemetry(t)
		with, without := train(tel, c.fn, c.sizes), train(nil, c.fn, c.sizes)
		if !slices.Equal(with.losses, without.losses) || with.err != without.err {
			t.Errorf("with telemetry %v\nwithout %v, want the same", with, without)
		}
	}
}

// TestDatasetsKeepTheirInterfaces checks that a wrapped dataset has the same
// optional interfaces as the dataset.
func TestDatasetsKeepTheirInterfaces(t *testing.T) {
	tel, _ := newTelemetry(t)
	run := gomlxspan.Attach(tel, newLoop(t, model.NewStore(), linear), nil)
	defer run.End(nil)
	d := &batches{}
	for _, ds := range []train.Dataset{d, struct {
		*batches
		short
	}{d, short{}}, struct {
		*batches
		spread
	}{d, spread{}}, struct {
		*batches
		short
		spread
	}{d, short{}, spread{}}} {
		got := run.Train(ds)
		_, short := ds.(train.HasShortName)
		_, gotShort := got.(train.HasShortName)
		_, spread := ds.(train.DistributedDataset)
		_, gotSpread := got.(train.DistributedDataset)
		if got == ds || short != gotShort || spread != gotSpread || got.Name() != ds.Name() {
			t.Errorf("%T wrapped: short %v, spread %v; want %v, %v, the same name and another value", ds, gotShort, gotSpread, short, spread)
		}
	}
}

type (
	short  struct{}
	spread struct{}
)

func (short) ShortName() string                      { return "s" }
func (spread) Strategy() distributed.Strategy        { return distributed.None }
func (spread) DeviceAssignment() []compute.DeviceNum { return nil }
func (spread) DistributedIter() iter.Seq2[train.DistributedBatch, error] {
	return func(func(train.DistributedBatch, error) bool) {}
}

// TestEvaluationBeforeTheFirstRun checks an evaluation of batches of several shapes before
// the loop runs.
func TestEvaluationBeforeTheFirstRun(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	_, err := loop.Trainer.Eval(run.Validation(&batches{sizes: []int{4, 4, 2}}))
	check(t, err)
	run.End(nil)
	tr := readTrace(t, tel, path)
	tr.want(map[string]int{"ai_root": 1, "evaluate": 1 + 3, "evaluate.iteration": 3, "fetch.iter": 4, "graph_compile": 2})
}

// TestEvaluationOfADatasetOfItsOwn checks that no graph is built for an evaluation whose
// batches are not known.
func TestEvaluationOfADatasetOfItsOwn(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	train.EveryNSteps(loop, 2, "evaluate", 0, func(loop *train.Loop, _ []*tensors.Tensor) error {
		_, err := loop.Trainer.Eval(&batches{sizes: []int{3}})
		return err
	})
	_, err := loop.RunSteps(run.Train(&batches{sizes: []int{4}, forever: true}), 5)
	check(t, err)
	_, err = loop.Trainer.Eval(run.Testing(&batches{sizes: []int{2}}))
	check(t, err)
	run.End(nil)
	var shapes []string
	for _, e := range readTrace(t, tel, path).events["graph_compile"] {
		shapes = append(shapes, arg(e, "graph")+" "+arg(e, "shapes"))
	}
	if want := []string{"train (Float32)[4, 2] (Float32)[4, 1]", "evaluate (Float32)[2, 2] (Float32)[2, 1]"}; !slices.Equal(shapes, want) {
		t.Errorf("compiled %q, want %q", shapes, want)
	}
}

// TestGraphsAreBuiltAgain checks that a discarded graph is compiled again, with
// a span.
func TestGraphsAreBuiltAgain(t *testing.T) {
	tel, path := newTelemetry(t)
	loop := newLoop(t, model.NewStore(), linear)
	run := gomlxspan.Attach(tel, loop, nil)
	loop.OnStep("reset", 0, func(loop *train.Loop, _ []*tensors.Tensor) error {
		if loop.LoopStep == 1 {
			loop.Trainer.ResetComputationGraphs()
		}
		return nil
	})
	_, err := loop.RunSteps(run.Train(&batches{sizes: []int{4}, forever: true}), 4)
	check(t, err)
	run.End(nil)
	if n := len(readTrace(t, tel, path).events["graph_compile"]); n != 2 {
		t.Errorf("%d graphs, want 2", n)
	}
}

func TestCheckpoints(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	for attempt, first := range []int{0, 4} {
		tel, path := newTelemetry(t)
		run := gomlxspan.Start(tel, nil)
		store := model.NewStore()
		handler, err := run.Load(checkpoint.Build(store).Dir(dir))
		check(t, err)
		loop := newLoop(t, store, linear)
		run.Attach(loop)
		train.EveryNSteps(loop, 2, "save", 100, run.Saver(handler).SaveOnStepFn)
		_, err = loop.RunToGlobalStep(run.Train(&batches{sizes: []int{4}, forever: true}), 4*(attempt+1))
		run.End(&err)
		check(t, err)
		tr := readTrace(t, tel, path)
		tr.want(map[string]int{"ai_root": 1, "restart": 1, "train": 1, "train.iteration": 4, "step": 4, "fetch.iter": 4, "capture": 2, "graph_compile": 1})
		if got := arg(tr.events["train"][0], "train_iterations_start"); got != fmt.Sprint(first) {
			t.Errorf("attempt %d starts at step %s, want %d", attempt, got, first)
		}
		if got := arg(tr.events["capture"][1], "current_iteration"); got != fmt.Sprint(first+4) {
			t.Errorf("last checkpoint is of step %s, want %d", got, first+4)
		}
		if tr.names[tr.events["capture"][0].Parent] != "train" {
			t.Errorf("the parent of a checkpoint is %s, want \"train\"", tr.names[tr.events["capture"][0].Parent])
		}
		var sizes []string
		for _, e := range dftest.Events(t, path) {
			if name, _ := e.Meta(); name == "save_checkpoint_success" {
				sizes = append(sizes, arg(e, "checkpoint_size"))
			}
		}
		if len(sizes) != 2 || sizes[0] == "" || sizes[0] == "0" {
			t.Errorf("sizes %v, want two above 0", sizes)
		}
	}
}

// TestWithoutApplicationOrTelemetry checks a program that records its application itself, and one
// that records nothing.
func TestWithoutApplicationOrTelemetry(t *testing.T) {
	tel, path := newTelemetry(t)
	err := tel.TimedSpan(context.Background(), "mine", func(ctx context.Context) error {
		loop := newLoop(t, model.NewStore(), linear)
		run := gomlxspan.Attach(tel, loop, &gomlxspan.Options{Context: ctx, NoApplication: true, Samples: func(train.Batch) int64 { return 99 }})
		_, err := loop.RunSteps(run.Train(&batches{sizes: []int{4}, forever: true}), 2)
		run.End(&err)
		return err
	})
	check(t, err)
	tr := readTrace(t, tel, path)
	if len(tr.events["ai_root"]) != 0 || tr.names[tr.events["train"][0].Parent] != "mine" {
		t.Errorf("parent of the loop is %s, want mine, without ai_root", tr.names[tr.events["train"][0].Parent])
	}
	var run *gomlxspan.Run
	run.Attach(nil)
	if ds := train.Dataset(&batches{}); run.Train(ds) != ds {
		t.Error("the dataset was wrapped without need")
	}
	if err := run.Stop("x"); !errors.Is(err, gomlxspan.ErrStopped) {
		t.Error(err)
	}
	run.End(nil)
}
