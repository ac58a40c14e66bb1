package main

import (
	"context"
	"iter"
	"math"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
)

// validationDue reports, after a step, whether a validation is due.
func (t *trainer) validationDue() bool {
	if t.opts.validateSteps == 0 {
		return false
	}
	if t.opts.validateEvery == 0 {
		return t.pos.Batch == t.stepsPerEpoch
	}
	return t.pos.Step%int64(t.opts.validateEvery) == 0
}

// lossOf returns the mean loss of one batch without learning from it.
func (t *trainer) lossOf(ctx context.Context, b data.Batch) (float64, error) {
	if err := t.transfer(ctx, b); err != nil {
		return 0, err
	}
	return t.forward(ctx)
}

// finishValidation reports the mean of the batch losses.
func (t *trainer) finishValidation(losses []float64) {
	t.report.line("step %d: validation loss %.4f", t.pos.Step, mean(losses))
}

// finishTest reports the mean loss and its meaning.
func (t *trainer) finishTest(losses []float64) {
	loss := mean(losses)
	t.report.line("test: loss %.4f, %.2f bits per character, perplexity %.2f", loss, loss/math.Ln2, math.Exp(loss))
}

// firstBatches ranges over the first batches of a loader, which are the same at
// each call, and closes it at the end of the loop, also on an early exit.
func firstBatches(ctx context.Context, l *data.Loader, count int) iter.Seq2[data.Batch, error] {
	return func(yield func(data.Batch, error) bool) {
		it := l.Epoch(ctx, 0, 0, count)
		defer it.Close()
		it.All(ctx)(yield)
	}
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}
