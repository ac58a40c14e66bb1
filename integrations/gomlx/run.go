package gomlxspan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

// Options configures a Run. Nil and the zero value are the defaults.
type Options struct {
	// Context carries the parent of the application span, if any.
	Context context.Context

	// NoApplication is set if the program records the application span itself.
	NoApplication bool

	// Samples returns the number of samples of a batch over all ranks; 0 stands for
	// the global batch size of the configuration. If Samples is nil, a job of one
	// rank uses the first dimension of the first input.
	Samples func(train.Batch) int64
}

// Fused is the name of the argument of a step that lists what its graph does.
const Fused = "fused"

// fused is the value of Fused.
const fused = "forward,backward,update"

var (
	// ErrStopped is the error of a loop that [Run.Stop] stopped early.
	ErrStopped = errors.New("stopped early")

	// errUnfinished is the error of a step and a loop that did not reach their end.
	errUnfinished = errors.New("the loop ended in the middle, by an error or a panic of the trainer, a hook or the dataset")

	// errTooShort is the error of a loop whose dataset ended too early.
	errTooShort = errors.New("the dataset ended before the last step of the loop")
)

// Run records one application: any number of runs of its loops, evaluations and
// checkpoints. It is for one goroutine, that of the loop. A nil Run records
// nothing.
type Run struct {
	graphs
	cb   *callbacks.Callbacks
	ctx  context.Context
	opts Options

	fetch, step, evaluate dispatch.ScopeKind // nil: not recorded
	stepArgs              dispatch.LiveArgs
	alone                 bool // the job has one rank

	loop    *train.Loop
	state   loopState
	ended   bool
	stopped bool // by Stop
}

// loopState holds the open spans of a run of the loop.
type loopState struct {
	looping   bool
	epochs    bool // it runs epochs, not a number of steps
	inEpoch   bool
	inStep    bool
	stepStart int64 // start of the computation
	samples   int64
	last      time.Time // end of the last step, or start of the loop
	done      int       // steps of all runs, from the model's first step
}

// Start starts the application, for a program that loads a checkpoint before it
// creates the loop; attach the loop with [Run.Attach]. With a nil provider the
// Run records nothing.
func Start(tel *telemetry.Provider, o *Options) *Run {
	r := &Run{graphs: graphs{tel: tel, known: make(map[graphKey]*graphUse)}, cb: callbacks.New(tel), ctx: context.Background()}
	if o != nil {
		r.opts = *o
	}
	if r.opts.Context != nil {
		r.ctx = r.opts.Context
	}
	scopes := dispatch.SourceOf(tel.TracerProvider())
	r.fetch, r.step, r.evaluate = scopes.ScopeKind("dataloader", "fetch.iter"), scopes.ScopeKind("compute", "step"), scopes.ScopeKind("compute", "evaluate")
	r.stepArgs.Store(&dispatch.ScopeArgs{Attrs: []attribute.KeyValue{attribute.String(Fused, fused)}})
	r.alone = tel.Enabled() && tel.Config().WorldSize.Or(1) == 1
	if !r.opts.NoApplication {
		r.ctx, _ = r.cb.OnAppStart(r.ctx) // errors are in the log
	}
	return r
}

// Attach starts the application and records the loop. Its hooks run before all
// others of the same kind, so that a step does not include the time of other
// hooks.
func Attach(tel *telemetry.Provider, loop *train.Loop, o *Options) *Run {
	r := Start(tel, o)
	r.Attach(loop)
	return r
}

// Attach records the loop from its next run on.
func (r *Run) Attach(loop *train.Loop) {
	if r == nil || loop == nil || !r.tel.Enabled() {
		return
	}
	r.trainer = loop.Trainer // an evaluation may come before the first run
	const first, name = train.Priority(math.MinInt), "trainspan"
	loop.OnStart(name, first, func(loop *train.Loop, _ train.Dataset) error {
		r.start(loop)
		return nil
	})
	loop.OnStep(name, first, func(_ *train.Loop, metrics []*tensors.Tensor) error {
		r.endStep(metrics)
		return nil
	})
	loop.OnEnd(name, first, func(*train.Loop, []*tensors.Tensor) error {
		r.endLoop(nil)
		return nil
	})
	loop.Trainer.OnExecCreation(func(exec *model.Exec, kind train.GraphType) {
		r.created(exec, kind)
		if r.step != nil {
			r.state.stepStart = r.step.Now() // the step begins when its graph is built
		}
	})
}

// Context returns a context with the application span, for the program's own
// spans.
func (r *Run) Context() context.Context {
	if r == nil {
		return context.Background()
	}
	return r.ctx
}

// start records the start of a run of the loop.
func (r *Run) start(loop *train.Loop) {
	r.endLoop(errUnfinished) // an earlier run that was not ended
	r.loop, r.trainer = loop, loop.Trainer
	s := &r.state
	s.done, s.epochs, s.looping, r.stopped = loop.StartStep, loop.EndStep < 0, true, false
	start := callbacks.TrainStart{IterationsStart: loop.StartStep}
	if loop.EndStep >= 0 {
		start.IterationsTarget = config.Value(loop.EndStep)
	}
	_, _ = r.cb.OnTrainStart(r.ctx, start)
	s.last = r.now()
}

// beginStep records that the loop receives a batch.
func (r *Run) beginStep(samples int64) {
	s := &r.state
	s.inStep, s.samples = true, samples
	_, _ = r.cb.OnTrainingSingleIterationStart(r.ctx)
}

// endStep records that the loop has trained on a batch.
func (r *Run) endStep(metrics []*tensors.Tensor) {
	s := &r.state
	if !s.inStep { // the dataset is not wrapped: the step began at the end of the previous one
		_, _ = r.cb.OnTrainingSingleIterationStart(r.ctx, callbacks.Start{Time: s.last})
		s.samples = 0
	}
	watched := s.inStep
	s.inStep = false
	s.done++
	if r.step != nil && watched {
		r.step.Record(current, &r.stepArgs, 0, s.stepStart)
	}
	end := callbacks.IterationEnd{}
	if loss, ok := scalar(metrics); ok {
		end.Loss = callbacks.Some(loss)
	}
	if s.samples > 0 {
		end.Samples = callbacks.Some(s.samples)
	}
	_ = r.cb.OnTrainingSingleIterationEnd(r.ctx, end)
	s.last = r.now()
	r.takeNone() // an evaluation that follows may have a dataset that is not wrapped
}

// now returns the time by the clock of the telemetry.
func (r *Run) now() time.Time {
	if r.step != nil {
		return time.Unix(0, r.step.Now())
	}
	return time.Now()
}

// scalar returns the loss of a step: the first metric.
func scalar(metrics []*tensors.Tensor) (float64, bool) {
	if len(metrics) == 0 || metrics[0] == nil {
		return 0, false
	}
	v, err := metrics[0].ValueSafe()
	if err != nil {
		return 0, false
	}
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	case interface{ Float32() float32 }: // the half-precision types
		return float64(v.Float32()), true
	}
	return 0, false
}

// endLoop ends the open spans of a run of the loop.
func (r *Run) endLoop(err error) {
	s := &r.state
	if s.inStep {
		s.inStep = false
		_ = r.cb.OnTrainingSingleIterationEnd(r.ctx, callbacks.IterationEnd{Err: cmp.Or(err, errUnfinished)})
	}
	r.endEpoch(err)
	if s.looping {
		s.looping = false
		_ = r.cb.OnTrainEnd(r.ctx, callbacks.End{Err: err})
	}
}

func (r *Run) endEpoch(err error) {
	if r.state.inEpoch {
		r.state.inEpoch = false
		_ = r.cb.OnEpochEnd(r.ctx, callbacks.End{Err: err})
	}
}

// Stop is for a hook that ends the training early: the hook returns Stop's
// result, which ends the loop and is not recorded as a failure. The error of
// the loop matches ErrStopped.
func (r *Run) Stop(reason string) error {
	if r != nil {
		r.stopped = true
		r.state.note(r.tel, reason)
	}
	return fmt.Errorf("%w: %s", ErrStopped, reason)
}

// note records an event of the loop.
func (s *loopState) note(tel *telemetry.Provider, reason string) {
	if s.looping {
		_, span := tel.StartSpan(current, "early_stop", attribute.String("reason", reason))
		span.End()
	}
}

// End ends all open spans, and the application span unless the program records
// that itself, with the error that err points to: defer run.End(&err).
// ErrStopped is not a failure. End records a panic and lets it continue. Later
// calls do nothing.
//
// The end of the application ends the recording: see telemetry.Provider.
func (r *Run) End(err *error) {
	var failed error
	if err != nil && !errors.Is(*err, ErrStopped) {
		failed = *err
	}
	if p := recover(); p != nil {
		defer panic(p)
		failed = errors.Join(failed, fmt.Errorf("panic: %v", p))
	}
	if r == nil || r.ended {
		return
	}
	r.ended = true
	r.endLoop(failed)
	if !r.opts.NoApplication {
		_ = r.cb.OnAppEnd(r.ctx, callbacks.End{Err: failed})
	}
}
