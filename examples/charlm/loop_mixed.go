package main

import (
	"context"
	"errors"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// runMixed is the job with scopes around its phases, the nodes of package ai in
// the loop that runs for every batch, and a plain OpenTelemetry span among
// them: all nest in each other.
func runMixed(ctx context.Context, t *trainer) error {
	return t.tel.Run(ctx, spans.Application, func(ctx context.Context) error {
		return errors.Join(jobScopes(ctx, t, epochMixed), t.close())
	})
}

func epochMixed(ctx context.Context, t *trainer) error {
	t.startEpoch(ctx)
	defer t.endEpoch()
	device := t.tel.Tracer("charlm/device") // plain OpenTelemetry
	batches, failure := t.batchesLeft(ctx)
	// snippet:mixed
	for batch := range ai.Iter(ctx, ai.DataLoader.Fetch, batches, &ai.IterOptions{NoBlock: true}) {
		var loss float64
		err := t.tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error {
			_, transfer := device.Start(ctx, "transfer")
			err := t.transfer(ctx, batch)
			transfer.End()
			if err != nil {
				return err
			}
			forward := ai.Compute.Forward.Start(ctx)
			loss, err = t.forward(ctx)
			forward.EndErr(&err)
			if err != nil {
				return err
			}
			telemetry.FromContext(ctx).SetLoss(loss)
			return learnMixed(ctx, t)
		})
		// end:mixed
		if err != nil {
			return err
		}
		t.finishStep(loss)
		if err := betweenStepsScopes(ctx, t); err != nil {
			return err
		}
	}
	return failure()
}

var zeroGrad = ai.Compute.Step.Derive("zero_grad")

func learnMixed(ctx context.Context, t *trainer) error {
	if err := zeroGrad.Do(ctx, t.zeroGrad); err != nil {
		return err
	}
	if err := ai.Compute.Backward.Do(ctx, t.backward); err != nil {
		return err
	}
	if err := ai.Comm.AllReduce.Do(ctx, t.allReduce); err != nil {
		return err
	}
	return ai.Compute.Step.Do(ctx, t.optimizerStep)
}
