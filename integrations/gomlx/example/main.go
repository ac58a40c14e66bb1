// Example trains a small character-level model with GoMLX on Go source text. It
// records the training with evaluation, checkpoints and resuming.
//
//	go run ./example -out out -steps 200
//	go run ./example -out out -steps 400 # continues after the first run
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/config"
	gomlxspan "github.com/trainspan/trainspan/integrations/gomlx"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// options holds the flags.
type options struct {
	out, text         string
	steps, batch      int
	evaluate, save    int // steps between two
	context, features int
	stop              float64 // loss at which to stop early
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// run is the main function: a job with its telemetry.
func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("example", flag.ContinueOnError)
	f.StringVar(&o.out, "out", "out", "`directory` for checkpoints and telemetry")
	f.StringVar(&o.text, "text", "../../examples/charlm", "`directory` with Go files to train on; text is made up where it is missing")
	f.IntVar(&o.steps, "steps", 200, "train up to this step")
	f.IntVar(&o.batch, "batch", 64, "samples in a batch")
	f.IntVar(&o.evaluate, "evaluate-every", 100, "steps between evaluations")
	f.IntVar(&o.save, "save-every", 50, "steps between checkpoints")
	f.Float64Var(&o.stop, "stop-at", 0, "stop when the loss is below this")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.context, o.features = 16, 24
	// The session tag makes a resumed run the next attempt of the same job.
	tel, err := trainspan.Start(ctx, trainspan.WithConfig(config.Config{Base: config.Base{
		ApplicationName: "gomlx-example", SessionTag: config.Value(filepath.Base(o.out)),
		Training: &config.Training{PerfTag: config.Value("chars"), GlobalBatchSize: config.Value(o.batch)},
	}}), trainspan.WithDir(filepath.Join(o.out, "telemetry")))
	if err != nil {
		log.Print(err) // the training continues without telemetry
	}
	err = trainJob(tel, &o, out)
	return errors.Join(err, tel.Shutdown(ctx))
}

// trainJob trains the model.
func trainJob(tel *telemetry.Provider, o *options, out io.Writer) (err error) {
	run := gomlxspan.Start(tel, nil)
	defer run.End(&err)
	var text []byte
	err = tel.Run(run.Context(), spans.DataLoaderInit, func(ctx context.Context) (err error) {
		text, err = readText(iofs.New(tel).With(ctx), o.text)
		return err
	})
	if err != nil {
		return err
	}
	learn, valid := newTexts(text, o)
	backend, err := gobackend.New("")
	if err != nil {
		return err
	}
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(1))
	handler, err := run.Load(checkpoint.Build(store).Dir(filepath.Join(o.out, "checkpoints")).Keep(2))
	if err != nil {
		return err
	}
	trainer := train.NewTrainer(backend, store, o.model, loss.SparseCategoricalCrossEntropyLogits,
		optimizer.Adam().LearningRate(0.003).Done(), nil, nil)
	loop := train.NewLoop(trainer)

	// snippet:attach
	run.Attach(loop)
	saver := run.Saver(handler)
	train.EveryNSteps(loop, o.save, "checkpoint", 100, saver.SaveOnStepFn)
	train.EveryNSteps(loop, o.evaluate, "evaluate", 10, func(loop *train.Loop, _ []*tensors.Tensor) error {
		metrics, err := trainer.Eval(run.Validation(valid))
		if err != nil {
			return err
		}
		low := tensors.ToScalar[float32](metrics[0])
		fmt.Fprintf(out, "step %d: validation loss %.3f\n", loop.LoopStep+1, low)
		if float64(low) < o.stop {
			return run.Stop("the validation loss is low enough")
		}
		return nil
	})
	_, err = loop.RunToGlobalStep(run.Train(learn), o.steps)
	// end:attach
	if err != nil && !errors.Is(err, gomlxspan.ErrStopped) {
		return err
	}
	fmt.Fprintf(out, "step %d\n", trainer.GlobalStep())
	return nil
}

// model predicts the next character: an embedding and two layers.
func (o *options) model(scope *model.Scope, chars *graph.Node) *graph.Node {
	x := layers.Embedding(scope.In("embedding"), chars, dtypes.Float32, vocabulary, o.features)
	x = graph.Reshape(x, x.Shape().Dimensions[0], -1)
	x = activation.Apply(activation.TypeTanh, layers.DenseWithBias(scope.In("hidden"), x, 64))
	return layers.DenseWithBias(scope.In("output"), x, vocabulary)
}
