// First fits one number by gradient descent and records it. It is the README's
// first program: the environment or a configuration file may set its outputs.
package main

import (
	"context"
	"log"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/spans"
)

func main() {
	ctx := context.Background()
	tel, err := trainspan.Start(ctx)
	if err != nil {
		log.Print(err) // the training continues without telemetry
	}
	defer tel.Shutdown(ctx)

	ctx, app := tel.Start(ctx, spans.Application)
	defer app.End()
	ctx, loop := tel.Start(ctx, spans.TrainingLoop)
	defer loop.End()
	weight := 0.0
	for range 200 {
		ctx, step := tel.Start(ctx, spans.TrainingIteration)
		_, forward := tel.Start(ctx, spans.ModelForward)
		loss, slope := measure(weight)
		forward.End()
		_, update := tel.Start(ctx, spans.OptimizerUpdate)
		weight -= 0.1 * slope
		update.End()
		step.SetLoss(loss)
		step.End()
	}
}

// measure returns the loss of weight and its slope, over samples of x and 3x.
// Put your model here.
func measure(weight float64) (loss, slope float64) {
	const samples = 300_000
	for i := range samples {
		x := float64(i%100) / 100
		miss := weight*x - 3*x
		loss += miss * miss / samples
		slope += 2 * miss * x / samples
	}
	return loss, slope
}
