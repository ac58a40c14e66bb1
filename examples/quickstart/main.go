// Quickstart records a training loop of ten steps in a trace and a JSON-lines
// file, with every part chosen by the program.
package main

import (
	"context"
	"log"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

func main() {
	ctx := context.Background()
	// snippet:builder
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "quickstart", SessionTag: config.Value("first"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("none"), GlobalBatchSize: config.Value(32)}).
		WithExporter(file.New("telemetry.jsonl", nil)).
		WithExporter(pfw.New("trace.pfw.gz", nil)).
		ConfigureProvider(ctx)
	// end:builder
	if err != nil {
		log.Fatal(err)
	}
	defer tel.Shutdown(ctx)
	ctx, app := tel.Start(ctx, spans.Application)
	defer app.End()
	ctx, loop := tel.Start(ctx, spans.TrainingLoop, telemetry.LoopStart{IterationsStart: 0})
	defer loop.End()
	for i := range 10 {
		_, step := tel.Start(ctx, spans.TrainingIteration)
		step.SetLoss(1 / float64(i+1)) // your training goes here
		step.End()
	}
}
