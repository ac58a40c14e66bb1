package gomlxspan_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
	"github.com/trainspan/trainspan/telemetry"
)

var errHook = errors.New("no space left on the device")

// TestEndings checks that the spans end however a loop ends, and have the
// reason.
func TestEndings(t *testing.T) {
	hookAt := func(step int, do func(run *gomlxspan.Run) error) func(*gomlxspan.Run, *train.Loop) {
		return func(run *gomlxspan.Run, loop *train.Loop) {
			loop.OnStep("test", 0, func(loop *train.Loop, _ []*tensors.Tensor) error {
				if loop.LoopStep == step {
					return do(run)
				}
				return nil
			})
		}
	}
	fails := func(*gomlxspan.Run) error { return errHook }
	stops := func(run *gomlxspan.Run) error { return run.Stop("good enough") }
	panics := func(*gomlxspan.Run) error { panic("hook") }
	none := func(*gomlxspan.Run, *train.Loop) {}
	for name, c := range map[string]struct {
		data           *batches
		epochs         bool
		hook           func(*gomlxspan.Run, *train.Loop)
		model          func(*model.Scope, *graph.Node) *graph.Node
		steps          int
		failed, epochF string // failed spans of RunSteps, and of RunEpochs
		panics         bool
		err            error
	}{
		"hook":          {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: hookAt(2, fails), steps: 3, failed: "ai_root train", epochF: "ai_root epoch.block train", err: errHook},
		"last hook":     {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: hookAt(3, fails), steps: 4, failed: "ai_root train", epochF: "ai_root epoch.block train", err: errHook},
		"early stop":    {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: hookAt(2, stops), steps: 3, err: gomlxspan.ErrStopped},
		"last stop":     {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: hookAt(3, stops), steps: 4, err: gomlxspan.ErrStopped},
		"panic":         {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: hookAt(1, panics), steps: 2, failed: "ai_root train", epochF: "ai_root epoch.block train", panics: true},
		"dataset":       {data: &batches{sizes: []int{4, 4}, fail: errHook}, hook: none, steps: 2, failed: "ai_root train", epochF: "ai_root epoch.block train", err: errHook},
		"dataset panic": {data: &batches{sizes: []int{4, 4}, panics: true}, hook: none, steps: 2, failed: "ai_root train", epochF: "ai_root epoch.block train", panics: true},
		"graph": {data: &batches{sizes: []int{4, 3}}, hook: none, steps: 1, model: noThree(errHook),
			failed: "ai_root graph_compile train train.iteration", epochF: "ai_root epoch.block graph_compile train train.iteration", err: errHook},
		"graph panic": {data: &batches{sizes: []int{4, 3}}, hook: none, steps: 1, model: noThree("three"), panics: true,
			failed: "ai_root graph_compile train train.iteration", epochF: "ai_root epoch.block graph_compile train train.iteration"},
		"not a number": {data: &batches{sizes: []int{4, 4, 4, 4}}, hook: none, steps: 1, failed: "ai_root train", epochF: "ai_root epoch.block train",
			model: func(s *model.Scope, x *graph.Node) *graph.Node {
				return graph.MulScalar(linear(s, x), math.Inf(1))
			}},
		"other start hook": {data: &batches{}, steps: 0, failed: "ai_root train", epochF: "ai_root train", err: errHook,
			hook: func(_ *gomlxspan.Run, loop *train.Loop) {
				loop.OnStart("test", 0, func(*train.Loop, train.Dataset) error { return errHook })
			}},
	} {
		for _, epochs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, epochs %v", name, epochs), func(t *testing.T) {
				tel, path := newTelemetry(t)
				fn := c.model
				if fn == nil {
					fn = linear
				}
				loop := newLoop(t, model.NewStore(), fn)
				data := *c.data
				panicked, err := runJob(tel, loop, &data, epochs, c.hook)
				if panicked != c.panics || c.err != nil && !errors.Is(err, c.err) || c.err == nil && !c.panics && err == nil {
					t.Errorf("panicked %v, error %v; want %v, %v", panicked, err, c.panics, c.err)
				}
				tr := readTrace(t, tel, path)
				want := c.failed
				if epochs {
					want = c.epochF
				}
				if got := tr.failures(); got != want {
					t.Errorf("failed: %q, want %q", got, want)
				}
				if n := len(tr.events["step"]); n != c.steps || len(tr.events["train"]) != 1 || len(tr.events["ai_root"]) != 1 {
					t.Errorf("%d steps, want %d; %d loops", n, c.steps, len(tr.events["train"]))
				}
				if stopped := len(tr.events["early_stop"]) == 1; stopped != errors.Is(c.err, gomlxspan.ErrStopped) {
					t.Errorf("early stop on record: %v, want %v", stopped, errors.Is(c.err, gomlxspan.ErrStopped))
				}
			})
		}
	}
}

// noThree returns a model whose graph cannot be built for a batch of three
// samples.
func noThree(panics any) func(*model.Scope, *graph.Node) *graph.Node {
	return func(s *model.Scope, x *graph.Node) *graph.Node {
		y := linear(s, x)
		if x.Shape().Dimensions[0] == 3 {
			panic(panics)
		}
		return y
	}
}

// runJob runs a program that ends its spans in deferred calls.
func runJob(tel *telemetry.Provider, loop *train.Loop, data train.Dataset, epochs bool, hook func(*gomlxspan.Run, *train.Loop)) (panicked bool, err error) {
	defer func() {
		panicked = recover() != nil
	}()
	run := gomlxspan.Attach(tel, loop, nil)
	defer run.End(&err)
	hook(run, loop)
	if epochs {
		_, err = loop.RunEpochs(run.Train(data), 2)
	} else {
		_, err = loop.RunSteps(run.Train(data), 4)
	}
	return false, err
}

// TestTooShort checks that the loop fails if the dataset has fewer batches than
// the requested steps.
func TestTooShort(t *testing.T) {
	tel, path := newTelemetry(t)
	_, err := runJob(tel, newLoop(t, model.NewStore(), linear), &batches{sizes: []int{4, 4}}, false, func(*gomlxspan.Run, *train.Loop) {})
	if err == nil {
		t.Error("the loop ended without an error, want one: the dataset is too short")
	}
	if got := readTrace(t, tel, path).failures(); got != "ai_root train" {
		t.Errorf("failed: %s, want \"ai_root train\"", got)
	}
}
