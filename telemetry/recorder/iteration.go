package recorder

import (
	"cmp"
	"errors"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

const tera = 1e12

// completeIteration counts an iteration and records a metrics update when one
// is due: with zero-based numbers, after iteration i > 0 if (i+1) is a
// multiple of the interval.
func (r *Recorder) completeIteration(c *call, s *Span, t, d int64, f *failure, v *values) error {
	st := &r.state
	w := &st.windows[indexIteration]
	if f != nil {
		w.drop()
		st.failed++
		c.reading.failed = true
		return nil
	}
	w.stop(d)
	if err := v.required(); err != nil {
		return err
	}
	e := &s.iteration
	st.productive = saturate(st.productive, d)
	st.trained = cmp.Or(st.trained, t)
	st.done++
	samples := e.samples.Or(v.batch)
	st.samples += samples
	st.sized = st.sized || e.samples.IsSet()
	if e.tokens.IsSet() || st.counted {
		st.tokens += e.tokens.Or(v.seq * samples)
		st.counted = true
	} else if v.seq != 0 {
		st.tokens = v.seq * st.samples
	}
	if e.loss.IsSet() {
		st.loss = e.loss
	}
	if r.meters != nil {
		defer func() { c.reading.iteration = st.read(d, samples, e, v) }()
	}
	st.lastFinish = t
	if st.firstFinish == 0 {
		st.firstFinish = t
	}
	if v.throughput {
		// Without any time there is no throughput. That is an error, as in the
		// reference, unless a clock that was set back is the reason.
		if err := st.addThroughput(samples, d, w, v); err != nil && !s.repaired {
			return err
		}
	}
	r.progress.SetStep(st.done - 1)
	if i := st.done - 1; i <= 0 || (i+1)%v.every != 0 {
		return nil
	}
	loop, err := r.openSpan(indexTraining)
	if err != nil {
		return err
	}
	c.event(loop, r.trainingUpdate(v, false, c.now), false)
	return nil
}

// read is what metrics say of an iteration.
func (st *trainingState) read(d, samples int64, e *consumed, v *values) *iterationReading {
	it := &iterationReading{duration: d, ranks: max(v.world, 1), samples: samples, tokens: e.tokens.Or(v.seq * samples)}
	it.loss, it.hasLoss = e.loss.Get(), e.loss.IsSet()
	if v.throughput && d > 0 {
		it.flops = attributes.Product(samples, v.flops).Float64()
		it.throughput, it.average = st.latest, st.throughput
	}
	return it
}

func (st *trainingState) addThroughput(samples, d int64, w *window, v *values) error {
	flops := attributes.Product(samples, v.flops)
	st.hasFlops = true
	st.flopsTotal = st.flopsTotal.Add(flops)
	st.flopsLoop = st.flopsLoop.Add(flops)
	if w.total <= 0 {
		return errors.New("train_iterations_time_total must be greater than 0")
	}
	x := st.flopsLoop.Float64() / ((seconds(w.total) * tera) * float64(v.world))
	if st.throughput == 0 && st.throughputMax == 0 {
		st.throughputMin = x
	}
	st.throughput = x
	st.throughputMin = min(st.throughputMin, x)
	st.throughputMax = max(st.throughputMax, x)
	if d > 0 {
		st.latest = flops.Float64() / ((seconds(d) * tera) * float64(v.world))
		st.iteration.add(st.latest)
	}
	return nil
}

// trainingUpdate is the event with the metrics of the training loop.
func (r *Recorder) trainingUpdate(v *values, partial bool, now int64) outputs.Event {
	st := &r.state
	w := &st.windows[indexIteration]
	m := attributes.TrainingMetricsUpdate{
		TrainIterationsStart:  st.first,
		CurrentIteration:      st.done - 1,
		NumIterations:         w.count,
		TrainSamplesStart:     st.samplesStart(),
		NumTrainSamples:       st.samplesOf(st.samples),
		Interval:              v.every,
		AvgIterationTimeSec:   w.avg(),
		MinIterationTimeSec:   seconds(w.min),
		MaxIterationTimeSec:   seconds(w.max),
		TotalIterationTimeSec: seconds(w.total),
		AvgForwardTimeSec:     st.windows[indexForward].average(),
		AvgBackwardTimeSec:    st.windows[indexBackward].average(),
		AvgDataloaderTimeSec:  st.windows[indexDataLoading].average(),
		LatestLoss:            st.loss,
		FirstLoggedFinishSec:  seconds(st.firstFinish),
		LastLoggedFinishSec:   seconds(st.lastFinish),
		Partial:               partial,
		FailedIterations:      st.failed,
	}
	if v.seq != 0 || st.counted {
		m.TrainTokens = attributes.Some(st.tokens)
		if w.total > 0 {
			m.AvgTokensPerSecond = attributes.Some(float64(st.tokens) / seconds(w.total))
		}
	}
	if w.count > 0 && st.samples != w.count*v.batch {
		m.AvgBatchSize = attributes.Some(float64(st.samples) / float64(w.count))
	}
	if v.throughput {
		m.CompletedFLOPsOverall = attributes.Some(st.flopsTotal)
		m.TotalFLOPs = st.flopsLoop
		m.ThroughputPerGPU = attributes.Some(st.throughput)
		m.ThroughputPerGPUMax = attributes.Some(st.throughputMax)
		m.ThroughputPerGPUMin = attributes.Some(st.throughputMin)
		m.AvgTFLOPS = attributes.Some(st.throughput)
	}
	if st.iteration.known {
		m.IterationThroughputLast = attributes.Some(st.iteration.last)
		m.IterationThroughputMin = attributes.Some(st.iteration.min)
		m.IterationThroughputMax = attributes.Some(st.iteration.max)
	}
	st.iteration = extremes{}
	st.reported = st.done
	return outputs.Event{
		Name:       spans.EventTrainingMetricsUpdate,
		Time:       now,
		Attributes: m.Append(make([]attributes.Attr, 0, 32)),
	}
}

// average is the mean in seconds of a window in which something was timed.
func (w *window) average() attributes.Opt[float64] {
	if !w.timed || w.count == 0 {
		return attributes.Opt[float64]{}
	}
	return attributes.Some(w.avg())
}

// validationUpdate is the event with the metrics of a validation loop.
func (r *Recorder) validationUpdate(now int64) outputs.Event {
	st := &r.state
	m := attributes.ValidationMetricsUpdate{
		CurrentIteration: max(0, st.done-1),
		Interval:         st.done - st.validated,
	}
	if w := &st.windows[indexValidationI]; w.timed {
		m.AvgIterationTimeSec = attributes.Some(w.avg())
		m.MinIterationTimeSec = attributes.Some(seconds(w.min))
		m.MaxIterationTimeSec = attributes.Some(seconds(w.max))
		m.TotalIterationTimeSec = attributes.Some(seconds(w.total))
	}
	return outputs.Event{
		Name:       spans.EventValidationMetricsUpdate,
		Time:       now,
		Attributes: m.Append(nil),
	}
}
