package main

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
)

// beginTraining starts the progress report.
func (t *trainer) beginTraining() {
	t.report.begin(t.pos.Step, int64(t.opts.epochs)*int64(t.stepsPerEpoch))
}

// endTraining ends the progress report and the workers of an incomplete epoch.
func (t *trainer) endTraining() {
	t.report.end()
	t.batches.Close()
	t.batches = nil
}

// startEpoch starts the workers that read the rest of the current epoch.
func (t *trainer) startEpoch(ctx context.Context) {
	t.batches = t.train.Epoch(ctx, t.pos.Epoch, t.pos.Batch, t.stepsPerEpoch-t.pos.Batch)
}

// epochGoesOn reports whether the epoch has steps left and the job is not asked
// to stop.
func (t *trainer) epochGoesOn() bool {
	return t.pos.Batch < t.stepsPerEpoch && !t.stopping()
}

// endEpoch stops the workers and, if the epoch is complete, moves on to the
// next one.
func (t *trainer) endEpoch() {
	t.batches.Close()
	t.batches = nil
	t.turnEpoch()
}

func (t *trainer) turnEpoch() {
	if t.pos.Batch >= t.stepsPerEpoch {
		t.pos.Epoch++
		t.pos.Batch = 0
	}
}

// nextBatch waits for the next batch of the epoch; io.EOF is its end.
func (t *trainer) nextBatch(ctx context.Context) (data.Batch, error) {
	return t.batches.Next(ctx)
}

// batchesLeft returns the batches for the remaining steps of the epoch, until
// the job is asked to stop. failure returns afterwards the error that ended it
// early.
func (t *trainer) batchesLeft(ctx context.Context) (batches iter.Seq[data.Batch], failure func() error) {
	var err error
	batches = func(yield func(data.Batch) bool) {
		for t.epochGoesOn() {
			t.tel.Progress().SetStep(t.pos.Step) // the wait belongs to the step of the batch
			var batch data.Batch
			if batch, err = t.nextBatch(ctx); err != nil || !yield(batch) {
				return
			}
		}
	}
	return batches, func() error { return err }
}

// transfer copies each replica's share of the batch into its own memory.
func (t *trainer) transfer(_ context.Context, b data.Batch) error {
	if b.Rows < t.opts.replicas {
		return fmt.Errorf("a batch of %d samples for %d replicas", b.Rows, t.opts.replicas)
	}
	t.rows = b.Rows
	return t.each(func(rank int) error {
		r := t.replicas[rank]
		lo, hi := t.share(rank, b.Rows)
		r.inputs = append(r.inputs[:0], b.Inputs[lo*t.opts.context:hi*t.opts.context]...)
		r.targets = append(r.targets[:0], b.Targets[lo:hi]...)
		return nil
	})
}

// forward returns the mean loss of the transferred batch, in nats per character.
func (t *trainer) forward(context.Context) (float64, error) {
	err := t.each(func(rank int) (err error) {
		r := t.replicas[rank]
		r.loss, err = r.net.Forward(r.inputs, r.targets)
		return err
	})
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, r := range t.replicas {
		sum += r.loss
	}
	loss := sum / float64(t.rows)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, fmt.Errorf("the loss is %g at step %d: try a smaller -lr", loss, t.pos.Step)
	}
	return loss, nil
}

// zeroGrad resets the gradients of the previous step.
func (t *trainer) zeroGrad(context.Context) error {
	return t.each(func(rank int) error {
		t.replicas[rank].net.ZeroGrad()
		return nil
	})
}

// backward computes each replica's share of the mean's gradient, so that their
// sum is the gradient of the whole batch.
func (t *trainer) backward(context.Context) error {
	return t.each(func(rank int) error {
		t.replicas[rank].net.Backward(1 / float32(t.rows))
		return nil
	})
}

// allReduce sums the gradients over the replicas.
func (t *trainer) allReduce(context.Context) error {
	return t.each(func(rank int) error {
		return t.group.AllReduceSum(rank, t.replicas[rank].net.Grads())
	})
}

// optimizerStep applies the same gradient to every replica, so all stay equal.
func (t *trainer) optimizerStep(context.Context) error {
	return t.each(func(rank int) error {
		r := t.replicas[rank]
		return r.adam.Update(r.net.Params(), r.net.Grads())
	})
}

// finishStep counts the step and reports its loss.
func (t *trainer) finishStep(loss float64) {
	t.pos.Batch++
	t.pos.Step++
	t.report.step(t.pos, loss, t.rows)
}
