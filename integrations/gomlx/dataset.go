package gomlxspan

import (
	"iter"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/internal/record/dispatch"
)

// Train wraps the dataset of the loop. GoMLX has no hook at the start of a step
// or an epoch; the iterator of the dataset shows both.
func (r *Run) Train(ds train.Dataset) train.Dataset { return r.wrap(ds, forTraining) }

// Validation wraps a dataset for Trainer.Eval: each pass is a validation loop.
func (r *Run) Validation(ds train.Dataset) train.Dataset { return r.wrap(ds, forValidation) }

// Testing wraps a dataset for Trainer.Eval: each pass is a testing loop.
func (r *Run) Testing(ds train.Dataset) train.Dataset { return r.wrap(ds, forTesting) }

// wrap wraps a dataset and keeps its optional interfaces.
func (r *Run) wrap(ds train.Dataset, as role) train.Dataset {
	if r == nil || ds == nil || !r.tel.Enabled() {
		return ds
	}
	d := dataset{Dataset: ds, run: r, as: as}
	short, hasShort := ds.(train.HasShortName)
	spread, isSpread := ds.(train.DistributedDataset)
	switch {
	case isSpread && hasShort:
		return &struct {
			distributedDataset
			train.HasShortName
		}{distributedDataset{d, spread}, short}
	case isSpread:
		return &distributedDataset{d, spread}
	case hasShort:
		return &struct {
			dataset
			train.HasShortName
		}{d, short}
	}
	return &d
}

// dataset wraps a dataset.
type dataset struct {
	train.Dataset
	run *Run
	as  role
}

// Iter implements train.Dataset.
func (d *dataset) Iter() iter.Seq2[train.Batch, error] {
	return watch(d.run, d.as, d.Dataset.Iter(), d.run.samples)
}

// samples records the batch that the loop receives and returns the number of
// its samples, 0 for unknown.
func (r *Run) samples(b train.Batch) int64 {
	switch known := r.take(b); {
	case !known:
		return 0
	case r.opts.Samples != nil:
		return r.opts.Samples(b)
	case !r.alone || len(b.Inputs) == 0 || b.Inputs[0].Shape().Rank() == 0:
		return 0
	}
	return int64(b.Inputs[0].Shape().Dimensions[0])
}

// distributedDataset wraps a dataset that is distributed over devices.
type distributedDataset struct {
	dataset
	inner train.DistributedDataset
}

// Strategy implements train.DistributedDataset.
func (d *distributedDataset) Strategy() distributed.Strategy { return d.inner.Strategy() }

// DeviceAssignment implements train.DistributedDataset.
func (d *distributedDataset) DeviceAssignment() []compute.DeviceNum {
	return d.inner.DeviceAssignment()
}

// DistributedIter implements train.DistributedDataset.
func (d *distributedDataset) DistributedIter() iter.Seq2[train.DistributedBatch, error] {
	return watch(d.run, d.as, d.inner.DistributedIter(), func(train.DistributedBatch) int64 { d.run.takeNone(); return 0 })
}

// watch records a pass over a dataset. The consumer processes a batch inside
// yield, or between two calls of next if it uses iter.Pull.
func watch[B any](r *Run, as role, inner iter.Seq2[B, error], take func(B) int64) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		p := pass{r: r, as: as}
		p.begin()
		finished := false
		defer func() { p.end(finished) }() // also for a panic
		p.fetch()
		for batch, err := range inner {
			p.fetched()
			if err != nil {
				p.failed = err
			} else {
				p.hand(take(batch))
			}
			if !yield(batch, err) {
				return
			}
			p.back()
			p.fetch()
		}
		p.fetched()
		finished = true
	}
}

// pass is one pass over a dataset.
type pass struct {
	r       *Run
	as      role
	waiting dispatch.Scope
	inBatch bool
	failed  error // error of the dataset
}

// begin begins an epoch or an evaluation.
func (p *pass) begin() {
	r := p.r
	switch p.as {
	case forValidation:
		_, _ = r.cb.OnValidationStart(r.ctx)
	case forTesting:
		_, _ = r.cb.OnTestingStart(r.ctx)
	default:
		if s := &r.state; s.looping && s.epochs {
			s.inEpoch = true
			_, _ = r.cb.OnEpochStart(r.ctx, r.loop.Epoch)
		}
	}
}

// fetch begins the wait for a batch.
func (p *pass) fetch() {
	if p.r.fetch != nil {
		p.waiting = p.r.fetch.Start(current, nil, dispatch.ScopeStart{Ambient: true})
	}
}

// fetched ends the wait for a batch.
func (p *pass) fetched() {
	if p.waiting != nil {
		p.waiting.End()
		p.waiting = nil
	}
}

// hand records that the consumer receives a batch.
func (p *pass) hand(samples int64) {
	r := p.r
	p.inBatch = true
	switch p.as {
	case forValidation:
		_, _ = r.cb.OnValidationSingleIterationStart(r.ctx)
	case forTesting:
		_, _ = r.cb.OnTestingSingleIterationStart(r.ctx)
	default:
		if r.state.looping {
			r.beginStep(samples)
		}
	}
	r.compile(p.as)
	if r.step != nil {
		r.state.stepStart = r.step.Now()
	}
}

// back records that the consumer asks for the next batch. The hook of the loop
// has ended the step.
func (p *pass) back() {
	p.inBatch = false
	p.r.takeNone()
	if p.as != forTraining && p.r.evaluate != nil {
		p.r.evaluate.Record(current, nil, 0, p.r.state.stepStart)
	}
	p.endEvaluated(nil)
}

func (p *pass) endEvaluated(err error) {
	r, end := p.r, callbacks.End{Err: err}
	switch p.as {
	case forValidation:
		_ = r.cb.OnValidationSingleIterationEnd(r.ctx, end)
	case forTesting:
		_ = r.cb.OnTestingSingleIterationEnd(r.ctx, end)
	}
}

// end ends a pass: the dataset ended, or the consumer stopped early.
func (p *pass) end(finished bool) {
	p.fetched()
	r := p.r
	err := p.failed
	if !finished && err == nil {
		err = errUnfinished
	}
	if finished && p.as == forTraining && !r.state.epochs {
		err = errTooShort
	}
	if p.as != forTraining {
		if p.inBatch {
			p.endEvaluated(err)
		}
		end := callbacks.End{Err: err}
		if p.as == forValidation {
			_ = r.cb.OnValidationEnd(r.ctx, end)
		} else {
			_ = r.cb.OnTestingEnd(r.ctx, end)
		}
		return
	}
	s := &r.state
	switch {
	case !s.looping:
	case s.epochs && finished: // OnEnd or the next epoch follows
		r.endEpoch(nil)
	case r.stopped:
		r.endLoop(nil)
	case !s.epochs && !finished && !s.inStep && r.loop.LoopStep >= r.loop.EndStep:
		// The loop has all its steps and closes the dataset; OnEnd follows.
	default:
		r.endLoop(err)
	}
}
