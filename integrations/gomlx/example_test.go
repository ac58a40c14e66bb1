package gomlxspan_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
	"github.com/trainspan/trainspan/telemetry"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx, path := context.Background(), filepath.Join(dir, "trace.pfw")
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "sums", Training: &config.Training{GlobalBatchSize: config.Value(4)}}).
		WithExporter(pfw.New(path, nil)).
		ConfigureProvider(ctx)
	if err != nil {
		panic(err)
	}
	backend, err := gobackend.New("")
	if err != nil {
		panic(err)
	}
	loop := train.NewLoop(train.NewTrainer(backend, model.NewStore(), linear, loss.MeanSquaredError,
		optimizer.StochasticGradientDescent().Done(), nil, nil))

	run := gomlxspan.Attach(tel, loop, nil)
	_, err = loop.RunSteps(run.Train(&batches{sizes: []int{4}, forever: true}), 5)
	run.End(&err)
	fmt.Println(err, tel.Shutdown(ctx))

	trace, err := dftracer.ValidateFile(path, nil)
	fmt.Println(trace.Counts["pipeline/train.iteration/X"], "steps", trace.OK(), err)
	// Output:
	// <nil> <nil>
	// 5 steps true <nil>
}
