package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/trainspan/trainspan/ai"
)

// categories are what -disable can name.
func categories(t *ai.Tree) map[string]*ai.Node {
	return map[string]*ai.Node{
		"all": t.Root, "compute": t.Compute.Node, "data": t.Data.Node, "dataloader": t.DataLoader.Node,
		"comm": t.Comm.Node, "device": t.Device.Node, "checkpoint": t.Checkpoint.Node, "ckpt": t.Checkpoint.Node,
		"pipeline": t.Pipeline.Node,
	}
}

func categoryNames() []string {
	return []string{"checkpoint", "comm", "compute", "data", "dataloader", "device", "pipeline"}
}

func disable(t *ai.Tree, name string) error {
	if name == "" {
		return nil
	}
	node, ok := categories(t)[name]
	if !ok {
		return fmt.Errorf("-disable %s: no such category", name)
	}
	node.Disable()
	return nil
}

// width is the number of weights.
const width = 256

// job is a linear model that learns to say 1 to everything.
type job struct {
	ai      *ai.Tree
	opts    options
	dir     string
	weights []float64
	loss    float64

	collate *ai.Node
	reduce  *ai.Node
	forward func(context.Context, []float64) (float64, error)
}

// newJob makes the data and the model.
func newJob(t *ai.Tree, o options, dir string) (*job, error) {
	j := &job{
		ai: t, opts: o, dir: dir, weights: make([]float64, width),
		collate: t.Data.Preprocess.Derive("collate"),
		reduce:  t.Comm.AllReduce.ForceOff(), // there is one rank only
	}
	j.forward = ai.WrapCall(t.Compute.Forward, j.predict)
	for i := range o.files {
		data := make([]byte, 0, 8*width)
		for k := range width {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(math.Sin(float64(i*width+k))))
		}
		if err := os.WriteFile(j.file(i), data, 0o600); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func (j *job) file(i int) string { return filepath.Join(j.dir, fmt.Sprintf("data-%d.bin", i)) }

func (j *job) checkpoint() string { return filepath.Join(j.dir, "weights.bin") }

// main is the program: checkpoints around the training.
func (j *job) main(ctx context.Context) error {
	ctx, train := j.ai.Pipeline.Train.StartContext(ctx)
	defer train.End()
	if err := j.ai.Checkpoint.Init().Do(ctx, j.save); err != nil {
		return err
	}
	if err := j.ai.Checkpoint.Restart.Do(ctx, j.restore); err != nil {
		return err
	}
	var err error
	if j.opts.metadata {
		err = j.epochsAsMetadata(ctx)
	} else {
		err = j.epochs(ctx)
	}
	if err != nil {
		return err
	}
	return j.ai.Checkpoint.Capture.Do(ctx, j.save)
}

func (j *job) epochs(ctx context.Context) error {
	for epoch := range j.ai.Pipeline.Epoch.Range(ctx, j.opts.epochs) {
		if err := j.epoch(ctx, epoch); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) epochsAsMetadata(ctx context.Context) error {
	for epoch := range j.opts.epochs {
		j.ai.Pipeline.Epoch.NoteStart(ctx)
		if err := j.epoch(ctx, epoch); err != nil {
			return err
		}
		j.ai.Pipeline.Epoch.NoteEnd(ctx)
	}
	return nil
}

func (j *job) epoch(ctx context.Context, epoch int) error {
	var step int
	var failed error
	batches := ai.Wrap(j.ai.DataLoader.Fetch, j.batches)(ctx, &failed)
	for batch := range ai.Iter(ctx, j.ai.DataLoader.Fetch, batches) {
		if err := j.step(ctx, batch); err != nil {
			return err
		}
		j.ai.Root.Update(ai.Epoch(epoch), ai.Step(step))
		step++
	}
	return failed
}

// batches returns the files one by one. Its call is the event "fetch".
func (j *job) batches(ctx context.Context, failed *error) iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		for i := range j.opts.files {
			batch, err := j.item(ctx, i)
			if err != nil {
				*failed = err
				return
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// item reads a file.
func (j *job) item(ctx context.Context, i int) ([]float64, error) {
	defer j.ai.Data.Item.Start(ctx).End()
	return readFloats(j.file(i))
}

func readFloats(path string) ([]float64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(data)/8)
	for k := range list {
		list[k] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*k:]))
	}
	return list, nil
}

// step is one training step on a batch. The node step brackets it from hooks, as
// a framework would call them.
func (j *job) step(ctx context.Context, batch []float64) (err error) {
	j.ai.Compute.Step.Begin(ctx)
	defer j.ai.Compute.Step.StopErr(ctx, &err)

	scope := j.collate.Start(ctx)
	batch = slices.Clone(batch)
	scope.End()

	scope = j.ai.Device.Transfer.Start(ctx)
	copied := append(make([]float64, 0, len(batch)), batch...)
	scope.End()

	return j.ai.Compute.Do(ctx, func(ctx context.Context) error {
		residual, err := j.forward(ctx, copied)
		if err != nil {
			return err
		}
		j.loss = residual * residual
		for k, g := range j.backward(ctx, copied, residual) {
			j.weights[k] -= 0.001 * g
		}
		return nil
	})
}

// predict is the forward pass: how far the prediction is off.
func (j *job) predict(_ context.Context, batch []float64) (float64, error) {
	if len(batch) != width {
		return 0, fmt.Errorf("a batch has %d numbers, not %d", len(batch), width)
	}
	const want = 1
	var got float64
	for k, x := range batch {
		got += j.weights[k] * x
	}
	return got - want, nil
}

func (j *job) backward(ctx context.Context, batch []float64, residual float64) []float64 {
	ctx, scope := j.ai.Compute.Backward.StartContext(ctx)
	defer scope.End()
	defer j.reduce.Start(ctx).End()
	gradient := make([]float64, width)
	for k, x := range batch {
		gradient[k] = 2 * residual * x
	}
	return gradient
}

func (j *job) save(context.Context) error {
	data := make([]byte, 0, 8*width)
	for _, w := range j.weights {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(w))
	}
	return os.WriteFile(j.checkpoint(), data, 0o600)
}

func (j *job) restore(context.Context) error {
	weights, err := readFloats(j.checkpoint())
	if err == nil {
		j.weights = weights
	}
	return err
}
