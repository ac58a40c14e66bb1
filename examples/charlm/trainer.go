package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/comm"
	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"github.com/trainspan/trainspan/examples/charlm/internal/model"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/telemetry"
)

// trainer is one training job. Each of its phases is a method; loop.go calls
// them in order, from one goroutine, and records them.
type trainer struct {
	opts   options
	stop   <-chan struct{} // closed to ask the job to end after the step
	report *reporter
	tel    *telemetry.Provider // nil if nothing is recorded

	group    *comm.Group
	replicas []*replica

	corpus             *data.Corpus
	train, valid, test *data.Loader
	stepsPerEpoch      int
	batches            *data.Iterator // of the current epoch
	rows               int            // samples of the batch that was transferred last
	lastSaved          int64          // step

	store  *checkpoint.Store
	writer *checkpoint.Writer // nil until the first background save
	pos    checkpoint.Position
}

// replica is one worker of the data-parallel job: its own copy of the weights,
// its own optimizer, its share of every batch.
type replica struct {
	rank            int
	net             *model.Net[float32]
	adam            *model.Adam
	inputs, targets []uint8 // the share of the batch, in the replica's own memory
	loss            float64 // summed over the share
}

func newTrainer(opts options, report *reporter, stop <-chan struct{}) *trainer {
	return &trainer{opts: opts, report: report, stop: stop}
}

// initDistributed connects the replicas and waits for all of them.
func (t *trainer) initDistributed(context.Context) error {
	var err error
	if t.group, err = comm.NewGroup(t.opts.replicas); err != nil {
		return err
	}
	t.replicas = make([]*replica, t.opts.replicas)
	return t.each(func(rank int) error {
		t.replicas[rank] = &replica{rank: rank}
		t.group.Barrier()
		return nil
	})
}

// prepareData finds and splits the text and makes the three loaders.
func (t *trainer) prepareData(ctx context.Context) error {
	o := &t.opts
	root := o.text
	if root == "" {
		var err error
		if root, err = data.FindText(ctx); err != nil {
			return err
		}
	}
	var err error
	if t.corpus, err = data.Open(ctx, root, o.seed, int64(o.context)+1); err != nil {
		return err
	}
	files := iofs.New(t.tel)
	loader := func(pieces []data.Piece, seed uint64) *data.Loader {
		l, e := data.NewLoader(data.LoaderConfig{Pieces: pieces, Rows: o.batch, Context: o.context, Workers: o.workers, Seed: seed, Files: files})
		err = errors.Join(err, e)
		return l
	}
	t.train, t.valid, t.test = loader(t.corpus.Train, o.seed), loader(t.corpus.Validation, o.seed+1), loader(t.corpus.Test, o.seed+2)
	if err != nil {
		return err
	}
	if t.stepsPerEpoch = o.steps; o.steps == 0 {
		t.stepsPerEpoch = t.train.PassLength()
	}
	t.report.line("text: %s, %d pieces and %.1f MB to train, %d to validate, %d to test", root,
		len(t.corpus.Train), float64(data.Bytes(t.corpus.Train))/1e6, len(t.corpus.Validation), len(t.corpus.Test))
	return nil
}

// initModel gives every replica the same weights, and memory for its share of a
// batch.
func (t *trainer) initModel(context.Context) error {
	cfg := t.opts.modelConfig()
	err := t.each(func(rank int) error {
		r := t.replicas[rank]
		lo, hi := t.share(rank, t.opts.batch)
		var err error
		if r.net, err = model.New[float32](cfg, hi-lo); err != nil {
			return err
		}
		r.net.Init(t.opts.seed)
		r.inputs = make([]uint8, 0, (hi-lo)*cfg.Context)
		r.targets = make([]uint8, 0, hi-lo)
		return nil
	})
	if err != nil {
		return err
	}
	t.report.line("model: %d weights, %.2f MFLOP per sample, %d replicas of %d samples",
		cfg.NumParams(), float64(cfg.FLOPsPerSample())/1e6, t.opts.replicas, t.opts.batch/t.opts.replicas)
	return nil
}

// initOptimizer gives every replica a new Adam.
func (t *trainer) initOptimizer(context.Context) error {
	for _, r := range t.replicas {
		r.adam = model.NewAdam(len(r.net.Params()), t.opts.lr)
	}
	return nil
}

// loadCheckpoint opens the checkpoint directory and, with -resume, continues
// from its newest valid file.
func (t *trainer) loadCheckpoint(context.Context) (err error) {
	if t.store, err = checkpoint.Open(filepath.Join(t.opts.out, "checkpoints"), t.opts.keep); err != nil {
		return err
	}
	if !t.opts.resume {
		return t.startFresh()
	}
	state, path, skipped, err := t.store.LoadNewest()
	if err != nil {
		return err
	}
	for _, damaged := range skipped {
		t.report.line("passed over: %v", damaged)
	}
	if state == nil {
		t.report.line("nothing to resume in %s, starting anew", t.store.Dir())
		return nil
	}
	if err := t.restore(state); err != nil {
		return fmt.Errorf("resume from %s: %w", path, err)
	}
	t.report.line("resumed from %s: step %d, %d epochs done", path, t.pos.Step, t.pos.Epoch)
	return nil
}

// startFresh prepares the directory for a new run. It removes the checkpoints of
// an earlier run if the flag -fresh is set, and otherwise returns an error if
// there are any.
func (t *trainer) startFresh() error {
	if t.opts.fresh {
		return t.store.Clear()
	}
	paths, err := t.store.Paths()
	if err == nil && len(paths) > 0 {
		err = fmt.Errorf("%s holds %d checkpoints of an earlier run; use -resume to continue it, -fresh to remove them, or another -out", t.store.Dir(), len(paths))
	}
	return err
}

func (t *trainer) restore(state *checkpoint.State) error {
	want := t.runIdentity()
	if state.Data != want.Data {
		t.report.line("the training text has changed since the checkpoint: the batches will differ from an unbroken run")
		state.Data = want.Data
	}
	if state.Run != want {
		return fmt.Errorf("it is of another run: it has %+v, this run has %+v", state.Run, want)
	}
	for _, r := range t.replicas {
		copy(r.net.Params(), state.Params)
		copy(r.adam.M, state.M)
		copy(r.adam.V, state.V)
		r.adam.Step = state.AdamStep
	}
	t.pos = state.Position
	t.turnEpoch() // the checkpoint may be from the end of an epoch
	t.lastSaved = t.pos.Step
	return nil
}

func (t *trainer) runIdentity() checkpoint.Run {
	return checkpoint.Run{
		Model: t.opts.modelConfig(), Seed: t.opts.seed, BatchSize: t.opts.batch,
		StepsPerEpoch: t.stepsPerEpoch, Data: t.corpus.Fingerprint,
	}
}

// close ends the workers and waits for a background save. It returns the error
// of a save that was not reported yet.
func (t *trainer) close() error {
	t.batches.Close()
	t.batches = nil
	if t.writer == nil {
		return nil
	}
	return t.writer.Close()
}

// stopping reports whether the job was asked to end.
func (t *trainer) stopping() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// each runs f for all ranks at once, rank 0 on the caller's goroutine.
func (t *trainer) each(f func(rank int) error) error {
	errs := make([]error, t.opts.replicas)
	var wg sync.WaitGroup
	for rank := 1; rank < len(errs); rank++ {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	errs[0] = f(0)
	wg.Wait()
	return errors.Join(errs...)
}

// share returns the range of rows that rank works on.
func (t *trainer) share(rank, rows int) (lo, hi int) {
	n := t.opts.replicas
	return rows * rank / n, rows * (rank + 1) / n
}
