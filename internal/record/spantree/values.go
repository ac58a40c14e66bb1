package spantree

import (
	"fmt"
	"math"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
)

// Values are the values of the training configuration that a call needs. They may come
// from functions of the program; only [Read] calls these.
type Values struct {
	known      bool
	err        error // a configuration function panicked
	batch      int64
	seq        int64
	flops      int64 // per sample
	world      int64
	throughput bool
	every      int64
	iterations attributes.Opt[int64] // targets
	samples    attributes.Opt[int64]

	Async bool // saves are asynchronous
	Saves bool // saves are recorded
}

// Read returns the values of a training configuration, which may be nil. targets reports
// whether the targets are needed.
func Read(t *config.Training, base *config.Base, targets bool) (v Values) {
	if t == nil {
		return Values{}
	}
	defer func() {
		if p := recover(); p != nil {
			v.err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	v.known = true
	v.batch = int64(t.GlobalBatchSize.Get())
	v.seq = int64(t.SeqLength.Get())
	v.every = max(1, int64(t.LogEveryNTrainIterations.Get())) // a function may return any number
	v.Saves = t.IsSaveCheckpointEnabled.Or(true)
	v.Async = t.SaveCheckpointStrategy == config.CheckpointAsync
	v.world = int64(base.WorldSize.Get())
	if v.throughput = t.IsLogThroughputEnabled.Or(false); v.throughput || targets {
		v.flops = int64(t.FlopsPerSample.Get())
	}
	if targets {
		v.iterations = Int64(t.TrainIterationsTarget)
		v.samples = Int64(t.TrainSamplesTarget)
	}
	return v
}

// Int64 returns the current value of a number of the configuration.
func Int64(v config.Var[int]) attributes.Opt[int64] {
	if !v.IsSet() {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(int64(v.Get()))
}

// Required returns an error if the training configuration is not set, or if one of its
// functions panicked.
func (v *Values) Required() error {
	if v.err != nil {
		return v.err
	}
	if !v.known {
		return errNoTraining
	}
	return nil
}

var errNoTraining = &failure.Worded{
	Text: "the training configuration is not set: pass it to WithTrainingConfig or call Provider.SetTrainingConfig before training starts",
	Record: "Training telemetry config must be set before the start of training. " +
		"See the api for TrainingTelemetryProvider.set_training_telemetry_config for more details.",
}

// flopsPerIteration returns the operations of one iteration over all ranks.
func (v *Values) flopsPerIteration() attrvalue.Count {
	return attrvalue.Product(v.batch, v.flops)
}

// TrainingEvent returns the content of the update_training_telemetry_config event.
func TrainingEvent(t *config.Training) (attrs []attributes.Attr, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	a := onelogger.TrainingTelemetry{
		GlobalBatchSize:               Int64(t.GlobalBatchSize),
		LogEveryNTrainIterations:      int64(t.LogEveryNTrainIterations.Get()),
		MicroBatchSize:                Int64(t.MicroBatchSize),
		SeqLength:                     Int64(t.SeqLength),
		FlopsPerSample:                Int64(t.FlopsPerSample),
		TrainIterationsTarget:         Int64(t.TrainIterationsTarget),
		TrainSamplesTarget:            Int64(t.TrainSamplesTarget),
		CheckpointStrategy:            t.SaveCheckpointStrategy,
		IsTrainIterationsEnabled:      t.IsTrainIterationsEnabled.Or(true),
		IsValidationIterationsEnabled: t.IsValidationIterationsEnabled.Or(true),
		IsTestIterationsEnabled:       t.IsTestIterationsEnabled.Or(true),
		IsSaveCheckpointEnabled:       t.IsSaveCheckpointEnabled.Or(true),
		IsLogThroughputEnabled:        t.IsLogThroughputEnabled.Or(false),
	}
	if tags, list := settings.Tags(t); list {
		a.PerfTags = append([]string{}, tags...)
	} else if len(tags) > 0 {
		a.PerfTag = tags[0]
	}
	if len(t.CustomMetadata) > 0 {
		a.CustomMetadata = t.CustomMetadata.Strings()
	}
	return a.Append(nil), nil
}

const tera = 1e12

// Seconds converts nanoseconds to seconds. Whole milliseconds give the double that is
// nearest to the decimal fraction, like a division of the milliseconds by 1000.
func Seconds(ns int64) float64 {
	if ns%int64(time.Millisecond) == 0 {
		return float64(ns/int64(time.Millisecond)) / 1000
	}
	whole, frac := ns/int64(time.Second), ns%int64(time.Second)
	return float64(whole) + float64(frac)/float64(time.Second)
}

// window counts the spans of one kind and sums up their time.
type window struct {
	count    int64 // spans started, without failed ones
	total    int64 // nanoseconds
	min, max int64 // nanoseconds
	timed    bool  // whether min is set
}

func (w *window) start() { w.count++ }

// drop removes a failed span from the count.
func (w *window) drop() { w.count-- }

func (w *window) stop(d int64) {
	if !w.timed {
		w.min, w.timed = d, true
	}
	w.min = min(w.min, d)
	w.max = max(w.max, d)
	w.total = saturate(w.total, d)
}

func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// avg returns the mean in seconds over the spans started, like one-logger.
func (w *window) avg() float64 {
	if w.count == 0 {
		return 0
	}
	return Seconds(w.total) / float64(w.count)
}

// average returns the mean in seconds, or unset if no span was timed.
func (w *window) average() attributes.Opt[float64] {
	if !w.timed || w.count == 0 {
		return attributes.Opt[float64]{}
	}
	return attributes.Some(w.avg())
}

// extremes holds the last, smallest and largest of a series of values.
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
