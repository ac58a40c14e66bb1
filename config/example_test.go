package config_test

import (
	"errors"
	"fmt"

	"github.com/trainspan/trainspan/config"
)

func ExampleBase() {
	base := config.Base{
		ApplicationName: "charlm",
		SessionTag:      config.Value("run-42"),
		WorldSize:       config.Func(func() int { return 2 }),
		CustomMetadata:  config.Pairs("model", "llama", "lr", 0.0003, "gpus", []string{"h200", "b200"}),
		Training: &config.Training{
			PerfTag:         config.Value("charlm-small"),
			GlobalBatchSize: config.Value(32),
		},
	}
	fmt.Println(base.Validate())
	fmt.Println(base.WorldSize.Get(), base.Training.GlobalBatchSize.Get())
	fmt.Println(base.CustomMetadata.Strings())
	// Output:
	// <nil>
	// 2 32
	// [model:llama lr:0.0003 gpus:['h200', 'b200']]
}

func ExampleBase_Validate() {
	base := config.Base{
		ApplicationName: " ",
		SessionTag:      config.Value("run-42"),
		WorldSize:       config.Value(0),
	}
	fmt.Println(base.Validate())
	// Output:
	// config: 2 problems:
	//   application_name: cannot be empty or whitespace-only: name the application in a file, in TRAINSPAN_APPLICATION_NAME or in code (got " ")
	//   world_size: must be set to a positive value (got 0)
}

func ExampleLoad() {
	cfg, err := config.Load(config.LoadOptions{
		Path:      "testdata/job.yaml",
		LookupEnv: config.Environ([]string{"RANK=3", "WORLD_SIZE=16", "TRAINSPAN_PERF_TAG=env"}),
		Code:      config.Config{Base: config.Base{ApplicationName: "code"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.ApplicationName, cfg.Training.PerfTag, cfg.WorldSize, cfg.Ranks.Rank, cfg.Training.SeqLength)
	// Output: code env 16 3 512
}

func ExampleDecode() {
	_, unknown, err := config.Decode[config.Base]([]byte("application_name: charlm\nworldsize: 4\n"), "job.yaml")
	fmt.Println(unknown[0], err)
	// Output: job.yaml:2:1: worldsize: unknown key "worldsize"; did you mean "world_size"? <nil>
}

// A program that changes what it has loaded validates the result.
func ExampleConfig_Validate() {
	cfg, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: config.Environ(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.ApplicationName = "charlm"
	cfg.Outputs.Trace = config.Trace{Path: "run-{rank}.pfw.gz", Dialect: "v3"}
	if bad := (*config.ValidationError)(nil); errors.As(cfg.Validate(), &bad) {
		fmt.Println(bad.Problems[0].String())
	}
	cfg.Outputs.Trace.Dialect = config.TraceV22 // or TraceV1, TraceV2
	fmt.Println(cfg.Validate())
	// Output:
	// outputs.trace.dialect: must be 'v1', 'v2' or 'v22'; did you mean "v1"? (got "v3")
	// <nil>
}

func ExampleDetectRanks() {
	ranks, err := config.DetectRanks(config.Environ([]string{"RANK=3", "WORLD_SIZE=16", "SLURM_JOB_ID=4711"}))
	fmt.Println(ranks.Rank, ranks.WorldSize, ranks.Job, err)
	// Output: 3 16 4711 <nil>
}

// Only the spans of checkpoints, in one trace per epoch.
func ExampleExport() {
	cfg := config.Config{
		Base:    config.Base{ApplicationName: "charlm"},
		Export:  config.Export{Mode: config.Whitelist, SpanNames: []string{"checkpoint_save_sync", "checkpoint_load"}},
		Outputs: config.Outputs{OTLP: config.OTLP{Endpoint: "http://collector:4318", TraceSplit: config.TracePerEpoch}},
	}
	fmt.Println(cfg.Validate())
	// Output: <nil>
}
