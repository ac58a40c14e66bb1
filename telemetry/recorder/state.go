package recorder

import (
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// trainingState is what the metrics are computed from. The rules and the order
// of the arithmetic are the reference's, so that equal input gives equal
// doubles; what differs is said where it differs.
type trainingState struct {
	windows [spans.Count]window

	loops      int   // training loops started
	loopStart  int64 // nanoseconds since the epoch; zero before the first loop
	begun      int64 // start of the first loop, nanoseconds since the epoch
	trained    int64 // end of the first iteration that was completed, nanoseconds since the epoch
	first      int64 // number of the first iteration of the loop
	done       int64 // iterations completed, those of earlier runs included
	samples0   int64 // samples of earlier runs
	sized      bool  // how many samples an iteration has is known
	counted0   bool  // samples0 is known
	samples    int64 // samples of this loop
	tokens     int64 // tokens of this loop
	counted    bool  // tokens were counted one by one
	failed     int64 // iterations of this loop that failed
	reported   int64 // done at the last metrics update
	validated  int64 // done at the end of the last validation loop
	tested     int64 // done at the end of the last testing loop
	productive int64 // nanoseconds of completed iterations, all loops

	flopsLoop  attributes.Count // of this loop
	flopsTotal attributes.Count // of the job
	hasFlops   bool

	throughput    float64 // running average per GPU, 10^12 FLOP/s
	throughputMin float64
	throughputMax float64
	latest        float64  // throughput of the last iteration
	iteration     extremes // throughput of single iterations since the last update
	loss          attributes.Opt[float64]

	firstFinish int64 // end of the first iteration of the loop
	lastFinish  int64 // end of the latest iteration

	saves saveState
}

// extremes are the last, smallest and largest of some values.
type extremes struct {
	last, min, max float64
	known          bool
}

func (e *extremes) add(x float64) {
	if !e.known {
		*e = extremes{x, x, x, true}
		return
	}
	e.last, e.min, e.max = x, min(e.min, x), max(e.max, x)
}

// timed reports whether spans of that row run a timer.
func timed(index int) bool { return index >= 0 && spans.At(index).Timed }

// prepare checks the start of a standard span and moves the state.
func (r *Recorder) prepare(c *call, s *Span, p *startParams, t int64) error {
	st := &r.state
	open := r.byName[p.index] != nil
	if p.byHand && timed(p.index) {
		if open {
			return duplicate(p.name)
		}
		return fmt.Errorf("Timer for span %s is not active.", p.name)
	}
	switch p.index {
	case indexTraining:
		if err := r.prepareLoop(s, p, t, open); err != nil {
			return err
		}
	case indexSaveSync, indexSaveAsync:
		if open {
			return errTimerActive
		}
		if err := p.values.required(); err != nil {
			return err
		}
		r.prepareSave(s, p)
	case indexFinalize:
		if r.finalize[int64(p.step)] != nil {
			return fmt.Errorf("the finalization of the checkpoint of step %d is already active", p.step)
		}
		if r.finalize == nil {
			r.finalize = make(map[int64]*Span)
		}
		s.step = int64(p.step)
		r.finalize[s.step] = s
		s.data.Attributes = append(s.data.Attributes, attributes.Extend(attributes.Int(attributes.CurrentIteration, s.step))...)
	default:
		if open && timed(p.index) {
			return errTimerActive
		}
	}
	if open {
		return duplicate(p.name)
	}
	switch p.index {
	case indexIteration:
		r.progress.SetStep(st.done)
		if st.loops == 0 || r.byName[indexTraining] == nil {
			c.warn(warnOutsideLoop, "a training iteration was started outside a training loop; call OnTrainStart or start spans.TrainingLoop before")
		}
	case indexEpoch:
		r.progress.SetEpoch(int64(p.step))
	}
	st.windows[p.index].start()
	return nil
}

var errTimerActive = errors.New("Cannot start timer since it is already active")

func duplicate(name string) error {
	return fmt.Errorf("Cannot start span %s while 1 span(s) with the same name is already active. "+
		"Please ensure the callback is called correctly.", name)
}

// prepareLoop is the start of a training loop. A loop that is refused because
// one is open has set the start values all the same, as in the reference.
func (r *Recorder) prepareLoop(s *Span, p *startParams, t int64, open bool) error {
	v := &p.values
	if v.err != nil {
		return v.err
	}
	if !v.known {
		return errors.New("Training telemetry config must be set before starting the training loop.")
	}
	iterations, samples := v.iterations, v.samples
	if o := optional(p.loop.IterationsTarget); p.loop.IterationsTarget.IsSet() {
		iterations = o
	}
	if o := optional(p.loop.SamplesTarget); p.loop.SamplesTarget.IsSet() {
		samples = o
	}
	// The reference refuses a loop whose throughput is logged and whose targets
	// are not known; nothing but the targets themselves depends on them.
	if iterations.Or(1) <= 0 {
		return fmt.Errorf("train_iterations_target must be a positive integer, not %d.", iterations.Or(0))
	}
	if samples.Or(1) <= 0 {
		return fmt.Errorf("train_samples_target must be a positive integer, not %d.", samples.Or(0))
	}
	start := int64(p.loop.IterationsStart)
	samples0 := start * v.batch
	if p.loop.SamplesStart.IsSet() {
		samples0 = int64(p.loop.SamplesStart.Get())
	}
	if start < 0 {
		return fmt.Errorf("Invalid value for train_iterations_start in TrainingLoopAttributes object: %d", start)
	}
	if samples0 < 0 {
		return fmt.Errorf("Invalid value for train_samples_start in TrainingLoopAttributes object: %d", samples0)
	}

	st := &r.state
	if st.loops > 0 && !open {
		st.newLoop()
	}
	st.loopStart, st.first, st.samples0 = t, start, samples0
	st.sized = st.sized || v.batch > 0
	st.counted0 = v.batch > 0 || start == 0 || p.loop.SamplesStart.IsSet()
	st.done, st.validated, st.tested, st.reported = start, start, start, start
	if v.throughput {
		st.hasFlops = true
		st.flopsTotal = v.flopsPerIteration().Times(start)
		st.flopsLoop = attributes.Count{}
	}
	if open {
		return nil // refused by the caller
	}
	st.loops++
	if st.begun == 0 {
		st.begun = t
	}
	r.progress.SetStep(start)
	loop := attributes.TrainingLoop{
		TrainIterationsStart:  start,
		TrainSamplesStart:     st.samplesStart(),
		TrainIterationsTarget: iterations,
		TrainSamplesTarget:    samples,
	}
	if v.seq != 0 && samples.Or(0) != 0 {
		loop.TrainTokensTarget = attributes.Some(v.seq * samples.Or(0))
	}
	if v.throughput {
		loop.CompletedFLOPsOverall = attributes.Some(st.flopsTotal)
	}
	s.data.Attributes = loop.Append(s.data.Attributes)
	return nil
}

// samplesStart is the number of samples of earlier runs, unset if nobody knows.
func (st *trainingState) samplesStart() attributes.Opt[int64] {
	if !st.counted0 {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(st.samples0)
}

// samplesOf is a number of samples, unset where nobody says how many an
// iteration has.
func (st *trainingState) samplesOf(n int64) attributes.Opt[int64] {
	if !st.sized {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(n)
}

// newLoop starts the windows of a further training loop afresh: the reference
// goes on with those of the loop before and counts it twice.
func (st *trainingState) newLoop() {
	for _, i := range [...]int{indexIteration, indexDataLoading, indexForward, indexBackward} {
		st.windows[i] = window{}
	}
	st.samples, st.tokens, st.failed, st.counted = 0, 0, 0, false
	st.throughput, st.throughputMin, st.throughputMax = 0, 0, 0
	st.iteration, st.loss = extremes{}, attributes.Opt[float64]{}
	st.firstFinish, st.lastFinish = 0, 0
	st.flopsLoop = attributes.Count{}
}

// applicationEvents are the events that the start of the application records.
// They read the whole configuration, so that they are made before the lock is
// taken: its functions are the user's.
type applicationEvents struct {
	init   []attributes.Attr
	config []attributes.Attr // nil while there is no training configuration
}

func (r *Recorder) applicationEvents() (e applicationEvents, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	e.init = r.clean(r.initEvent().Append(nil))
	if t := r.training.Load(); t != nil {
		e.config = r.clean(configEvent(t).Append(nil))
	}
	return e, nil
}

// afterStart records the events that belong to the start of a span.
func (r *Recorder) afterStart(c *call, s *Span, e *applicationEvents) {
	if e.init != nil {
		c.event(s, outputs.Event{Name: spans.EventOneLoggerInitialization, Time: s.data.Start, Attributes: e.init}, false)
	}
	if e.config != nil {
		c.event(s, configRecord(e.config, c.now), false)
	}
}

func configRecord(attrs []attributes.Attr, at int64) outputs.Event {
	return outputs.Event{Name: spans.EventUpdateTrainingTelemetryConfig, Time: at, Attributes: attrs}
}

// complete does what the end of a standard span means for the state, and
// records its metrics. An error leaves the span to be stopped all the same, so
// that a problem in one iteration is not a problem in all that follow.
func (r *Recorder) complete(c *call, s *Span, t int64, f *failure, v *values) error {
	if s.index < 0 {
		return nil
	}
	st := &r.state
	d := t - s.data.Start
	switch s.index {
	case indexIteration:
		return r.completeIteration(c, s, t, d, f, v)
	case indexSaveSync, indexSaveAsync:
		st.windows[s.index].stop(d)
		r.completeSave(c, s, t, f, v)
	case indexFinalize:
		st.windows[s.index].stop(d)
		r.completeFinalization(c, s, t, f)
	case indexValidation:
		c.event(s, r.validationUpdate(c.now), false)
		st.validated = st.done
	case indexTesting:
		c.event(s, outputs.Event{
			Name: spans.EventTestingMetricsUpdate,
			Time: c.now,
			Attributes: attributes.TestingMetricsUpdate{
				CurrentIteration: max(0, st.done-1),
				Interval:         st.done - st.tested,
			}.Append(nil),
		}, false)
		st.tested = st.done
	case indexTraining:
		// The reference drops what a loop did since its last update.
		if st.done > st.reported && v.known && v.err == nil {
			c.event(s, r.trainingUpdate(v, true, c.now), true)
		}
	case indexEpoch:
		r.progress.SetEpoch(-1)
	default:
		if f != nil {
			st.windows[s.index].drop()
			return nil
		}
		st.windows[s.index].stop(d)
	}
	return nil
}
