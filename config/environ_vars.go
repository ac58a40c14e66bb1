package config

// environment names every variable that is read. The key tag is the field that
// it sets, the as tag the way its text is written. Of several variables for one
// key the first that is set counts. An empty variable counts as not set.
type environment struct {
	ApplicationName    *string `env:"TRAINSPAN_APPLICATION_NAME" key:"application_name"`
	SessionTag         *string `env:"TRAINSPAN_SESSION_TAG" key:"session_tag"`
	WorldSize          *string `env:"TRAINSPAN_WORLD_SIZE" key:"world_size"`
	LauncherWorldSize  *string `env:"WORLD_SIZE" key:"world_size"`
	SlurmWorldSize     *string `env:"SLURM_NTASKS" key:"world_size"`
	OpenMPIWorldSize   *string `env:"OMPI_COMM_WORLD_SIZE" key:"world_size"`
	PMIWorldSize       *string `env:"PMI_SIZE" key:"world_size"`
	IsBaselineRun      *string `env:"TRAINSPAN_IS_BASELINE_RUN" key:"is_baseline_run"`
	CustomMetadata     *string `env:"TRAINSPAN_CUSTOM_METADATA" key:"custom_metadata" as:"pairs"`
	ErrorStrategy      *string `env:"TRAINSPAN_ERROR_STRATEGY" key:"error_strategy"`
	EnableForRank      *string `env:"TRAINSPAN_ENABLE_FOR_CURRENT_RANK" key:"enable_for_current_rank"`
	LogLevel           *string `env:"TRAINSPAN_LOG_LEVEL" key:"logger.level"`
	LogFormat          *string `env:"TRAINSPAN_LOG_FORMAT" key:"logger.format"`
	LogInfoPath        *string `env:"TRAINSPAN_LOG_INFO_PATH" key:"logger.info_path"`
	LogErrorPath       *string `env:"TRAINSPAN_LOG_ERROR_PATH" key:"logger.error_path"`
	SchemaVersion      *string `env:"TRAINSPAN_SUMMARY_DATA_SCHEMA_VERSION" key:"summary_data_schema_version"`
	ExplicitTimeWindow *string `env:"TRAINSPAN_EXPLICIT_TIME_WINDOW" key:"explicit_time_window"`
	PerfTag            *string `env:"TRAINSPAN_PERF_TAG" key:"training.perf_tag"`
	PerfTags           *string `env:"TRAINSPAN_PERF_TAGS" key:"training.perf_tags" as:"list"`
	GlobalBatchSize    *string `env:"TRAINSPAN_GLOBAL_BATCH_SIZE" key:"training.global_batch_size"`
	MicroBatchSize     *string `env:"TRAINSPAN_MICRO_BATCH_SIZE" key:"training.micro_batch_size"`
	SeqLength          *string `env:"TRAINSPAN_SEQ_LENGTH" key:"training.seq_length"`
	FlopsPerSample     *string `env:"TRAINSPAN_FLOPS_PER_SAMPLE" key:"training.flops_per_sample"`
	IterationsTarget   *string `env:"TRAINSPAN_TRAIN_ITERATIONS_TARGET" key:"training.train_iterations_target"`
	SamplesTarget      *string `env:"TRAINSPAN_TRAIN_SAMPLES_TARGET" key:"training.train_samples_target"`
	LogEvery           *string `env:"TRAINSPAN_LOG_EVERY_N_TRAIN_ITERATIONS" key:"training.log_every_n_train_iterations"`
	LogThroughput      *string `env:"TRAINSPAN_IS_LOG_THROUGHPUT_ENABLED" key:"training.is_log_throughput_enabled"`
	TrainIterations    *string `env:"TRAINSPAN_IS_TRAIN_ITERATIONS_ENABLED" key:"training.is_train_iterations_enabled"`
	ValIterations      *string `env:"TRAINSPAN_IS_VALIDATION_ITERATIONS_ENABLED" key:"training.is_validation_iterations_enabled"`
	TestIterations     *string `env:"TRAINSPAN_IS_TEST_ITERATIONS_ENABLED" key:"training.is_test_iterations_enabled"`
	SaveCheckpoint     *string `env:"TRAINSPAN_IS_SAVE_CHECKPOINT_ENABLED" key:"training.is_save_checkpoint_enabled"`
	CheckpointStrategy *string `env:"TRAINSPAN_SAVE_CHECKPOINT_STRATEGY" key:"training.save_checkpoint_strategy"`
	TrainingMetadata   *string `env:"TRAINSPAN_TRAINING_CUSTOM_METADATA" key:"training.custom_metadata" as:"pairs"`
	ExportMode         *string `env:"TRAINSPAN_EXPORT_MODE" key:"export.mode"`
	ExportSpanNames    *string `env:"TRAINSPAN_EXPORT_SPAN_NAMES" key:"export.span_names" as:"list"`
	FileEnabled        *string `env:"TRAINSPAN_FILE_ENABLED" key:"outputs.file.enabled"`
	FilePath           *string `env:"TRAINSPAN_FILE_PATH" key:"outputs.file.path"`
	FileCompat         *string `env:"TRAINSPAN_FILE_COMPAT" key:"outputs.file.compat"`
	TraceEnabled       *string `env:"DFTRACER_ENABLE" key:"outputs.trace.enabled"`
	TracePath          *string `env:"DFTRACER_LOG_FILE" key:"outputs.trace.path"`
	TraceDialect       *string `env:"TRAINSPAN_TRACE_DIALECT" key:"outputs.trace.dialect"`
	TraceMetadata      *string `env:"DFTRACER_INC_METADATA" key:"outputs.trace.metadata"`
	TraceCompression   *string `env:"DFTRACER_TRACE_COMPRESSION" key:"outputs.trace.compression"`
	TraceBufferSize    *string `env:"DFTRACER_WRITE_BUFFER_SIZE" key:"outputs.trace.buffer_size"`
	TraceInterval      *string `env:"DFTRACER_TRACE_INTERVAL_MS" key:"outputs.trace.write_interval" as:"ms"`
	TraceAffinity      *string `env:"DFTRACER_SET_CORE_AFFINITY" key:"outputs.trace.core_affinity"`
	TraceTIDs          *string `env:"DFTRACER_DISABLE_TIDS" key:"outputs.trace.tids" as:"not"`
	TraceDataDirs      *string `env:"DFTRACER_DATA_DIR" key:"outputs.trace.data_dirs" as:"dirs"`
	TracesExporter     *string `env:"OTEL_TRACES_EXPORTER" key:"outputs.otlp.enabled" as:"exporters"`
	TracesProtocol     *string `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" key:"outputs.otlp.protocol"`
	Protocol           *string `env:"OTEL_EXPORTER_OTLP_PROTOCOL" key:"outputs.otlp.protocol"`
	Endpoint           *string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" key:"outputs.otlp.endpoint"`
	TracesEndpoint     *string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" key:"outputs.otlp.traces_endpoint"`
	LogsEndpoint       *string `env:"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" key:"outputs.otlp.logs_endpoint"`
	MetricsEndpoint    *string `env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" key:"outputs.otlp.metrics_endpoint"`
	LogsExporter       *string `env:"OTEL_LOGS_EXPORTER" key:"outputs.otlp.logs" as:"exporters"`
	MetricsExporter    *string `env:"OTEL_METRICS_EXPORTER" key:"outputs.otlp.metrics" as:"exporters"`
	MetricsInterval    *string `env:"OTEL_METRIC_EXPORT_INTERVAL" key:"outputs.otlp.metrics_interval" as:"ms"`
	TracesHeaders      *string `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" key:"outputs.otlp.headers" as:"headers"`
	Headers            *string `env:"OTEL_EXPORTER_OTLP_HEADERS" key:"outputs.otlp.headers" as:"headers"`
	TracesTimeout      *string `env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" key:"outputs.otlp.timeout" as:"ms"`
	Timeout            *string `env:"OTEL_EXPORTER_OTLP_TIMEOUT" key:"outputs.otlp.timeout" as:"ms"`
	TracesCompression  *string `env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION" key:"outputs.otlp.compression"`
	Compression        *string `env:"OTEL_EXPORTER_OTLP_COMPRESSION" key:"outputs.otlp.compression"`
	TracesInsecure     *string `env:"OTEL_EXPORTER_OTLP_TRACES_INSECURE" key:"outputs.otlp.insecure"`
	Insecure           *string `env:"OTEL_EXPORTER_OTLP_INSECURE" key:"outputs.otlp.insecure"`
	TracesCertificate  *string `env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE" key:"outputs.otlp.certificate"`
	Certificate        *string `env:"OTEL_EXPORTER_OTLP_CERTIFICATE" key:"outputs.otlp.certificate"`
	TracesClientCert   *string `env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE" key:"outputs.otlp.client_certificate"`
	ClientCert         *string `env:"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" key:"outputs.otlp.client_certificate"`
	TracesClientKey    *string `env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY" key:"outputs.otlp.client_key"`
	ClientKey          *string `env:"OTEL_EXPORTER_OTLP_CLIENT_KEY" key:"outputs.otlp.client_key"`
	QueueSize          *string `env:"OTEL_BSP_MAX_QUEUE_SIZE" key:"outputs.otlp.queue_size"`
	BatchSize          *string `env:"OTEL_BSP_MAX_EXPORT_BATCH_SIZE" key:"outputs.otlp.batch_size"`
	BatchDelay         *string `env:"OTEL_BSP_SCHEDULE_DELAY" key:"outputs.otlp.batch_delay" as:"ms"`
	SpillDir           *string `env:"TRAINSPAN_OTLP_SPILL_DIR" key:"outputs.otlp.spill_dir"`
	SpillBytes         *string `env:"TRAINSPAN_OTLP_SPILL_BYTES" key:"outputs.otlp.spill_bytes"`
	Segment            *string `env:"TRAINSPAN_OTLP_SEGMENT" key:"outputs.otlp.segment"`
	TraceSplit         *string `env:"TRAINSPAN_OTLP_TRACE_SPLIT" key:"outputs.otlp.trace_split"`
	TraceWindow        *string `env:"TRAINSPAN_OTLP_TRACE_WINDOW" key:"outputs.otlp.trace_window"`
	TraceBudget        *string `env:"TRAINSPAN_OTLP_TRACE_BUDGET" key:"outputs.otlp.trace_budget"`
	TraceCommandLine   *string `env:"TRAINSPAN_TRACE_COMMAND_LINE" key:"outputs.trace.command_line"`
	PrometheusAddress  *string `env:"TRAINSPAN_PROMETHEUS_ADDRESS" key:"outputs.prometheus.address"`
	PrometheusRemote   *string `env:"TRAINSPAN_PROMETHEUS_ALLOW_REMOTE" key:"outputs.prometheus.allow_remote"`
	SDKDisabled        *string `env:"OTEL_SDK_DISABLED" key:"otel.sdk_disabled"`
	ServiceName        *string `env:"OTEL_SERVICE_NAME" key:"otel.service_name"`
	ResourceAttributes *string `env:"OTEL_RESOURCE_ATTRIBUTES" key:"otel.resource_attributes" as:"pairs"`
}
