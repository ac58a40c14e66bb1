package spantree

import (
	"cmp"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// maxPending bounds the saves whose outcome is unknown. A job that reports neither
// success nor failure must not make the counters grow.
const maxPending = 1024

// saves holds the state of checkpoint saves.
type saves struct {
	succeeded int64
	first     int64                  // time of the first success, nanoseconds since the epoch
	pending   map[int64]productivity // by step, as of the start of the save
	order     []int64                // steps in pending, oldest first
	best      productivity           // the largest numbers reported
	blocking  map[int64]int64        // nanoseconds that an asynchronous save blocked training, by step
}

// productivity is the work that a checkpoint preserves if the job fails right after the
// save.
type productivity struct {
	iterations, samples int64
	train, validation   int64 // nanoseconds
	flops               attrvalue.Count
	hasFlops            bool
}

// maxOf returns the maximum of each field: a success that is reported late must not
// lower the numbers reported before.
func (p productivity) maxOf(q productivity) productivity {
	p.iterations = max(p.iterations, q.iterations)
	p.samples = max(p.samples, q.samples)
	p.train = max(p.train, q.train)
	p.validation = max(p.validation, q.validation)
	if q.flops.Float64() > p.flops.Float64() {
		p.flops = q.flops
	}
	p.hasFlops = p.hasFlops || q.hasFlops
	return p
}

// StartSave records what the checkpoint of a step preserves, and appends the attributes
// of the save to attrs.
func (b *Counters) StartSave(index int, step int64, v *Values, attrs []attributes.Attr) []attributes.Attr {
	b.sized = b.sized || v.batch > 0
	b.hasFlops = b.hasFlops || v.throughput
	if v.Saves {
		b.saves.remember(step, productivity{
			iterations: b.done,
			samples:    b.loop.samples0 + b.loop.samples,
			train:      b.productive,
			validation: b.windows[phase.ValidationIteration].total,
			flops:      b.flops,
			hasFlops:   b.hasFlops,
		})
	}
	return onelogger.CheckpointSave{
		Strategy:         strategy(index == phase.SaveAsync),
		CurrentIteration: step,
		AttemptCount:     b.windows[index].count + 1,
	}.Append(attrs)
}

func strategy(async bool) string {
	if async {
		return onelogger.CheckpointAsync
	}
	return onelogger.CheckpointSync
}

func (s *saves) remember(step int64, p productivity) {
	if s.pending == nil {
		s.pending = make(map[int64]productivity)
	}
	if _, again := s.pending[step]; !again {
		if len(s.order) >= maxPending {
			delete(s.pending, s.order[0])
			s.order = append(s.order[:0], s.order[1:]...)
		}
		s.order = append(s.order, step)
	}
	s.pending[step] = p
}

func (s *saves) take(step int64) (productivity, bool) {
	p, ok := s.pending[step]
	if ok {
		delete(s.pending, step)
		for i, o := range s.order {
			if o == step {
				s.order = append(s.order[:i], s.order[i+1:]...)
				break
			}
		}
	}
	return p, ok
}

// Pending reports whether the outcome of the save of a step is still unknown.
func (b *Counters) Pending(step int64) bool {
	_, ok := b.saves.pending[step]
	return ok
}

// endSave counts the end of the part of a save that blocks training.
func (b *Counters) endSave(e *Ending, v *Values, out *Entry) {
	out.Reading.Blocking = e.Took
	if e.Failure != nil {
		b.FailSave(e.Step, e.At, e.Failure, out)
	}
	if e.Index == phase.SaveAsync {
		if b.saves.blocking == nil {
			b.saves.blocking = make(map[int64]int64)
		}
		if len(b.saves.blocking) < maxPending {
			b.saves.blocking[e.Step] = e.Took
		}
	}
	if !v.Saves {
		return
	}
	w := &b.windows[e.Index]
	out.event(spans.EventSyncCheckpointMetricsUpdate, e.Now, onelogger.SyncCheckpointMetricsUpdate{
		TotalSec: Seconds(w.total), MinSec: Seconds(w.min), MaxSec: Seconds(w.max),
	}.Append(nil))
}

// endFinalization reports the duration of an asynchronous save: the part that blocked
// training and the part in the background.
func (b *Counters) endFinalization(e *Ending, out *Entry) {
	blocking, known := b.saves.blocking[e.Step]
	delete(b.saves.blocking, e.Step)
	attrs := []attributes.Attr{
		attrvalue.Int(onelogger.CurrentIteration, e.Step),
		attrvalue.Float(onelogger.CheckpointBackgroundTimeSec, Seconds(e.Took)),
	}
	if known {
		attrs = append(attrs, attrvalue.Float(onelogger.CheckpointBlockingTimeSec, Seconds(blocking)))
	}
	out.event(spans.EventAsyncCheckpointMetricsUpdate, e.Now, attrvalue.Extend(attrs...))
	out.Events[len(out.Events)-1].Extension = true
	out.Reading.Background = e.Took
	if e.Failure != nil {
		b.FailSave(e.Step, e.At, e.Failure, out)
	}
}

// FailSave counts a checkpoint that could not be stored at time t, and adds the error
// event to out.
func (b *Counters) FailSave(step, t int64, f *failure.Failure, out *Entry) {
	b.saves.take(step)
	out.Reading.Lost = true
	attrs := []attributes.Attr{attrvalue.Int(onelogger.CurrentIteration, step)}
	attrs = append(attrs, f.Attributes(fmt.Sprintf("Saving the checkpoint of step %d failed", step))...)
	out.Events = append(out.Events, Event{
		Event: outputs.Event{Name: spans.EventSaveCheckpointFailure, Time: t, Attributes: attrvalue.Extend(attrs...)},
		Error: true, Extension: true,
	})
}

// Success describes a stored checkpoint.
type Success struct {
	Step      int64
	At        int64 // nanoseconds since the epoch
	Async     bool
	Size      attributes.Opt[int64]
	Directory string
}

// Succeed counts a stored checkpoint, and adds the event with the productive work to
// out. It returns false if the step is unknown or was reported before.
func (b *Counters) Succeed(s *Success, out *Entry) bool {
	made, ok := b.saves.take(s.Step)
	if !ok {
		return false
	}
	out.Reading.Stored = true
	b.saves.succeeded++
	b.saves.first = cmp.Or(b.saves.first, s.At)
	b.saves.best = b.saves.best.maxOf(made)
	best := b.saves.best
	e := onelogger.SaveCheckpointSuccess{
		Strategy:                          strategy(s.Async),
		CurrentIteration:                  s.Step,
		FirstSuccessSec:                   Seconds(b.saves.first),
		LatestSuccessSec:                  Seconds(s.At),
		SuccessCount:                      b.saves.succeeded,
		ProductiveTrainIterations:         best.iterations,
		ProductiveTrainSamples:            b.samplesOf(best.samples),
		ProductiveTrainIterationsSec:      Seconds(best.train),
		ProductiveValidationIterationsSec: Seconds(best.validation),
		Size:                              s.Size,
		Directory:                         s.Directory,
	}
	if best.hasFlops {
		e.ProductiveTrainTFLOPs = attributes.Some(best.flops.Float64() / tera)
	}
	if b.loop.start != 0 {
		e.TrainingStartSec = attributes.Some(Seconds(b.loop.start))
	}
	out.event(spans.EventSaveCheckpointSuccess, s.At, e.Append(nil))
	return true
}
