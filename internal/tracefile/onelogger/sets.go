package onelogger

import (
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
)

// TrainingLoop holds the attributes of the training_loop span
// (TrainingLoopAttributes in one-logger).
type TrainingLoop struct {
	TrainIterationsStart  int64                           // iterations done by earlier runs of the job
	TrainSamplesStart     attributes.Opt[int64]           // samples consumed by earlier runs of the job
	TrainTokensTarget     attributes.Opt[int64]           // sequence length times samples target
	CompletedFLOPsOverall attributes.Opt[attrvalue.Count] // floating-point operations of the whole job so far, all ranks
	TrainIterationsTarget attributes.Opt[int64]
	TrainSamplesTarget    attributes.Opt[int64]
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a TrainingLoop) Append(dst []attributes.Attr) []attributes.Attr {
	dst = append(dst,
		attrvalue.Int(TrainIterationsStart, a.TrainIterationsStart))
	dst = appendInt(dst, TrainSamplesStart, a.TrainSamplesStart)
	dst = appendInt(dst, TrainTokensTarget, a.TrainTokensTarget)
	dst = appendCount(dst, CompletedFloatingPointOperationsOverall, a.CompletedFLOPsOverall)
	dst = appendInt(dst, TrainIterationsTarget, a.TrainIterationsTarget)
	return appendInt(dst, TrainSamplesTarget, a.TrainSamplesTarget)
}

// CheckpointSave holds the attributes of the checkpoint_save_sync and
// checkpoint_save_async spans (CheckpointSaveSpanAttributes).
type CheckpointSave struct {
	Strategy         string // CheckpointSync or CheckpointAsync
	CurrentIteration int64  // the global step of the checkpoint
	AttemptCount     int64  // saves started so far, including this one and failed ones
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a CheckpointSave) Append(dst []attributes.Attr) []attributes.Attr {
	return append(dst,
		attrvalue.String(CheckpointStrategy, a.Strategy),
		attrvalue.Int(CurrentIteration, a.CurrentIteration),
		attrvalue.Int(SaveCheckpointAttemptCount, a.AttemptCount))
}

// Initialization holds the attributes of the one_logger_initialization event
// (OneLoggerInitializationAttributes).
type Initialization struct {
	WorldSize                int64
	TelemetryVersion         string
	EnableForCurrentRank     bool
	SessionTag               string
	IsBaselineRun            bool
	SummaryDataSchemaVersion string
	NodeName                 string
	Rank                     int64
	CustomMetadata           []string // "key:value" items; nil leaves the attribute out
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a Initialization) Append(dst []attributes.Attr) []attributes.Attr {
	dst = append(dst,
		attrvalue.Int(WorldSize, a.WorldSize),
		attrvalue.String(OneLoggerTrainingTelemetryVersion, a.TelemetryVersion),
		attrvalue.Bool(EnableForCurrentRank, a.EnableForCurrentRank),
		attrvalue.String(SessionTag, a.SessionTag),
		attrvalue.Bool(IsBaselineRun, a.IsBaselineRun),
		attrvalue.String(SummaryDataSchemaVersion, a.SummaryDataSchemaVersion),
		attrvalue.String(NodeName, a.NodeName),
		attrvalue.Int(Rank, a.Rank))
	return appendMetadata(dst, a.CustomMetadata)
}

func appendMetadata(dst []attributes.Attr, items []string) []attributes.Attr {
	if items != nil {
		dst = append(dst, attrvalue.Strings(CustomMetadata, items))
	}
	return dst
}

// TrainingTelemetry holds the attributes of the
// update_training_telemetry_config event (TrainingTelemetryAttributes).
type TrainingTelemetry struct {
	PerfTag  string
	PerfTags []string // if not nil, written instead of PerfTag, as a list

	GlobalBatchSize          attributes.Opt[int64]
	LogEveryNTrainIterations int64
	MicroBatchSize           attributes.Opt[int64]
	SeqLength                attributes.Opt[int64]
	FlopsPerSample           attributes.Opt[int64]
	TrainIterationsTarget    attributes.Opt[int64]
	TrainSamplesTarget       attributes.Opt[int64]
	CheckpointStrategy       string

	IsTrainIterationsEnabled      bool
	IsValidationIterationsEnabled bool
	IsTestIterationsEnabled       bool
	IsSaveCheckpointEnabled       bool
	IsLogThroughputEnabled        bool

	CustomMetadata []string // "key:value" items; nil leaves the attribute out
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a TrainingTelemetry) Append(dst []attributes.Attr) []attributes.Attr {
	if a.PerfTags != nil {
		dst = append(dst, attrvalue.Strings(PerfTag, a.PerfTags))
	} else {
		dst = append(dst, attrvalue.String(PerfTag, a.PerfTag))
	}
	dst = appendInt(dst, GlobalBatchSize, a.GlobalBatchSize)
	dst = append(dst, attrvalue.Int(LogEveryNTrainIterations, a.LogEveryNTrainIterations))
	dst = appendInt(dst, MicroBatchSize, a.MicroBatchSize)
	dst = appendInt(dst, SeqLength, a.SeqLength)
	dst = appendInt(dst, FlopsPerSample, a.FlopsPerSample)
	dst = appendInt(dst, TrainIterationsTarget, a.TrainIterationsTarget)
	dst = appendInt(dst, TrainSamplesTarget, a.TrainSamplesTarget)
	dst = append(dst,
		attrvalue.String(CheckpointStrategy, a.CheckpointStrategy),
		attrvalue.Bool(IsTrainIterationsEnabled, a.IsTrainIterationsEnabled),
		attrvalue.Bool(IsValidationIterationsEnabled, a.IsValidationIterationsEnabled),
		attrvalue.Bool(IsTestIterationsEnabled, a.IsTestIterationsEnabled),
		attrvalue.Bool(IsSaveCheckpointEnabled, a.IsSaveCheckpointEnabled),
		attrvalue.Bool(IsLogThroughputEnabled, a.IsLogThroughputEnabled))
	return appendMetadata(dst, a.CustomMetadata)
}

// TrainingMetricsUpdate holds the attributes of the training_metrics_update
// event (TrainingMetricsUpdateAttributes). Times are in seconds; throughput is
// in 10^12 floating-point operations per second and GPU, averaged over the job.
type TrainingMetricsUpdate struct {
	TrainIterationsStart int64
	CurrentIteration     int64 // zero-based
	NumIterations        int64 // iterations of this loop so far
	TrainSamplesStart    attributes.Opt[int64]
	NumTrainSamples      attributes.Opt[int64] // samples of this process so far
	Interval             int64                 // iterations between two updates

	AvgIterationTimeSec   float64
	MinIterationTimeSec   float64
	MaxIterationTimeSec   float64
	TotalIterationTimeSec float64

	// one-logger defines the next four and never fills them.
	AvgForwardTimeSec    attributes.Opt[float64]
	AvgBackwardTimeSec   attributes.Opt[float64]
	AvgDataloaderTimeSec attributes.Opt[float64]
	AvgTFLOPS            attributes.Opt[float64]

	TrainTokens attributes.Opt[int64]

	// one-logger defines the next three and never fills them.
	AvgTokensPerSecond attributes.Opt[float64]
	LatestLoss         attributes.Opt[float64]
	AvgBatchSize       attributes.Opt[float64]

	CompletedFLOPsOverall attributes.Opt[attrvalue.Count]
	TotalFLOPs            attrvalue.Count

	ThroughputPerGPU    attributes.Opt[float64] // the running average
	ThroughputPerGPUMax attributes.Opt[float64] // the largest running average so far
	ThroughputPerGPUMin attributes.Opt[float64] // the smallest running average so far

	FirstLoggedFinishSec float64 // end of the first iteration, seconds since the epoch
	LastLoggedFinishSec  float64 // end of this iteration, seconds since the epoch

	// Extensions: throughput of single iterations since the last update, a flag for
	// the update at the end of a loop between two regular updates, and the number
	// of failed iterations.
	IterationThroughputLast attributes.Opt[float64]
	IterationThroughputMin  attributes.Opt[float64]
	IterationThroughputMax  attributes.Opt[float64]
	Partial                 bool
	FailedIterations        int64
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a TrainingMetricsUpdate) Append(dst []attributes.Attr) []attributes.Attr {
	dst = append(dst,
		attrvalue.Int(TrainIterationsStart, a.TrainIterationsStart),
		attrvalue.Int(CurrentIteration, a.CurrentIteration),
		attrvalue.Int(NumIterations, a.NumIterations))
	dst = appendInt(dst, TrainSamplesStart, a.TrainSamplesStart)
	dst = appendInt(dst, NumTrainSamples, a.NumTrainSamples)
	dst = append(dst,
		attrvalue.Int(Interval, a.Interval),
		attrvalue.Float(AvgIterationTimeSec, a.AvgIterationTimeSec),
		attrvalue.Float(MinIterationTimeSec, a.MinIterationTimeSec),
		attrvalue.Float(MaxIterationTimeSec, a.MaxIterationTimeSec),
		attrvalue.Float(TotalIterationTimeSec, a.TotalIterationTimeSec))
	dst = appendExtra(dst, AvgForwardTimeSec, a.AvgForwardTimeSec)
	dst = appendExtra(dst, AvgBackwardTimeSec, a.AvgBackwardTimeSec)
	dst = appendExtra(dst, AvgDataloaderTimeSec, a.AvgDataloaderTimeSec)
	dst = appendExtra(dst, AvgTFLOPS, a.AvgTFLOPS)
	dst = appendInt(dst, TrainTokens, a.TrainTokens)
	dst = appendExtra(dst, AvgTokensPerSecond, a.AvgTokensPerSecond)
	dst = appendExtra(dst, LatestLoss, a.LatestLoss)
	dst = appendExtra(dst, AvgBatchSize, a.AvgBatchSize)
	dst = appendCount(dst, CompletedFloatingPointOperationsOverall, a.CompletedFLOPsOverall)
	dst = append(dst, attrvalue.CountOf(TotalFlops, a.TotalFLOPs))
	dst = appendFloat(dst, TrainThroughputPerGPU, a.ThroughputPerGPU)
	dst = appendFloat(dst, TrainThroughputPerGPUMax, a.ThroughputPerGPUMax)
	dst = appendFloat(dst, TrainThroughputPerGPUMin, a.ThroughputPerGPUMin)
	dst = append(dst,
		attrvalue.Float(FirstLoggedTrainIterationsFinishTime, a.FirstLoggedFinishSec),
		attrvalue.Float(LastLoggedTrainIterationsFinishTime, a.LastLoggedFinishSec))
	dst = appendExtra(dst, IterationThroughputPerGPULast, a.IterationThroughputLast)
	dst = appendExtra(dst, IterationThroughputPerGPUMin, a.IterationThroughputMin)
	dst = appendExtra(dst, IterationThroughputPerGPUMax, a.IterationThroughputMax)
	if a.Partial {
		dst = append(dst, attrvalue.Extend(attrvalue.Bool(PartialInterval, true))...)
	}
	if a.FailedIterations > 0 {
		dst = append(dst, attrvalue.Extend(attrvalue.Int(FailedIterations, a.FailedIterations))...)
	}
	return dst
}

// ValidationMetricsUpdate holds the attributes of the validation_metrics_update
// event (ValidationMetricsUpdateAttributes). The times are set if a validation
// iteration was timed.
type ValidationMetricsUpdate struct {
	CurrentIteration      int64 // the last finished training iteration, zero-based
	Interval              int64 // training iterations since the last validation loop
	AvgIterationTimeSec   attributes.Opt[float64]
	MinIterationTimeSec   attributes.Opt[float64]
	MaxIterationTimeSec   attributes.Opt[float64]
	TotalIterationTimeSec attributes.Opt[float64]
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a ValidationMetricsUpdate) Append(dst []attributes.Attr) []attributes.Attr {
	dst = append(dst, attrvalue.Int(CurrentIteration, a.CurrentIteration), attrvalue.Int(Interval, a.Interval))
	dst = appendFloat(dst, AvgIterationTimeSec, a.AvgIterationTimeSec)
	dst = appendFloat(dst, MinIterationTimeSec, a.MinIterationTimeSec)
	dst = appendFloat(dst, MaxIterationTimeSec, a.MaxIterationTimeSec)
	return appendFloat(dst, TotalIterationTimeSec, a.TotalIterationTimeSec)
}

// TestingMetricsUpdate holds the attributes of the testing_metrics_update event
// (TestingMetricsUpdateAttributes).
type TestingMetricsUpdate struct {
	CurrentIteration int64 // the last finished training iteration, zero-based
	Interval         int64 // training iterations since the last testing loop
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a TestingMetricsUpdate) Append(dst []attributes.Attr) []attributes.Attr {
	return append(dst, attrvalue.Int(CurrentIteration, a.CurrentIteration), attrvalue.Int(Interval, a.Interval))
}

// SaveCheckpointSuccess holds the attributes of the save_checkpoint_success
// event (SaveCheckpointSuccessEventAttributes). The productive numbers are from
// the moment at which the save of this step began.
type SaveCheckpointSuccess struct {
	Strategy         string
	CurrentIteration int64 // the global step of the checkpoint

	FirstSuccessSec  float64 // seconds since the epoch
	LatestSuccessSec float64 // seconds since the epoch
	SuccessCount     int64

	ProductiveTrainIterations         int64
	ProductiveTrainSamples            attributes.Opt[int64]
	ProductiveTrainIterationsSec      float64
	ProductiveValidationIterationsSec float64
	ProductiveTrainTFLOPs             attributes.Opt[float64] // 10^12 floating-point operations, not a rate

	Size             attributes.Opt[int64]   // bytes
	Directory        string                  // left out when empty
	TrainingStartSec attributes.Opt[float64] // seconds since the epoch
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a SaveCheckpointSuccess) Append(dst []attributes.Attr) []attributes.Attr {
	dst = append(dst,
		attrvalue.String(CheckpointStrategy, a.Strategy),
		attrvalue.Int(CurrentIteration, a.CurrentIteration),
		attrvalue.Float(FirstSuccessfulSaveCheckpointTimestamp, a.FirstSuccessSec),
		attrvalue.Float(LatestSuccessfulSaveCheckpointTimestamp, a.LatestSuccessSec),
		attrvalue.Int(SaveCheckpointSuccessCount, a.SuccessCount),
		attrvalue.Int(ProductiveTrainIterations, a.ProductiveTrainIterations))
	dst = appendInt(dst, ProductiveTrainSamples, a.ProductiveTrainSamples)
	dst = append(dst,
		attrvalue.Float(ProductiveTrainIterationsSec, a.ProductiveTrainIterationsSec),
		attrvalue.Float(ProductiveValidationIterationsSec, a.ProductiveValidationIterationsSec))
	dst = appendFloat(dst, ProductiveTrainTFLOPs, a.ProductiveTrainTFLOPs)
	if a.Size.IsSet() {
		dst = append(dst, attrvalue.Extend(attrvalue.Int(CheckpointSize, a.Size.Get()))...)
	}
	if a.Directory != "" {
		dst = append(dst, attrvalue.Extend(attrvalue.String(CheckpointDirectory, a.Directory))...)
	}
	return appendFloat(dst, TrainingStartTimestampSec, a.TrainingStartSec)
}

// SyncCheckpointMetricsUpdate holds the attributes of the
// sync_checkpoint_metrics_update event (SyncCheckpointMetricsUpdateAttributes):
// the time that saves blocked the training loop, in seconds.
type SyncCheckpointMetricsUpdate struct {
	TotalSec, MinSec, MaxSec float64
}

// Append appends the attributes to dst in the order of the grammar, without those
// that are not set.
func (a SyncCheckpointMetricsUpdate) Append(dst []attributes.Attr) []attributes.Attr {
	return append(dst,
		attrvalue.Float(SaveCheckpointSyncTimeTotalSec, a.TotalSec),
		attrvalue.Float(SaveCheckpointSyncTimeMinSec, a.MinSec),
		attrvalue.Float(SaveCheckpointSyncTimeMaxSec, a.MaxSec))
}
