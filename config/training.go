package config

// Training describes the training job. An unset number means "not known", and what
// depends on it is not reported.
type Training struct {
	// PerfTag names the performance-relevant shape of the job, so that like is
	// compared with like. Set PerfTag or PerfTags, not both; without either it is
	// the application name.
	PerfTag Var[string] `key:"perf_tag" alias:"perf_tag_or_fn" env:"TRAINSPAN_PERF_TAG"`
	// PerfTags is the same for a job with several tags. A list with a single
	// tag stays a list in the records.
	PerfTags Var[[]string] `key:"perf_tags" env:"TRAINSPAN_PERF_TAGS"`
	// GlobalBatchSize is the number of samples in one iteration over all
	// ranks, at least 1.
	GlobalBatchSize Var[int] `key:"global_batch_size" alias:"global_batch_size_or_fn" env:"TRAINSPAN_GLOBAL_BATCH_SIZE"`
	// MicroBatchSize is the number of samples that one rank handles at once.
	MicroBatchSize Var[int] `key:"micro_batch_size" alias:"micro_batch_size_or_fn" env:"TRAINSPAN_MICRO_BATCH_SIZE"`
	// SeqLength is the number of tokens in one sample.
	SeqLength Var[int] `key:"seq_length" alias:"seq_length_or_fn" env:"TRAINSPAN_SEQ_LENGTH"`
	// FlopsPerSample is the number of floating point operations that one
	// sample costs; positive when throughput is logged. A job does more than
	// an int holds, so products of it need more than 64 bits.
	FlopsPerSample Var[int] `key:"flops_per_sample" alias:"flops_per_sample_or_fn" env:"TRAINSPAN_FLOPS_PER_SAMPLE"`
	// PeakFlops is what one device of the job can do in a second, dense and of the
	// data type in use; trainspan report says by it how much of that was used.
	PeakFlops Var[int] `key:"peak_flops" env:"TRAINSPAN_PEAK_FLOPS"`
	// TrainIterationsTarget is the number of iterations the job aims at.
	TrainIterationsTarget Var[int] `key:"train_iterations_target" alias:"train_iterations_target_or_fn" env:"TRAINSPAN_TRAIN_ITERATIONS_TARGET"`
	// TrainSamplesTarget is the number of samples the job aims at.
	TrainSamplesTarget Var[int] `key:"train_samples_target" alias:"train_samples_target_or_fn" env:"TRAINSPAN_TRAIN_SAMPLES_TARGET"`
	// LogEveryNTrainIterations is the number of iterations between two metrics
	// updates, at least 1. Unset is 50; an explicit zero is refused.
	LogEveryNTrainIterations Var[int] `key:"log_every_n_train_iterations" env:"TRAINSPAN_LOG_EVERY_N_TRAIN_ITERATIONS"`
	// IsLogThroughputEnabled asks for throughput figures. Unset is false.
	IsLogThroughputEnabled Var[bool] `key:"is_log_throughput_enabled" alias:"is_log_throughput_enabled_or_fn" env:"TRAINSPAN_IS_LOG_THROUGHPUT_ENABLED"`
	// IsTrainIterationsEnabled is reported and gates nothing. Unset is true.
	IsTrainIterationsEnabled Var[bool] `key:"is_train_iterations_enabled" alias:"is_train_iterations_enabled_or_fn" env:"TRAINSPAN_IS_TRAIN_ITERATIONS_ENABLED"`
	// IsValidationIterationsEnabled is reported and gates nothing. Unset is true.
	IsValidationIterationsEnabled Var[bool] `key:"is_validation_iterations_enabled" alias:"is_validation_iterations_enabled_or_fn" env:"TRAINSPAN_IS_VALIDATION_ITERATIONS_ENABLED"`
	// IsTestIterationsEnabled is reported and gates nothing. Unset is true.
	IsTestIterationsEnabled Var[bool] `key:"is_test_iterations_enabled" alias:"is_test_iterations_enabled_or_fn" env:"TRAINSPAN_IS_TEST_ITERATIONS_ENABLED"`
	// IsSaveCheckpointEnabled asks for checkpoint metrics. Unset is true.
	IsSaveCheckpointEnabled Var[bool] `key:"is_save_checkpoint_enabled" alias:"is_save_checkpoint_enabled_or_fn" env:"TRAINSPAN_IS_SAVE_CHECKPOINT_ENABLED"`
	// SaveCheckpointStrategy is how checkpoints are written; empty is sync.
	SaveCheckpointStrategy string `key:"save_checkpoint_strategy" env:"TRAINSPAN_SAVE_CHECKPOINT_STRATEGY"`
	// CustomMetadata travels with the training configuration, in this order.
	CustomMetadata Metadata `key:"custom_metadata" env:"TRAINSPAN_TRAINING_CUSTOM_METADATA"`
}
