package metrics

// Semconv is the version of OpenTelemetry's semantic conventions that the
// standard metrics follow.
const Semconv = "v1.43.0"

// The attributes of standard metrics: the component, and the cause of a loss.
const (
	ComponentName = "otel.component.name"
	ComponentType = "otel.component.type"
	ErrorType     = "error.type"

	component = "`otel.component.*`"
	lossy     = component + ", `error.type`"
)

// Metrics of training.
var (
	IterationDuration = &Metric{
		Name: "training.iteration.duration", Unit: "s", Kind: Histogram, Text: "length of completed training iterations",
		OneLogger: "`avg_iteration_time_sec`, `min_iteration_time_sec`, `max_iteration_time_sec`",
		Elsewhere: "`megatron.training.step_duration_ms` (ms)",
	}
	Iterations = &Metric{
		Name: "training.iterations", Unit: "{iteration}", Kind: Counter, OneLogger: "`current_iteration`", Elsewhere: "`dl.iteration`",
		Text: "completed training iterations of this process; the attribute also counts those before a restart",
	}
	IterationsFailed = &Metric{
		Name: "training.iterations.failed", Unit: "{iteration}", Kind: Counter, OneLogger: "`failed_iterations` (ours)",
		Text: "training iterations that ended with an error",
	}
	Samples = &Metric{
		Name: "training.samples", Unit: "{sample}", Kind: Counter,
		Text: "samples of completed iterations of this rank; for the job take `sum(training_samples_total)`",
	}
	JobSamples = &Metric{
		Name: "training.job.samples", Unit: "{sample}", Kind: Counter, OneLogger: "`num_train_samples`",
		Text: "samples of completed iterations of all ranks, counted by every rank: take `max(training_job_samples_total)`",
	}
	Tokens = &Metric{
		Name: "training.tokens", Unit: "{token}", Kind: Counter, OneLogger: "`train_tokens`",
		Elsewhere: "its rate: `dl.throughput_tokens_per_sec`, `rl.throughput.tokens_per_sec`, `megatron.training.tokens_per_sec`",
		Text:      "tokens of completed iterations of this rank; needs `seq_length`",
	}
	JobTokens = &Metric{
		Name: "training.job.tokens", Unit: "{token}", Kind: Counter, Text: "tokens of completed iterations of all ranks: take the maximum",
	}
	Flops = &Metric{
		Name: "training.flops", Unit: "{FLOP}", Kind: Counter,
		Text: "floating-point operations of completed iterations of this rank; needs `flops_per_sample`",
	}
	JobFlops = &Metric{
		Name: "training.job.flops", Unit: "{FLOP}", Kind: Counter, OneLogger: "`total_flops`",
		Text: "floating-point operations of completed iterations of all ranks: take the maximum",
	}
	GPUThroughput = &Metric{
		Name: "training.gpu.throughput", Unit: "{FLOP}/s", Kind: Gauge, OneLogger: "`train_iteration_throughput_per_gpu_last` (ours)",
		Elsewhere: "`dl.throughput_tflops`, `megatron.training.throughput_tflops` (10^12 of it)",
		Text:      "operations per second per GPU in the last iteration",
	}
	GPUThroughputAverage = &Metric{
		Name: "training.gpu.throughput.average", Unit: "{FLOP}/s", Kind: Gauge, OneLogger: "`train_throughput_per_gpu` (10^12 of it)",
		Text: "operations per second per GPU over the training loop",
	}
	Loss = &Metric{
		Name: "training.loss", Unit: "{loss}", Kind: Gauge, OneLogger: "`latest_loss`", Elsewhere: "`dl.loss`, `megatron.training.loss`", Text: "latest loss that the program reported",
	}
	CheckpointDuration = &Metric{
		Name: "training.checkpoint.duration", Unit: "s", Kind: Histogram, By: "`phase`",
		OneLogger: "`save_checkpoint_sync_time_total_sec`, `save_checkpoint_blocking_time_sec` (ours), `save_checkpoint_background_time_sec` (ours)",
		Text:      "time of checkpoint saves by `phase`: `blocking` (training waited) or `background`",
	}
	CheckpointSaves = &Metric{
		Name: "training.checkpoint.saves", Unit: "{save}", Kind: Counter, By: "`outcome`", OneLogger: "`save_checkpoint_success_count`",
		Text: "checkpoint saves by `outcome`: `success` or `failure`",
	}
	ProductiveTime = &Metric{
		Name: "training.productive.time", Unit: "s", Kind: Counter, OneLogger: "`productive_train_iterations_sec`", Text: "duration of completed training iterations",
	}
	LoopTime = &Metric{
		Name: "training.loop.time", Unit: "s", Kind: Counter, OneLogger: "now less `training_start_timestamp_sec`",
		Text: "time since the start of the first training loop",
	}
	LoopsOpen = &Metric{
		Name: "training.loops.open", Unit: "{loop}", Kind: UpDown, Text: "open training loops: 1 while the process trains",
	}
	StartupTime = &Metric{
		Name: "training.startup.time", Unit: "s", Kind: Counter,
		Text: "time from the configuration of telemetry to the end of the first training iteration",
	}
)

// Metrics of telemetry in the semantic conventions.
var (
	SpansLive      = &Metric{Name: "otel.sdk.span.live", Unit: "{span}", Kind: UpDown, Text: "open spans"}
	SpansStarted   = &Metric{Name: "otel.sdk.span.started", Unit: "{span}", Kind: Counter, Text: "spans started"}
	SpansQueued    = &Metric{Name: "otel.sdk.processor.span.queue.size", Unit: "{span}", Kind: UpDown, By: component, Text: "spans that are queued for a backend or being sent"}
	SpansProcessed = &Metric{
		Name: "otel.sdk.processor.span.processed", Unit: "{span}", Kind: Counter, By: lossy,
		Text: "spans that left the queue: to the exporter, or lost with `error.type`: `queue_full`, `shutdown`",
	}
	SpansExported = &Metric{
		Name: "otel.sdk.exporter.span.exported", Unit: "{span}", Kind: Counter, By: lossy, OneLogger: "`lost_records` (ours), of lost ones",
		Text: "spans that a backend accepted, or lost with `error.type`: `refused`, `timeout`",
	}
	LogsCreated   = &Metric{Name: "otel.sdk.log.created", Unit: "{log_record}", Kind: Counter, Text: "log records made of events of open spans"}
	LogsQueued    = &Metric{Name: "otel.sdk.processor.log.queue.size", Unit: "{log_record}", Kind: UpDown, By: component, Text: "log records that are queued for a backend or being sent"}
	LogsProcessed = &Metric{
		Name: "otel.sdk.processor.log.processed", Unit: "{log_record}", Kind: Counter, By: lossy, Text: "log records that left the queue, as for spans",
	}
	LogsExported = &Metric{
		Name: "otel.sdk.exporter.log.exported", Unit: "{log_record}", Kind: Counter, By: lossy, OneLogger: "`lost_records` (ours), of lost ones",
		Text: "log records that a backend accepted, or lost, as for spans",
	}
)

// Metrics of telemetry that the conventions do not have.
var (
	Records          = &Metric{Name: "trainspan.records", Unit: "{record}", Kind: Counter, Text: "native records handed to exporters"}
	ExporterFailures = &Metric{Name: "trainspan.exporter.failures", Unit: "{failure}", Kind: Counter, Text: "failed exports of native exporters"}
	Errors           = &Metric{Name: "trainspan.errors", Unit: "{error}", Kind: Counter, Text: "calls that telemetry rejected, and gaps in its data"}
	Repaired         = &Metric{
		Name: "trainspan.repaired", Unit: "{value}", Kind: Counter, Text: "attribute values and times that were repaired",
	}
	FileRecords = &Metric{Name: "trainspan.file.records", Unit: "{record}", Kind: Counter, By: "`output`", Text: "lines written to a file, by `output`: `trace` or `records`"}
	FileWritten = &Metric{Name: "trainspan.file.written", Unit: "By", Kind: Counter, By: "`output`", Text: "bytes in the file, by `output`"}
	FileLost    = &Metric{
		Name: "trainspan.file.lost", Unit: "{record}", Kind: Counter, By: "`output`", Text: "lines missing in the file because the disk failed, by `output`",
	}
	FileErrors      = &Metric{Name: "trainspan.file.errors", Unit: "{error}", Kind: Counter, By: "`output`", Text: "failures of the disk, by `output`"}
	FileBlockedTime = &Metric{
		Name: "trainspan.file.blocked.time", Unit: "s", Kind: Counter, By: "`output`", Text: "how long the program waited for the disk, by `output`",
	}
	MetricsFailed = &Metric{Name: "trainspan.otlp.metrics.failed", Unit: "{export}", Kind: Counter, Text: "exports of metrics that a backend did not accept"}
)

// Metrics of a job by its files, served by trainspan run --metrics and
// trainspan alert --metrics.
var (
	GoodputRatio = &Metric{
		Name: "training.goodput.ratio", Unit: "1", Kind: Gauge, Text: "share of the time of all ranks in productive steps, since the first attempt began",
	}
	GoodputWindowRatio = &Metric{
		Name: "training.goodput.window.ratio", Unit: "1", Kind: Gauge, By: "`window_s`", Text: "the same for the last `window_s` seconds",
	}
	Time = &Metric{ // a restart turns trained time into lost work, so a category can decrease
		Name: "training.time", Unit: "s", Kind: UpDown, By: "`category`",
		Text: "time of all ranks by `category`; all categories add up to the time since the first attempt began. A restart moves time from `productive` to `lost_work`",
	}
	TimeProductive = &Metric{
		Name: "training.time.productive", Unit: "s", Kind: UpDown, By: "`part`",
		Text: "time of all ranks in productive steps, by `part`: `compute`, `communication`, `wait`, `other_code`, `step_unsplit`. They add up to the category `productive`",
	}
	TimeCommitted = &Metric{
		Name: "training.time.committed", Unit: "s", Kind: UpDown, Text: "productive time that saved checkpoints hold, if events tell of the saves",
	}
	WaitedFor = &Metric{
		Name: "training.waited_for", Unit: "s", Kind: UpDown, By: "`training.rank`", Text: "time that all ranks waited for one rank, in steps and between them; for the eight ranks with the most",
	}
	Diagnosis  = &Metric{Name: "training.diagnosis", Unit: "{diagnosis}", Kind: Gauge, By: "`kind`, `cause`", Text: "1 for what slows the steps: `verdict.straggler`"}
	Outcome    = &Metric{Name: "training.outcome", Unit: "{outcome}", Kind: Gauge, By: "`how`", Text: "1 for the outcome of the last attempt, or `running`"}
	LastRecord = &Metric{Name: "training.last_record.timestamp", Unit: "s", Kind: Gauge, Text: "time of the newest record, in seconds since 1970"}
	RankWork   = &Metric{Name: "training.rank.work", Unit: "s", Kind: Gauge, By: byRank, Text: "median work of a rank in a step; summed over the ranks of a series"}
	RankWait   = &Metric{Name: "training.rank.wait", Unit: "s", Kind: Gauge, By: byRank, Text: "median wait for other ranks in a step; summed likewise"}
	RankExcess = &Metric{Name: "training.rank.excess", Unit: "s", Kind: Gauge, By: byRank, Text: "median work in a step in excess of the other ranks; summed likewise"}
	Ranks      = &Metric{Name: "training.ranks", Unit: "{rank}", Kind: Gauge, By: byRank, Text: "number of ranks that a series sums"}
)

// The attributes of per-rank series of a job, as in the resource of a program
// that sends its own metrics.
const (
	RankAttribute = "training.rank"
	HostAttribute = "host.name"

	byRank = "`training.rank`, `host.name`"
)

// Groups is the table.
var Groups = []Group{
	{
		Namespace: "training.*",
		Why:       "Progress of training. The semantic conventions have no metrics for it: those of `gen_ai.*` are for calls of a model",
		Metrics: []*Metric{
			IterationDuration, Iterations, IterationsFailed, Samples, JobSamples, Tokens, JobTokens, Flops, JobFlops, GPUThroughput, GPUThroughputAverage,
			Loss, CheckpointDuration, CheckpointSaves, ProductiveTime, LoopTime, LoopsOpen, StartupTime,
		},
	},
	{
		Namespace: "otel.sdk.*",
		Why: "Delivery of spans and log records to a backend, as in the semantic conventions " + Semconv + ". If a process sends to several " +
			"backends, the numbers are sums",
		Metrics: []*Metric{SpansLive, SpansStarted, SpansQueued, SpansProcessed, SpansExported, LogsCreated, LogsQueued, LogsProcessed, LogsExported},
	},
	{
		Namespace: "trainspan.*",
		Why:       "Metrics that only this library has: native records, files, repairs",
		Metrics:   []*Metric{Records, ExporterFailures, Errors, Repaired, FileRecords, FileWritten, FileLost, FileErrors, FileBlockedTime, MetricsFailed},
	},
	{
		Namespace: "training.* of a job",
		Why: "Progress of a job according to its files, all ranks together. [`trainspan run --metrics`](../guide/run.md#flags) and " +
			"[`trainspan alert --metrics`](cli.md#alert) serve these, and from the first table `training.iterations` (by rank; by host if there are more than eight ranks), " +
			"durations of iterations and checkpoints, `training.checkpoint.saves`, and times as means over the ranks; `training.loops.open` is 1 while the job runs. " +
			"In `training.rank.*` the eight ranks that are furthest behind have their own series; the others are summed by host",
		Metrics: []*Metric{
			GoodputRatio, GoodputWindowRatio, Time, TimeProductive, TimeCommitted, WaitedFor, Diagnosis, Outcome, LastRecord, RankWork, RankWait, RankExcess, Ranks,
		},
	},
}
