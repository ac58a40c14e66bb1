// Package onelogger defines the attributes of one-logger's records: their keys,
// and the sets that spans and events have. Each set is a struct whose Append
// method appends its attributes in one-logger's order.
package onelogger

import (
	"encoding/hex"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
)

// Keys of spans and events, in one-logger's spelling.
const (
	DurationMsec  = "duration_msec"
	TimestampMsec = "timestamp_msec"

	ErrorMessage           = "error_message"
	ExceptionType          = "exception_type"
	ExceptionMessage       = "exception_message"
	ExceptionTraceback     = "exception_traceback"
	TelemetryDataErrorType = "telemetry_data_error_type"
)

// Values of [TelemetryDataErrorType].
const (
	NoTelemetryData         = "no_telemetry_data"
	IncompleteTelemetryData = "incomplete_telemetry_data"
)

// Values of [CheckpointStrategy].
const (
	CheckpointSync  = "sync"
	CheckpointAsync = "async"
)

// Keys of the attribute sets.
const (
	TrainIterationsStart                    = "train_iterations_start"
	TrainSamplesStart                       = "train_samples_start"
	TrainTokensTarget                       = "train_tokens_target"
	CompletedFloatingPointOperationsOverall = "completed_floating_point_operations_overall"
	TrainIterationsTarget                   = "train_iterations_target"
	TrainSamplesTarget                      = "train_samples_target"
	CheckpointStrategy                      = "checkpoint_strategy"
	CurrentIteration                        = "current_iteration"
	SaveCheckpointAttemptCount              = "save_checkpoint_attempt_count"
	WorldSize                               = "world_size"
	OneLoggerTrainingTelemetryVersion       = "one_logger_training_telemetry_version"
	EnableForCurrentRank                    = "enable_for_current_rank"
	SessionTag                              = "session_tag"
	IsBaselineRun                           = "is_baseline_run"
	SummaryDataSchemaVersion                = "summary_data_schema_version"
	NodeName                                = "node_name"
	Rank                                    = "rank"
	CustomMetadata                          = "custom_metadata"
	PerfTag                                 = "perf_tag"
	GlobalBatchSize                         = "global_batch_size"
	LogEveryNTrainIterations                = "log_every_n_train_iterations"
	MicroBatchSize                          = "micro_batch_size"
	SeqLength                               = "seq_length"
	FlopsPerSample                          = "flops_per_sample"
	IsTrainIterationsEnabled                = "is_train_iterations_enabled"
	IsValidationIterationsEnabled           = "is_validation_iterations_enabled"
	IsTestIterationsEnabled                 = "is_test_iterations_enabled"
	IsSaveCheckpointEnabled                 = "is_save_checkpoint_enabled"
	IsLogThroughputEnabled                  = "is_log_throughput_enabled"
	NumIterations                           = "num_iterations"
	NumTrainSamples                         = "num_train_samples"
	Interval                                = "interval"
	AvgIterationTimeSec                     = "avg_iteration_time_sec"
	MinIterationTimeSec                     = "min_iteration_time_sec"
	MaxIterationTimeSec                     = "max_iteration_time_sec"
	TotalIterationTimeSec                   = "total_iteration_time_sec"
	AvgForwardTimeSec                       = "avg_forward_time_sec"
	AvgBackwardTimeSec                      = "avg_backward_time_sec"
	AvgDataloaderTimeSec                    = "avg_dataloader_time_sec"
	AvgTFLOPS                               = "avg_tflops"
	TrainTokens                             = "train_tokens"
	AvgTokensPerSecond                      = "avg_tokens_per_second"
	LatestLoss                              = "latest_loss"
	AvgBatchSize                            = "avg_batch_size"
	TotalFlops                              = "total_flops"
	TrainThroughputPerGPU                   = "train_throughput_per_gpu"
	TrainThroughputPerGPUMax                = "train_throughput_per_gpu_max"
	TrainThroughputPerGPUMin                = "train_throughput_per_gpu_min"
	FirstLoggedTrainIterationsFinishTime    = "first_logged_train_iterations_finish_timestamp_sec"
	LastLoggedTrainIterationsFinishTime     = "last_logged_train_iterations_finish_timestamp_sec"
	FirstSuccessfulSaveCheckpointTimestamp  = "first_successful_save_checkpoint_timestamp_sec"
	LatestSuccessfulSaveCheckpointTimestamp = "latest_successful_save_checkpoint_timestamp_sec"
	SaveCheckpointSuccessCount              = "save_checkpoint_success_count"
	ProductiveTrainIterations               = "productive_train_iterations"
	ProductiveTrainSamples                  = "productive_train_samples"
	ProductiveTrainIterationsSec            = "productive_train_iterations_sec"
	ProductiveValidationIterationsSec       = "productive_validation_iterations_sec"
	ProductiveTrainTFLOPs                   = "productive_train_tflops"
	CheckpointSize                          = "checkpoint_size"
	CheckpointDirectory                     = "checkpoint_directory"
	TrainingStartTimestampSec               = "training_start_timestamp_sec"
	SaveCheckpointSyncTimeTotalSec          = "save_checkpoint_sync_time_total_sec"
	SaveCheckpointSyncTimeMinSec            = "save_checkpoint_sync_time_min_sec"
	SaveCheckpointSyncTimeMaxSec            = "save_checkpoint_sync_time_max_sec"
)

// Keys that one-logger does not have.
const (
	IterationThroughputPerGPULast = "train_iteration_throughput_per_gpu_last"
	IterationThroughputPerGPUMin  = "train_iteration_throughput_per_gpu_min"
	IterationThroughputPerGPUMax  = "train_iteration_throughput_per_gpu_max"
	PartialInterval               = "is_partial_interval"
	FailedIterations              = "failed_iterations"
	CheckpointBlockingTimeSec     = "save_checkpoint_blocking_time_sec"
	CheckpointBackgroundTimeSec   = "save_checkpoint_background_time_sec"
	LostRecords                   = "lost_records"
)

func appendInt(dst []attributes.Attr, key string, o attributes.Opt[int64]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.Int(key, o.Get()))
	}
	return dst
}

func appendFloat(dst []attributes.Attr, key string, o attributes.Opt[float64]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.Float(key, o.Get()))
	}
	return dst
}

func appendCount(dst []attributes.Attr, key string, o attributes.Opt[attrvalue.Count]) []attributes.Attr {
	if o.IsSet() {
		dst = append(dst, attrvalue.CountOf(key, o.Get()))
	}
	return dst
}

// appendExtra appends a field that one-logger does not have, or defines but
// never fills.
func appendExtra(dst []attributes.Attr, key string, o attributes.Opt[float64]) []attributes.Attr {
	if o.IsSet() {
		a := attrvalue.Float(key, o.Get())
		a.Extension = true
		dst = append(dst, a)
	}
	return dst
}

// AppendUUID appends a span's identity in one-logger's form: a version 4 UUID.
// It holds all bits of the span id, so spans of one process always differ.
func AppendUUID(dst []byte, traceID [16]byte, spanID [8]byte) []byte {
	var b [16]byte
	copy(b[:6], spanID[:6])
	b[6] = 0x40 | traceID[6]&0x0f
	b[7] = spanID[6]
	b[8] = 0x80 | traceID[8]&0x3f
	b[9] = spanID[7]
	copy(b[10:], traceID[10:])
	var t [36]byte
	hex.Encode(t[0:8], b[0:4])
	hex.Encode(t[9:13], b[4:6])
	hex.Encode(t[14:18], b[6:8])
	hex.Encode(t[19:23], b[8:10])
	hex.Encode(t[24:36], b[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return append(dst, t[:]...)
}
