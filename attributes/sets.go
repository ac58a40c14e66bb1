package attributes

// TrainingLoop are the attributes of the training_loop span
// (TrainingLoopAttributes of the reference).
type TrainingLoop struct {
	TrainIterationsStart  int64      // iterations done by earlier runs of the job
	TrainSamplesStart     Opt[int64] // samples consumed by earlier runs of the job
	TrainTokensTarget     Opt[int64] // sequence length times samples target
	CompletedFLOPsOverall Opt[Count] // operations of the whole job so far, all ranks
	TrainIterationsTarget Opt[int64]
	TrainSamplesTarget    Opt[int64]
}

// Append implements [Set].
func (a TrainingLoop) Append(dst []Attr) []Attr {
	dst = append(dst,
		Int(TrainIterationsStart, a.TrainIterationsStart))
	dst = appendInt(dst, TrainSamplesStart, a.TrainSamplesStart)
	dst = appendInt(dst, TrainTokensTarget, a.TrainTokensTarget)
	dst = appendCount(dst, CompletedFloatingPointOperationsOverall, a.CompletedFLOPsOverall)
	dst = appendInt(dst, TrainIterationsTarget, a.TrainIterationsTarget)
	return appendInt(dst, TrainSamplesTarget, a.TrainSamplesTarget)
}

// CheckpointSave are the attributes of the checkpoint_save_sync and
// checkpoint_save_async spans (CheckpointSaveSpanAttributes).
type CheckpointSave struct {
	Strategy         string // CheckpointSync or CheckpointAsync
	CurrentIteration int64  // the global step that is saved
	AttemptCount     int64  // saves started so far, this one and failed ones included
}

// Append implements [Set].
func (a CheckpointSave) Append(dst []Attr) []Attr {
	return append(dst,
		String(CheckpointStrategy, a.Strategy),
		Int(CurrentIteration, a.CurrentIteration),
		Int(SaveCheckpointAttemptCount, a.AttemptCount))
}

// Initialization are the attributes of the one_logger_initialization event
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

// Append implements [Set].
func (a Initialization) Append(dst []Attr) []Attr {
	dst = append(dst,
		Int(WorldSize, a.WorldSize),
		String(OneLoggerTrainingTelemetryVersion, a.TelemetryVersion),
		Bool(EnableForCurrentRank, a.EnableForCurrentRank),
		String(SessionTag, a.SessionTag),
		Bool(IsBaselineRun, a.IsBaselineRun),
		String(SummaryDataSchemaVersion, a.SummaryDataSchemaVersion),
		String(NodeName, a.NodeName),
		Int(Rank, a.Rank))
	return appendMetadata(dst, a.CustomMetadata)
}

func appendMetadata(dst []Attr, items []string) []Attr {
	if items != nil {
		dst = append(dst, Strings(CustomMetadata, items))
	}
	return dst
}

// TrainingTelemetry are the attributes of the
// update_training_telemetry_config event (TrainingTelemetryAttributes).
type TrainingTelemetry struct {
	PerfTag  string
	PerfTags []string // when not nil, written instead of PerfTag, as a list

	GlobalBatchSize          Opt[int64]
	LogEveryNTrainIterations int64
	MicroBatchSize           Opt[int64]
	SeqLength                Opt[int64]
	FlopsPerSample           Opt[int64]
	TrainIterationsTarget    Opt[int64]
	TrainSamplesTarget       Opt[int64]
	CheckpointStrategy       string

	IsTrainIterationsEnabled      bool
	IsValidationIterationsEnabled bool
	IsTestIterationsEnabled       bool
	IsSaveCheckpointEnabled       bool
	IsLogThroughputEnabled        bool

	CustomMetadata []string // "key:value" items; nil leaves the attribute out
}

// Append implements [Set].
func (a TrainingTelemetry) Append(dst []Attr) []Attr {
	if a.PerfTags != nil {
		dst = append(dst, Strings(PerfTag, a.PerfTags))
	} else {
		dst = append(dst, String(PerfTag, a.PerfTag))
	}
	dst = appendInt(dst, GlobalBatchSize, a.GlobalBatchSize)
	dst = append(dst, Int(LogEveryNTrainIterations, a.LogEveryNTrainIterations))
	dst = appendInt(dst, MicroBatchSize, a.MicroBatchSize)
	dst = appendInt(dst, SeqLength, a.SeqLength)
	dst = appendInt(dst, FlopsPerSample, a.FlopsPerSample)
	dst = appendInt(dst, TrainIterationsTarget, a.TrainIterationsTarget)
	dst = appendInt(dst, TrainSamplesTarget, a.TrainSamplesTarget)
	dst = append(dst,
		String(CheckpointStrategy, a.CheckpointStrategy),
		Bool(IsTrainIterationsEnabled, a.IsTrainIterationsEnabled),
		Bool(IsValidationIterationsEnabled, a.IsValidationIterationsEnabled),
		Bool(IsTestIterationsEnabled, a.IsTestIterationsEnabled),
		Bool(IsSaveCheckpointEnabled, a.IsSaveCheckpointEnabled),
		Bool(IsLogThroughputEnabled, a.IsLogThroughputEnabled))
	return appendMetadata(dst, a.CustomMetadata)
}

// TrainingMetricsUpdate are the attributes of the training_metrics_update
// event (TrainingMetricsUpdateAttributes). Times are in seconds, throughput in
// 10^12 floating-point operations per second and GPU, averaged over the job.
type TrainingMetricsUpdate struct {
	TrainIterationsStart int64
	CurrentIteration     int64 // zero-based
	NumIterations        int64 // iterations of this loop so far
	TrainSamplesStart    Opt[int64]
	NumTrainSamples      Opt[int64] // samples of this process so far
	Interval             int64      // iterations between two updates

	AvgIterationTimeSec   float64
	MinIterationTimeSec   float64
	MaxIterationTimeSec   float64
	TotalIterationTimeSec float64

	// The reference defines the next four and never fills them.
	AvgForwardTimeSec    Opt[float64]
	AvgBackwardTimeSec   Opt[float64]
	AvgDataloaderTimeSec Opt[float64]
	AvgTFLOPS            Opt[float64]

	TrainTokens Opt[int64]

	// The reference defines the next three and never fills them.
	AvgTokensPerSecond Opt[float64]
	LatestLoss         Opt[float64]
	AvgBatchSize       Opt[float64]

	CompletedFLOPsOverall Opt[Count]
	TotalFLOPs            Count

	ThroughputPerGPU    Opt[float64] // the running average
	ThroughputPerGPUMax Opt[float64] // the largest running average so far
	ThroughputPerGPUMin Opt[float64] // the smallest running average so far

	FirstLoggedFinishSec float64 // end of the first iteration, seconds since the epoch
	LastLoggedFinishSec  float64 // end of this iteration, seconds since the epoch

	// Extensions: throughput of single iterations since the last update, the
	// mark of the update that closes a loop between two updates, and the
	// iterations that failed.
	IterationThroughputLast Opt[float64]
	IterationThroughputMin  Opt[float64]
	IterationThroughputMax  Opt[float64]
	Partial                 bool
	FailedIterations        int64
}

// Append implements [Set].
func (a TrainingMetricsUpdate) Append(dst []Attr) []Attr {
	dst = append(dst,
		Int(TrainIterationsStart, a.TrainIterationsStart),
		Int(CurrentIteration, a.CurrentIteration),
		Int(NumIterations, a.NumIterations))
	dst = appendInt(dst, TrainSamplesStart, a.TrainSamplesStart)
	dst = appendInt(dst, NumTrainSamples, a.NumTrainSamples)
	dst = append(dst,
		Int(Interval, a.Interval),
		Float(AvgIterationTimeSec, a.AvgIterationTimeSec),
		Float(MinIterationTimeSec, a.MinIterationTimeSec),
		Float(MaxIterationTimeSec, a.MaxIterationTimeSec),
		Float(TotalIterationTimeSec, a.TotalIterationTimeSec))
	dst = appendExtra(dst, AvgForwardTimeSec, a.AvgForwardTimeSec)
	dst = appendExtra(dst, AvgBackwardTimeSec, a.AvgBackwardTimeSec)
	dst = appendExtra(dst, AvgDataloaderTimeSec, a.AvgDataloaderTimeSec)
	dst = appendExtra(dst, AvgTFLOPS, a.AvgTFLOPS)
	dst = appendInt(dst, TrainTokens, a.TrainTokens)
	dst = appendExtra(dst, AvgTokensPerSecond, a.AvgTokensPerSecond)
	dst = appendExtra(dst, LatestLoss, a.LatestLoss)
	dst = appendExtra(dst, AvgBatchSize, a.AvgBatchSize)
	dst = appendCount(dst, CompletedFloatingPointOperationsOverall, a.CompletedFLOPsOverall)
	dst = append(dst, CountOf(TotalFlops, a.TotalFLOPs))
	dst = appendFloat(dst, TrainThroughputPerGPU, a.ThroughputPerGPU)
	dst = appendFloat(dst, TrainThroughputPerGPUMax, a.ThroughputPerGPUMax)
	dst = appendFloat(dst, TrainThroughputPerGPUMin, a.ThroughputPerGPUMin)
	dst = append(dst,
		Float(FirstLoggedTrainIterationsFinishTime, a.FirstLoggedFinishSec),
		Float(LastLoggedTrainIterationsFinishTime, a.LastLoggedFinishSec))
	dst = appendExtra(dst, IterationThroughputPerGPULast, a.IterationThroughputLast)
	dst = appendExtra(dst, IterationThroughputPerGPUMin, a.IterationThroughputMin)
	dst = appendExtra(dst, IterationThroughputPerGPUMax, a.IterationThroughputMax)
	if a.Partial {
		dst = append(dst, Extend(Bool(PartialInterval, true))...)
	}
	if a.FailedIterations > 0 {
		dst = append(dst, Extend(Int(FailedIterations, a.FailedIterations))...)
	}
	return dst
}

// ValidationMetricsUpdate are the attributes of the
// validation_metrics_update event (ValidationMetricsUpdateAttributes). The
// times are set once a validation iteration was timed.
type ValidationMetricsUpdate struct {
	CurrentIteration      int64 // the last finished training iteration, zero-based
	Interval              int64 // training iterations since the last validation loop
	AvgIterationTimeSec   Opt[float64]
	MinIterationTimeSec   Opt[float64]
	MaxIterationTimeSec   Opt[float64]
	TotalIterationTimeSec Opt[float64]
}

// Append implements [Set].
func (a ValidationMetricsUpdate) Append(dst []Attr) []Attr {
	dst = append(dst, Int(CurrentIteration, a.CurrentIteration), Int(Interval, a.Interval))
	dst = appendFloat(dst, AvgIterationTimeSec, a.AvgIterationTimeSec)
	dst = appendFloat(dst, MinIterationTimeSec, a.MinIterationTimeSec)
	dst = appendFloat(dst, MaxIterationTimeSec, a.MaxIterationTimeSec)
	return appendFloat(dst, TotalIterationTimeSec, a.TotalIterationTimeSec)
}

// TestingMetricsUpdate are the attributes of the testing_metrics_update event
// (TestingMetricsUpdateAttributes).
type TestingMetricsUpdate struct {
	CurrentIteration int64 // the last finished training iteration, zero-based
	Interval         int64 // training iterations since the last testing loop
}

// Append implements [Set].
func (a TestingMetricsUpdate) Append(dst []Attr) []Attr {
	return append(dst, Int(CurrentIteration, a.CurrentIteration), Int(Interval, a.Interval))
}

// SaveCheckpointSuccess are the attributes of the save_checkpoint_success
// event (SaveCheckpointSuccessEventAttributes). The productive numbers are
// those of the moment at which the save of this step began.
type SaveCheckpointSuccess struct {
	Strategy         string
	CurrentIteration int64 // the global step that was saved

	FirstSuccessSec  float64 // seconds since the epoch
	LatestSuccessSec float64 // seconds since the epoch
	SuccessCount     int64

	ProductiveTrainIterations         int64
	ProductiveTrainSamples            Opt[int64]
	ProductiveTrainIterationsSec      float64
	ProductiveValidationIterationsSec float64
	ProductiveTrainTFLOPs             Opt[float64] // 10^12 operations done, not a rate

	Size             Opt[int64]   // bytes
	Directory        string       // left out when empty
	TrainingStartSec Opt[float64] // seconds since the epoch
}

// Append implements [Set].
func (a SaveCheckpointSuccess) Append(dst []Attr) []Attr {
	dst = append(dst,
		String(CheckpointStrategy, a.Strategy),
		Int(CurrentIteration, a.CurrentIteration),
		Float(FirstSuccessfulSaveCheckpointTimestamp, a.FirstSuccessSec),
		Float(LatestSuccessfulSaveCheckpointTimestamp, a.LatestSuccessSec),
		Int(SaveCheckpointSuccessCount, a.SuccessCount),
		Int(ProductiveTrainIterations, a.ProductiveTrainIterations))
	dst = appendInt(dst, ProductiveTrainSamples, a.ProductiveTrainSamples)
	dst = append(dst,
		Float(ProductiveTrainIterationsSec, a.ProductiveTrainIterationsSec),
		Float(ProductiveValidationIterationsSec, a.ProductiveValidationIterationsSec))
	dst = appendFloat(dst, ProductiveTrainTFLOPs, a.ProductiveTrainTFLOPs)
	if a.Size.IsSet() {
		dst = append(dst, Extend(Int(CheckpointSize, a.Size.Get()))...)
	}
	if a.Directory != "" {
		dst = append(dst, Extend(String(CheckpointDirectory, a.Directory))...)
	}
	return appendFloat(dst, TrainingStartTimestampSec, a.TrainingStartSec)
}

// SyncCheckpointMetricsUpdate are the attributes of the
// sync_checkpoint_metrics_update event (SyncCheckpointMetricsUpdateAttributes):
// the time that saves kept the training loop waiting, in seconds.
type SyncCheckpointMetricsUpdate struct {
	TotalSec, MinSec, MaxSec float64
}

// Append implements [Set].
func (a SyncCheckpointMetricsUpdate) Append(dst []Attr) []Attr {
	return append(dst,
		Float(SaveCheckpointSyncTimeTotalSec, a.TotalSec),
		Float(SaveCheckpointSyncTimeMinSec, a.MinSec),
		Float(SaveCheckpointSyncTimeMaxSec, a.MaxSec))
}
