package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"github.com/trainspan/trainspan/examples/charlm/internal/model"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

const rows = 32 // samples of a rank in a step

// worker is one rank.
type worker struct {
	o           *options
	rank, world int
	tel         *telemetry.Provider
	reduce      *reducer
	net         *model.Net[float32]
	adam        *model.Adam
	loader      *data.Loader
	store       *checkpoint.Store
	run         checkpoint.Run
	step        int
}

func work(ctx context.Context, o *options) error {
	w := &worker{o: o}
	var err error
	if w.rank, err = strconv.Atoi(os.Getenv("RANK")); err != nil {
		return err
	}
	if w.world, err = strconv.Atoi(os.Getenv("WORLD_SIZE")); err != nil {
		return err
	}
	training := config.Training{GlobalBatchSize: config.Value(rows * w.world), MicroBatchSize: config.Value(rows)}
	if w.tel, err = trainspan.Start(ctx, trainspan.WithName("charlm-ranks"), trainspan.WithTraining(training)); err != nil {
		fmt.Fprintln(os.Stderr, "no telemetry:", err) // the training continues
	}
	err = w.tel.Run(ctx, spans.Application, w.train)
	return errors.Join(err, w.tel.Shutdown(ctx))
}

func (w *worker) train(ctx context.Context) error {
	for _, phase := range []struct {
		span string
		do   func(context.Context) error
	}{
		{spans.DistributedInit, w.connect}, {spans.DataLoaderInit, w.openData}, {spans.ModelInit, w.makeModel}, {spans.CheckpointLoad, w.load},
	} {
		if err := w.tel.Run(ctx, phase.span, phase.do); err != nil {
			return err
		}
	}
	defer w.reduce.close() //nolint:errcheck // the process ends
	return w.tel.Run(ctx, spans.TrainingLoop, func(ctx context.Context) error {
		batches := w.loader.Epoch(ctx, 0, w.step*w.world, (w.o.steps-w.step)*w.world)
		defer batches.Close()
		for w.step < w.o.steps {
			if err := w.tel.Run(ctx, spans.TrainingIteration, func(ctx context.Context) error { return w.iterate(ctx, batches) }); err != nil {
				return err
			}
			w.step++
			fmt.Println("step", w.step)
			if w.rank == 0 && w.step%w.o.save == 0 {
				if err := w.tel.Run(ctx, spans.CheckpointSave, w.save, telemetry.SaveStart{GlobalStep: w.step}); err != nil {
					return err
				}
			}
		}
		return nil
	}, telemetry.LoopStart{IterationsStart: w.step, IterationsTarget: config.Value(w.o.steps)})
}

func (w *worker) connect(context.Context) error {
	var listener net.Listener
	if w.rank == 0 {
		var err error
		if listener, err = net.FileListener(os.NewFile(3, "listener")); err != nil {
			return err
		}
		defer listener.Close() //nolint:errcheck // all have joined
	}
	var err error
	w.reduce, err = join(w.rank, w.world, listener, w.o.address)
	return err
}

func (w *worker) openData(ctx context.Context) error {
	root := w.o.text
	if root == "" {
		var err error
		if root, err = data.FindText(ctx); err != nil {
			return err
		}
	}
	shape := w.shape()
	corpus, err := data.Open(ctx, root, 1, int64(shape.Context)+1)
	if err != nil {
		return err
	}
	w.run = checkpoint.Run{Model: shape, Seed: 1, BatchSize: rows * w.world, StepsPerEpoch: w.o.steps, Data: corpus.Fingerprint}
	w.loader, err = data.NewLoader(data.LoaderConfig{Pieces: corpus.Train, Rows: rows, Context: shape.Context, Workers: 1, Seed: 1})
	return err
}

func (w *worker) shape() model.Config {
	return model.Config{Vocab: data.Vocab, Context: 10, Embed: 16, Hidden: 64, Layers: 1}
}

func (w *worker) makeModel(context.Context) error {
	var err error
	if w.net, err = model.New[float32](w.shape(), rows); err != nil {
		return err
	}
	w.net.Init(1)
	w.adam = model.NewAdam(len(w.net.Params()), 0.002)
	return nil
}

func (w *worker) load(context.Context) error {
	var err error
	if w.store, err = checkpoint.Open(filepath.Join(w.o.out, "checkpoints"), 3); err != nil || !w.o.resuming {
		return err
	}
	state, path, _, err := w.store.LoadNewest()
	if err != nil || state == nil {
		return errors.Join(err, fmt.Errorf("%s holds no checkpoint to resume from", w.store.Dir()))
	}
	if state.Run != w.run {
		return fmt.Errorf("%s is of another run", path)
	}
	copy(w.net.Params(), state.Params)
	copy(w.adam.M, state.M)
	copy(w.adam.V, state.V)
	w.adam.Step, w.step = state.AdamStep, int(state.Step)
	return nil
}

func (w *worker) save(context.Context) error {
	_, err := w.store.Save(&checkpoint.State{
		Run: w.run, Position: checkpoint.Position{Batch: w.step, Step: int64(w.step)}, AdamStep: w.adam.Step, LR: w.adam.LR,
		Params: w.net.Params(), M: w.adam.M, V: w.adam.V,
	})
	return err
}

func (w *worker) iterate(ctx context.Context, batches *data.Iterator) error {
	var batch data.Batch
	err := w.tel.Run(ctx, spans.DataLoading, func(ctx context.Context) error {
		if w.rank == w.o.slow {
			time.Sleep(w.o.delay) // the fault
		}
		for i := range w.world { // each rank takes its share
			b, err := batches.Next(ctx)
			if err != nil {
				return err
			}
			if i == w.rank {
				batch = b
				batch.Inputs, batch.Targets = slices.Clone(b.Inputs), slices.Clone(b.Targets)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, forward := w.tel.Start(ctx, spans.ModelForward)
	loss, err := w.net.Forward(batch.Inputs, batch.Targets)
	forward.EndErr(&err)
	if err != nil {
		return err
	}
	_, backward := w.tel.Start(ctx, spans.ModelBackward)
	w.net.ZeroGrad()
	w.net.Backward(1 / float32(batch.Rows*w.world))
	backward.End()

	reduce := ai.Comm.AllReduce.Start(ctx)
	err = w.reduce.sum(w.net.Grads())
	reduce.EndErr(&err)
	if err != nil {
		return err
	}
	_, update := w.tel.Start(ctx, spans.OptimizerUpdate)
	err = w.adam.Update(w.net.Params(), w.net.Grads())
	update.EndErr(&err)
	telemetry.FromContext(ctx).SetLoss(loss / float64(batch.Rows))
	return err
}
