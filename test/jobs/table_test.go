package jobs_test

import (
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// jobs are the recordings.
var jobs = []job{
	// Calls of the Go API.
	{name: "go-ai"},
	{name: "go-ai-everywhere"},
	{name: "go-ai-lines-only"},
	{name: "go-blacklist"},
	{name: "go-callbacks"},
	{name: "go-checkpoints"},
	{name: "go-compat"},
	{name: "go-customization"},
	{name: "go-disabled"},
	{name: "go-errors"},
	{name: "go-files"},
	{name: "go-filters"},
	{name: "go-hooks"},
	{name: "go-killed"},
	{name: "go-lost"},
	{name: "go-many-attributes"},
	{name: "go-misuse"},
	{name: "go-mixed"},
	{name: "go-not-sampled"},
	{name: "go-off"},
	{name: "go-otel"},
	{name: "go-otel-sdk"},
	{name: "go-parent"},
	{name: "go-quiet"},
	{name: "go-roots"},
	{name: "go-scopes"},
	{name: "go-segments"},
	{name: "go-threads"},
	{name: "go-times"},
	{name: "go-traces-epoch"},
	{name: "go-traces-window"},
	{name: "go-unfinished"},

	// Requests of OpenTelemetry SDKs.
	{name: "otlp-again"},
	{name: "otlp-go"},
	{name: "otlp-go-gzip"},
	{name: "otlp-late"},
	{name: "otlp-python"},
	{name: "otlp-python-json"},
	{name: "otlp-python-ranks"},
	{name: "otlp-recorded"},

	// Rings of Python processes.
	{name: "ring-ai-logging"},
	{name: "ring-dftracer-api"},
	{name: "ring-dftracer-files"},
	{name: "ring-failing"},
	{name: "ring-forks"},
	{name: "ring-guide"},
	{name: "ring-killed"},
	{name: "ring-lapped"},
	{name: "ring-nested"},
	{name: "ring-off"},
	{name: "ring-onelogger", send: &config.Export{}},
	{name: "ring-onelogger-killed"},
	{name: "ring-tasks"},
	{name: "torch-accumulate"},
	{name: "torch-checkpointing"},
	{name: "torch-collectives"},
	{name: "torch-compiled"},
	{name: "torch-ddp"},
	{name: "torch-gan"},
	{name: "torch-killed"},
	{name: "torch-loader-fork"},
	{name: "torch-loader-spawn"},
	{name: "torch-own-spans"},
	{name: "torch-plain"},
	{name: "torch-saves"},

	// Files of the PyTorch profiler and compiler.
	{name: "compile-log"},
	{name: "profile-plain"},
	{name: "profile-ranks", level: torch.LevelStep},
	{name: "profile-shapes"},
	{name: "profile-steps", level: torch.LevelAnnotation},

	// The spans of the ring buffers that are sent, by the customization.
	{name: "sent-default", of: "ring-nested", send: &config.Export{}},
	{name: "sent-all", of: "ring-nested", send: &config.Export{Mode: config.ExportAll}},
	{name: "sent-whitelist", of: "ring-nested", send: &config.Export{Mode: config.Whitelist, SpanNames: []string{"compute.forward", "training_loop", "write"}}},
	{name: "sent-blacklist", of: "ring-nested", send: &config.Export{Mode: config.Blacklist, SpanNames: []string{"epoch", "x.b", "math.matmul", "train.iteration"}}},
	{name: "sent-killed", of: "ring-killed", send: &config.Export{Mode: config.ExportAll}},
	{name: "sent-torch", of: "torch-plain", send: &config.Export{Mode: config.ExportAll}},
	{name: "sent-onelogger-all", of: "ring-onelogger", send: &config.Export{Mode: config.ExportAll}},

	// The limits of a span.
	{name: "otlp-limits", of: "otlp-python", most: 1},

	// A real training in Go.
	{name: "charlm", train: true, long: true},
}
