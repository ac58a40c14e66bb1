package spantree

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// LoopStart holds the start values and the targets of a training loop.
type LoopStart struct {
	Iterations       int
	Samples          attributes.Opt[int64]
	IterationsTarget attributes.Opt[int64]
	SamplesTarget    attributes.Opt[int64]
}

// StartLoop counts the start of a training loop at t and appends its attributes to
// attrs. If another loop is open, the caller refuses the start; like one-logger,
// StartLoop still sets the start values, and returns no attributes.
func (b *Counters) StartLoop(s *LoopStart, v *Values, t int64, open bool, attrs []attributes.Attr) ([]attributes.Attr, error) {
	if v.err != nil {
		return nil, v.err
	}
	if !v.known {
		return nil, errors.New("Training telemetry config must be set before starting the training loop.")
	}
	iterations, samples := v.iterations, v.samples
	if s.IterationsTarget.IsSet() {
		iterations = s.IterationsTarget
	}
	if s.SamplesTarget.IsSet() {
		samples = s.SamplesTarget
	}
	// One-logger refuses a loop with throughput logging and without targets. This is not
	// necessary: only the targets themselves depend on them.
	if iterations.Or(1) <= 0 {
		return nil, fmt.Errorf("train_iterations_target must be a positive integer, not %d.", iterations.Or(0))
	}
	if samples.Or(1) <= 0 {
		return nil, fmt.Errorf("train_samples_target must be a positive integer, not %d.", samples.Or(0))
	}
	start := int64(s.Iterations)
	samples0 := s.Samples.Or(start * v.batch)
	if start < 0 {
		return nil, fmt.Errorf("Invalid value for train_iterations_start in TrainingLoopAttributes object: %d", start)
	}
	if samples0 < 0 {
		return nil, fmt.Errorf("Invalid value for train_samples_start in TrainingLoopAttributes object: %d", samples0)
	}

	l := &b.loop
	if b.loops > 0 && !open {
		b.newLoop()
	}
	l.start, l.first, l.samples0 = t, start, samples0
	b.sized = b.sized || v.batch > 0
	l.counted0 = v.batch > 0 || start == 0 || s.Samples.IsSet()
	b.done, b.validated, b.tested, b.reported = start, start, start, start
	if v.throughput {
		b.hasFlops = true
		b.flops = v.flopsPerIteration().Times(start)
		l.flops = attrvalue.Count{}
	}
	if open {
		return nil, nil // the caller refuses the start
	}
	b.loops++
	if b.begun == 0 {
		b.begun = t
	}
	a := onelogger.TrainingLoop{
		TrainIterationsStart:  start,
		TrainSamplesStart:     b.samplesStart(),
		TrainIterationsTarget: iterations,
		TrainSamplesTarget:    samples,
	}
	if v.seq != 0 && samples.Or(0) != 0 {
		a.TrainTokensTarget = attributes.Some(v.seq * samples.Or(0))
	}
	if v.throughput {
		a.CompletedFLOPsOverall = attributes.Some(b.flops)
	}
	return a.Append(attrs), nil
}

// newLoop resets the windows for a further training loop. One-logger keeps those of the
// previous loop and counts it twice.
func (b *Counters) newLoop() {
	for _, i := range [...]int{phase.Iteration, phase.DataLoading, phase.Forward, phase.Backward} {
		b.windows[i] = window{}
	}
	b.loop = loop{latest: b.loop.latest}
}

// samplesStart returns the number of samples of earlier runs, unset if unknown.
func (b *Counters) samplesStart() attributes.Opt[int64] {
	if !b.loop.counted0 {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(b.loop.samples0)
}

// samplesOf returns n, or unset if the number of samples per iteration is unknown.
func (b *Counters) samplesOf(n int64) attributes.Opt[int64] {
	if !b.sized {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(n)
}

// endIteration counts an iteration and adds a metrics update to out if one is due: with
// zero-based numbers, after iteration i > 0 if (i+1) is a multiple of the interval.
func (b *Counters) endIteration(e *Ending, v *Values, readings bool, out *Entry) error {
	l, w := &b.loop, &b.windows[phase.Iteration]
	if e.Failure != nil {
		w.drop()
		l.failed++
		out.Reading.Failed = true
		return nil
	}
	w.stop(e.Took)
	if err := v.Required(); err != nil {
		return err
	}
	used := &e.Used
	b.productive = saturate(b.productive, e.Took)
	b.trained = cmp.Or(b.trained, e.At)
	b.done++
	samples := used.Samples.Or(v.batch)
	l.samples += samples
	b.sized = b.sized || used.Samples.IsSet()
	if used.Tokens.IsSet() || l.counted {
		l.tokens += used.Tokens.Or(v.seq * samples)
		l.counted = true
	} else if v.seq != 0 {
		l.tokens = v.seq * l.samples
	}
	if used.Loss.IsSet() {
		l.loss = used.Loss
	}
	l.lastFinish = e.At
	l.firstFinish = cmp.Or(l.firstFinish, e.At)
	var problem error
	if v.throughput {
		// A throughput needs a time greater than zero. Otherwise it is an error, as in
		// one-logger, unless the cause is a clock that was set back.
		if err := b.addThroughput(samples, e.Took, w, v); !e.Repaired {
			problem = err
		}
	}
	if readings {
		out.Reading.Iteration = l.read(e, v, samples)
	}
	if i := b.done - 1; problem != nil || i <= 0 || (i+1)%v.every != 0 {
		return problem
	}
	if !e.Loop {
		return NotOpen(phase.Training)
	}
	out.Events = append(out.Events, Event{Event: b.update(v, e, false), Loop: true})
	return nil
}

// read returns what an iteration contributes to the metrics.
func (l *loop) read(e *Ending, v *Values, samples int64) *IterationReading {
	it := &IterationReading{
		Duration: e.Took, Ranks: max(v.world, 1), Samples: samples, Tokens: e.Used.Tokens.Or(v.seq * samples), Loss: e.Used.Loss,
	}
	if v.throughput && e.Took > 0 {
		it.Flops = attrvalue.Product(samples, v.flops).Float64()
		it.Throughput, it.Average = l.latest, l.throughput
	}
	return it
}

func (b *Counters) addThroughput(samples, d int64, w *window, v *Values) error {
	l := &b.loop
	flops := attrvalue.Product(samples, v.flops)
	b.hasFlops = true
	b.flops = b.flops.Add(flops)
	l.flops = l.flops.Add(flops)
	if w.total <= 0 {
		return errors.New("train_iterations_time_total must be greater than 0")
	}
	x := l.flops.Float64() / ((Seconds(w.total) * tera) * float64(v.world))
	if l.throughput == 0 && l.throughputMax == 0 {
		l.throughputMin = x
	}
	l.throughput = x
	l.throughputMin = min(l.throughputMin, x)
	l.throughputMax = max(l.throughputMax, x)
	if d > 0 {
		l.latest = flops.Float64() / ((Seconds(d) * tera) * float64(v.world))
		l.iteration.add(l.latest)
	}
	return nil
}

// update returns the event with the metrics of the training loop, and begins the next
// interval.
func (b *Counters) update(v *Values, e *Ending, partial bool) outputs.Event {
	ev := outputs.Event{Name: spans.EventTrainingMetricsUpdate, Time: e.Now}
	if !e.Unread {
		ev.Attributes = b.metrics(v, partial)
	}
	b.loop.iteration = extremes{}
	b.reported = b.done
	return ev
}

// metrics returns the metrics of the training loop.
func (b *Counters) metrics(v *Values, partial bool) []attributes.Attr {
	l, w := &b.loop, &b.windows[phase.Iteration]
	m := onelogger.TrainingMetricsUpdate{
		TrainIterationsStart:  l.first,
		CurrentIteration:      b.done - 1,
		NumIterations:         w.count,
		TrainSamplesStart:     b.samplesStart(),
		NumTrainSamples:       b.samplesOf(l.samples),
		Interval:              v.every,
		AvgIterationTimeSec:   w.avg(),
		MinIterationTimeSec:   Seconds(w.min),
		MaxIterationTimeSec:   Seconds(w.max),
		TotalIterationTimeSec: Seconds(w.total),
		AvgForwardTimeSec:     b.windows[phase.Forward].average(),
		AvgBackwardTimeSec:    b.windows[phase.Backward].average(),
		AvgDataloaderTimeSec:  b.windows[phase.DataLoading].average(),
		LatestLoss:            l.loss,
		FirstLoggedFinishSec:  Seconds(l.firstFinish),
		LastLoggedFinishSec:   Seconds(l.lastFinish),
		Partial:               partial,
		FailedIterations:      l.failed,
	}
	if v.seq != 0 || l.counted {
		m.TrainTokens = attributes.Some(l.tokens)
		if w.total > 0 {
			m.AvgTokensPerSecond = attributes.Some(float64(l.tokens) / Seconds(w.total))
		}
	}
	if w.count > 0 && l.samples != w.count*v.batch {
		m.AvgBatchSize = attributes.Some(float64(l.samples) / float64(w.count))
	}
	if v.throughput {
		m.CompletedFLOPsOverall = attributes.Some(b.flops)
		m.TotalFLOPs = l.flops
		m.ThroughputPerGPU = attributes.Some(l.throughput)
		m.ThroughputPerGPUMax = attributes.Some(l.throughputMax)
		m.ThroughputPerGPUMin = attributes.Some(l.throughputMin)
		m.AvgTFLOPS = attributes.Some(l.throughput)
	}
	if l.iteration.known {
		m.IterationThroughputLast = attributes.Some(l.iteration.last)
		m.IterationThroughputMin = attributes.Some(l.iteration.min)
		m.IterationThroughputMax = attributes.Some(l.iteration.max)
	}
	return m.Append(make([]attributes.Attr, 0, 32))
}

// End counts the end of a standard span, and adds the resulting events and metrics to
// out. readings reports that metrics are read. After an error the caller must still end
// the span, so that a problem in one iteration does not affect the following ones.
func (b *Counters) End(e *Ending, v *Values, readings bool, out *Entry) error {
	switch w := &b.windows[e.Index]; e.Index {
	case phase.Iteration:
		return b.endIteration(e, v, readings, out)
	case phase.SaveSync, phase.SaveAsync:
		w.stop(e.Took)
		b.endSave(e, v, out)
	case phase.Finalization:
		w.stop(e.Took)
		b.endFinalization(e, out)
	case phase.Validation:
		out.event(spans.EventValidationMetricsUpdate, e.Now, b.validation())
		b.validated = b.done
	case phase.Testing:
		out.event(spans.EventTestingMetricsUpdate, e.Now, onelogger.TestingMetricsUpdate{
			CurrentIteration: max(0, b.done-1),
			Interval:         b.done - b.tested,
		}.Append(nil))
		b.tested = b.done
	case phase.Training:
		// One-logger drops what a loop did since its last update.
		if b.done > b.reported && v.known && v.err == nil {
			out.Events = append(out.Events, Event{Event: b.update(v, e, true), Extension: true})
		}
	case phase.Epoch:
	default:
		if e.Failure != nil {
			w.drop()
		} else {
			w.stop(e.Took)
		}
	}
	return nil
}

// validation returns the metrics of a validation loop.
func (b *Counters) validation() []attributes.Attr {
	m := onelogger.ValidationMetricsUpdate{
		CurrentIteration: max(0, b.done-1),
		Interval:         b.done - b.validated,
	}
	if w := &b.windows[phase.ValidationIteration]; w.timed {
		m.AvgIterationTimeSec = attributes.Some(w.avg())
		m.MinIterationTimeSec = attributes.Some(Seconds(w.min))
		m.MaxIterationTimeSec = attributes.Some(Seconds(w.max))
		m.TotalIterationTimeSec = attributes.Some(Seconds(w.total))
	}
	return m.Append(nil)
}
