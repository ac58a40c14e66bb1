package recorder

import (
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
)

// values are the parts of the training configuration that a call needs. They
// are read before the recorder's lock is taken, because they may come from
// functions of the user.
type values struct {
	known      bool
	err        error // a configuration function panicked
	batch      int64
	seq        int64
	flops      int64 // per sample
	world      int64
	throughput bool
	every      int64

	saves      bool
	async      bool
	iterations attributes.Opt[int64] // targets
	samples    attributes.Opt[int64]
}

// flopsPerIteration is what one iteration over all ranks costs.
func (v *values) flopsPerIteration() attributes.Count {
	return attributes.Product(v.batch, v.flops)
}

// valuesFor reads the configuration that the end of such a span needs.
func (r *Recorder) valuesFor(index int) values {
	switch index {
	case indexIteration, indexSaveSync, indexSaveAsync, indexTraining:
		return r.values(false)
	}
	return values{}
}

// values reads the training configuration; targets too if asked.
func (r *Recorder) values(targets bool) (v values) {
	if r == nil {
		return values{}
	}
	t := r.training.Load()
	if t == nil {
		return values{}
	}
	defer func() {
		if p := recover(); p != nil {
			v.err = fmt.Errorf("a configuration function panicked: %v", p)
		}
	}()
	v.known = true
	v.batch = int64(t.GlobalBatchSize.Get())
	v.seq = int64(t.SeqLength.Get())
	v.every = max(1, int64(t.LogEveryNTrainIterations.Or(50))) // a function may give any number
	v.saves = t.IsSaveCheckpointEnabled.Or(true)
	v.async = t.SaveCheckpointStrategy == config.CheckpointAsync
	v.world = int64(r.base.WorldSize.Get())
	if v.throughput = t.IsLogThroughputEnabled.Or(false); v.throughput || targets {
		v.flops = int64(t.FlopsPerSample.Get())
	}
	if targets {
		v.iterations = optional(t.TrainIterationsTarget)
		v.samples = optional(t.TrainSamplesTarget)
	}
	return v
}

func optional(v config.Var[int]) attributes.Opt[int64] {
	if !v.IsSet() {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(int64(v.Get()))
}

// required reports why a call that needs the training configuration cannot go on.
func (v *values) required() error {
	if v.err != nil {
		return v.err
	}
	if !v.known {
		return errNoTraining
	}
	return nil
}

var errNoTraining = &worded{
	"the training configuration is not known: give it to WithTrainingConfig or call Provider.SetTrainingConfig before training starts",
	"Training telemetry config must be set before the start of training. " +
		"See the api for TrainingTelemetryProvider.set_training_telemetry_config for more details.",
}

// configEvent is the content of the update_training_telemetry_config event.
func configEvent(t *config.Training) attributes.TrainingTelemetry {
	a := attributes.TrainingTelemetry{
		GlobalBatchSize:               optional(t.GlobalBatchSize),
		LogEveryNTrainIterations:      int64(t.LogEveryNTrainIterations.Or(50)),
		MicroBatchSize:                optional(t.MicroBatchSize),
		SeqLength:                     optional(t.SeqLength),
		FlopsPerSample:                optional(t.FlopsPerSample),
		TrainIterationsTarget:         optional(t.TrainIterationsTarget),
		TrainSamplesTarget:            optional(t.TrainSamplesTarget),
		CheckpointStrategy:            t.SaveCheckpointStrategy,
		IsTrainIterationsEnabled:      t.IsTrainIterationsEnabled.Or(true),
		IsValidationIterationsEnabled: t.IsValidationIterationsEnabled.Or(true),
		IsTestIterationsEnabled:       t.IsTestIterationsEnabled.Or(true),
		IsSaveCheckpointEnabled:       t.IsSaveCheckpointEnabled.Or(true),
		IsLogThroughputEnabled:        t.IsLogThroughputEnabled.Or(false),
	}
	if tags, list := t.Tags(); list {
		a.PerfTags = append([]string{}, tags...)
	} else if len(tags) > 0 {
		a.PerfTag = tags[0]
	}
	if len(t.CustomMetadata) > 0 {
		a.CustomMetadata = t.CustomMetadata.Strings()
	}
	return a
}

// initEvent is the content of the one_logger_initialization event.
func (r *Recorder) initEvent() attributes.Initialization {
	a := attributes.Initialization{
		WorldSize:                int64(r.base.WorldSize.Get()),
		TelemetryVersion:         r.id.Version,
		EnableForCurrentRank:     r.base.Enabled(),
		SessionTag:               r.base.SessionTag.Get(),
		IsBaselineRun:            r.base.IsBaselineRun.Get(),
		SummaryDataSchemaVersion: r.base.SummaryDataSchemaVersion,
		NodeName:                 r.id.Host,
		Rank:                     int64(r.id.Rank.Get()),
	}
	if len(r.base.CustomMetadata) > 0 {
		a.CustomMetadata = r.base.CustomMetadata.Strings()
	}
	return a
}

// clean repairs attribute values that an output could not take, and counts
// them.
func (r *Recorder) clean(attrs []attributes.Attr) []attributes.Attr {
	attrs, repaired := attributes.Clean(attrs)
	if repaired > 0 && r != nil {
		r.repairedValues.Add(int64(repaired))
	}
	return attrs
}

// maxAttributes bounds the attributes of a span: one that lives for weeks must
// not grow without end.
const maxAttributes = 512

// upsert sets an attribute. A known key keeps its place. The slice that was
// there before stays as it is, because records may refer to it; appending is
// beyond their ends.
func upsert(attrs []attributes.Attr, a attributes.Attr) []attributes.Attr {
	for i := range attrs {
		if attrs[i].Key == a.Key {
			own := append(make([]attributes.Attr, 0, cap(attrs)), attrs...)
			own[i] = a
			return own
		}
	}
	return append(attrs, a)
}
