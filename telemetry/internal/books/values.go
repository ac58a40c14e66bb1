package books

import (
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/attrvalue"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/settings"
	"github.com/trainspan/trainspan/telemetry/internal/failure"
)

// Values are the parts of the training configuration that a call needs. They
// may come from functions of the program, which are called by [Read] only.
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

// Read returns the values of a training configuration, which may be nil; targets
// too if asked.
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
	v.every = max(1, int64(t.LogEveryNTrainIterations.Get())) // a function may give any number
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

// Int64 returns what a number of the configuration is now.
func Int64(v config.Var[int]) attributes.Opt[int64] {
	if !v.IsSet() {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(int64(v.Get()))
}

// Required reports why a call that needs the training configuration cannot go on.
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
	Text: "the training configuration is not known: give it to WithTrainingConfig or call Provider.SetTrainingConfig before training starts",
	Record: "Training telemetry config must be set before the start of training. " +
		"See the api for TrainingTelemetryProvider.set_training_telemetry_config for more details.",
}

// flopsPerIteration is what one iteration over all ranks costs.
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
	a := grammar.TrainingTelemetry{
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
