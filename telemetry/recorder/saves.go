package recorder

import (
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// maxPending bounds the saves whose outcome is still unknown. A job that
// reports neither success nor failure must not make the recorder grow.
const maxPending = 1024

// saveState is what is known of checkpoint saves.
type saveState struct {
	succeeded int64
	first     int64 // time of the first success, nanoseconds since the epoch
	latest    int64
	pending   map[int64]productivity // by step, from the start of the save
	order     []int64                // of the steps in pending, oldest first
	best      productivity           // the largest numbers reported
	blocking  map[int64]int64        // nanoseconds that an asynchronous save blocked, by step
}

// productivity is what would be kept if the job died right after a save.
type productivity struct {
	iterations, samples int64
	train, validation   int64 // nanoseconds
	flops               attributes.Count
	hasFlops            bool
}

// most takes the larger of each number: a success that is reported late must
// not lower what was reported before.
func (p productivity) most(q productivity) productivity {
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

// prepareSave remembers what the checkpoint holds.
func (r *Recorder) prepareSave(s *Span, p *startParams) {
	st := &r.state
	s.step = int64(p.step)
	st.sized = st.sized || p.values.batch > 0
	st.hasFlops = st.hasFlops || p.values.throughput
	if p.values.saves {
		st.saves.remember(s.step, productivity{
			iterations: st.done,
			samples:    st.samples0 + st.samples,
			train:      st.productive,
			validation: st.windows[indexValidationI].total,
			flops:      st.flopsTotal,
			hasFlops:   st.hasFlops,
		})
	}
	strategy := attributes.CheckpointSync
	if p.index == indexSaveAsync {
		strategy = attributes.CheckpointAsync
	}
	s.data.Attributes = attributes.CheckpointSave{
		Strategy:         strategy,
		CurrentIteration: s.step,
		AttemptCount:     st.windows[p.index].count + 1,
	}.Append(s.data.Attributes)
}

func (s *saveState) remember(step int64, p productivity) {
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

func (s *saveState) take(step int64) (productivity, bool) {
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

// completeSave is the end of the part of a save that blocks training.
func (r *Recorder) completeSave(c *call, s *Span, t int64, f *failure, v *values) {
	c.reading.blocking = r.state.windows[s.index].last
	if f != nil {
		r.state.saves.take(s.step)
		c.reading.lost = true
		c.failure(s, failedSave(s.step, t, f), true)
	}
	if s.index == indexSaveAsync {
		b := &r.state.saves.blocking
		if *b == nil {
			*b = make(map[int64]int64)
		}
		if len(*b) < maxPending {
			(*b)[s.step] = r.state.windows[s.index].last
		}
	}
	if !v.saves {
		return
	}
	w := &r.state.windows[s.index]
	c.event(s, outputs.Event{
		Name: spans.EventSyncCheckpointMetricsUpdate,
		Time: c.now,
		Attributes: attributes.SyncCheckpointMetricsUpdate{
			TotalSec: seconds(w.total), MinSec: seconds(w.min), MaxSec: seconds(w.max),
		}.Append(nil),
	}, false)
}

// completeFinalization reports how long an asynchronous save took: the part
// that training waited for and the part in the background.
func (r *Recorder) completeFinalization(c *call, s *Span, t int64, f *failure) {
	blocking, known := r.state.saves.blocking[s.step]
	delete(r.state.saves.blocking, s.step)
	attrs := []attributes.Attr{
		attributes.Int(attributes.CurrentIteration, s.step),
		attributes.Float(attributes.CheckpointBackgroundTimeSec, seconds(t-s.data.Start)),
	}
	if known {
		attrs = append(attrs, attributes.Float(attributes.CheckpointBlockingTimeSec, seconds(blocking)))
	}
	c.event(s, outputs.Event{
		Name: spans.EventAsyncCheckpointMetricsUpdate, Time: c.now, Attributes: attributes.Extend(attrs...),
	}, true)
	c.reading.background = t - s.data.Start
	if f != nil {
		r.state.saves.take(s.step)
		c.reading.lost = true
		c.failure(s, failedSave(s.step, t, f), true)
	}
}

// saveSpan is the open span that a save's outcome belongs to: the save itself,
// or the application for an asynchronous one, whose span is long over.
func (r *Recorder) saveSpan(v *values) (*Span, error) {
	if v.async {
		return r.openSpan(indexApplication)
	}
	return r.openSpan(indexSaveSync)
}

// CheckpointSucceeded records that a checkpoint is safely stored, with what it
// makes productive. A step that was never started, or was reported before, is
// a telemetry data error: the reference counts it with zeros.
func (r *Recorder) CheckpointSucceeded(p SaveSuccess) error {
	return r.outcome(callName{"on_save_checkpoint_success", "OnSaveCheckpointSuccess"}, p.Time, func(c *call, t int64, v *values) error {
		s, err := r.saveSpan(v)
		if err == nil && v.saves {
			r.succeeded(c, s, t, &p)
		}
		return err
	})
}

// CheckpointFailed records that a checkpoint could not be stored.
func (r *Recorder) CheckpointFailed(p SaveFailure) error {
	f := r.describe(p.Err, 1)
	return r.outcome(callName{"on_save_checkpoint_failure", "OnSaveCheckpointFailure"}, p.Time, func(c *call, t int64, v *values) error {
		s, err := r.saveSpan(v)
		if err != nil { // the failed save is over
			if s, err = r.openSpan(indexApplication); err != nil {
				return err
			}
		}
		r.state.saves.take(int64(p.GlobalStep))
		c.reading.lost = true
		c.failure(s, failedSave(int64(p.GlobalStep), t, f), true)
		return nil
	})
}

// outcome records what became of a save.
func (r *Recorder) outcome(name callName, at time.Time, do func(c *call, t int64, v *values) error) error {
	if r == nil {
		return ErrNotConfigured
	}
	v := r.values(false)
	c := call{now: r.now()}
	t, wrong := r.instant(at, c.now, false)
	err := r.locked(&c, func() error {
		if wrong != nil {
			return wrong
		}
		if err := v.required(); err != nil {
			return err
		}
		return do(&c, t, &v)
	})
	r.deliver(&c)
	switch {
	case err == nil:
		return nil
	case err == ErrClosed || err == ErrDisabled:
		return err
	}
	return r.fail(name, err)
}

func (r *Recorder) succeeded(c *call, s *Span, t int64, p *SaveSuccess) {
	st := &r.state
	step := int64(p.GlobalStep)
	made, ok := st.saves.take(step)
	if !ok {
		c.warn(0, "the success of a checkpoint was reported that is not known", "step", step, "see", see.Checkpoint)
		r.gap(c, fmt.Sprintf("save_checkpoint_success for step %d, which is unknown or was reported before", step), nil)
		return
	}
	c.reading.stored = true
	st.saves.succeeded++
	st.saves.latest = t
	if st.saves.first == 0 {
		st.saves.first = t
	}
	st.saves.best = st.saves.best.most(made)
	best := st.saves.best
	strategy := attributes.CheckpointSync
	if s.index == indexApplication {
		strategy = attributes.CheckpointAsync
	}
	e := attributes.SaveCheckpointSuccess{
		Strategy:                          strategy,
		CurrentIteration:                  step,
		FirstSuccessSec:                   seconds(st.saves.first),
		LatestSuccessSec:                  seconds(st.saves.latest),
		SuccessCount:                      st.saves.succeeded,
		ProductiveTrainIterations:         best.iterations,
		ProductiveTrainSamples:            st.samplesOf(best.samples),
		ProductiveTrainIterationsSec:      seconds(best.train),
		ProductiveValidationIterationsSec: seconds(best.validation),
		Size:                              p.Size,
		Directory:                         p.Directory,
	}
	if best.hasFlops {
		e.ProductiveTrainTFLOPs = attributes.Some(best.flops.Float64() / tera)
	}
	if st.loopStart != 0 {
		e.TrainingStartSec = attributes.Some(seconds(st.loopStart))
	}
	c.event(s, outputs.Event{
		Name:       spans.EventSaveCheckpointSuccess,
		Time:       t,
		Attributes: r.clean(e.Append(nil)),
	}, false)
}

func failedSave(step, t int64, f *failure) outputs.Event {
	attrs := []attributes.Attr{attributes.Int(attributes.CurrentIteration, step)}
	attrs = append(attrs, f.attributes(fmt.Sprintf("Saving the checkpoint of step %d failed", step))...)
	return outputs.Event{Name: spans.EventSaveCheckpointFailure, Time: t, Attributes: attributes.Extend(attrs...)}
}

// savePending reports whether the outcome of a save is still to come.
func (r *Recorder) savePending(step int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.state.saves.pending[step]
	return ok
}
