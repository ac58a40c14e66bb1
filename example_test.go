package trainspan_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/spans"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx := context.Background()
	tel, err := trainspan.Start(ctx,
		trainspan.WithName("charlm"),
		trainspan.WithTraining(config.Training{GlobalBatchSize: config.Value(32)}),
		trainspan.WithDir(dir),
		trainspan.WithOutput(file.New(filepath.Join(dir, "own.jsonl"), nil)), // in addition to those of the environment
		trainspan.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err) // the training goes on without telemetry
	}
	ctx, app := tel.Start(ctx, spans.Application)
	_, step := tel.Start(ctx, spans.TrainingIteration)
	step.SetLoss(1.5) // the training goes here
	step.End()
	app.End()
	if err := tel.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	fmt.Println(err)
	// Output:
	// own.jsonl
	// telemetry.jsonl
	// trace.pfw.gz
	// <nil>
}
