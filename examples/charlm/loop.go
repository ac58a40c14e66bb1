package main

import "context"

// styles are the variants of the training loop, by the name -style gives.
var styles = map[string]func(context.Context, *trainer) error{
	"none":      runPlain,
	"callbacks": runCallbacks,
	"scopes":    runScopes,
	"mixed":     runMixed,
}

// runPlain is the job with nothing recorded: the measure of what recording
// costs.
func runPlain(ctx context.Context, t *trainer) error {
	for _, phase := range []func(context.Context) error{t.initDistributed, t.prepareData, t.initModel, t.initOptimizer} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	if err := t.loadCheckpoint(ctx); err != nil {
		return err
	}
	t.beginTraining()
	for t.pos.Epoch < t.opts.epochs && !t.stopping() {
		if err := epochPlain(ctx, t); err != nil {
			return err
		}
	}
	t.endTraining()
	if t.finalSaveDue() {
		if _, err := t.saveSync(ctx); err != nil {
			return err
		}
	}
	if t.stopping() {
		return nil
	}
	return testPlain(ctx, t)
}

// epochPlain trains to the end of the epoch, or to the step in which the job is
// asked to stop.
func epochPlain(ctx context.Context, t *trainer) error {
	t.startEpoch(ctx)
	defer t.endEpoch()
	for t.epochGoesOn() {
		batch, err := t.nextBatch(ctx)
		if err != nil {
			return err
		}
		if err := t.transfer(ctx, batch); err != nil {
			return err
		}
		loss, err := t.forward(ctx)
		if err != nil {
			return err
		}
		for _, phase := range []func(context.Context) error{t.zeroGrad, t.backward, t.allReduce, t.optimizerStep} {
			if err := phase(ctx); err != nil {
				return err
			}
		}
		t.finishStep(loss)
		if t.validationDue() {
			if err := validatePlain(ctx, t); err != nil {
				return err
			}
		}
		if t.checkpointDue() {
			if err := savePlain(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func validatePlain(ctx context.Context, t *trainer) error {
	var losses []float64
	for batch, err := range t.validationBatches(ctx) {
		if err != nil {
			return err
		}
		loss, err := t.validateBatch(ctx, batch)
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	t.finishValidation(losses)
	return nil
}

func savePlain(ctx context.Context, t *trainer) error {
	if t.opts.asyncCheckpoint {
		return t.saveAsync(ctx, nil)
	}
	_, err := t.saveSync(ctx)
	return err
}

func testPlain(ctx context.Context, t *trainer) error {
	var losses []float64
	for batch, err := range t.testBatches(ctx) {
		if err != nil {
			return err
		}
		loss, err := t.testBatch(ctx, batch)
		if err != nil {
			return err
		}
		losses = append(losses, loss)
	}
	t.finishTest(losses)
	return nil
}
