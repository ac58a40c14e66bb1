// First records a training loop of ten steps. It is the README's first program:
// where it writes is said by the environment, a configuration file, or nobody.
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
		log.Print(err) // the training goes on without telemetry
	}
	defer tel.Shutdown(ctx)

	ctx, app := tel.Start(ctx, spans.Application)
	defer app.End()
	ctx, loop := tel.Start(ctx, spans.TrainingLoop)
	defer loop.End()
	for i := range 10 {
		_, step := tel.Start(ctx, spans.TrainingIteration)
		step.SetLoss(1 / float64(i+1)) // your training goes here
		step.End()
	}
}
