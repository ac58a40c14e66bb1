// Package config holds the plain structs that describe one training job's
// telemetry, and reads them from YAML or JSON files, from the environment and
// from code. It opens no exporter and no connection: it only says what was
// asked for, and names every problem of a configuration at once.
//
// A configuration written in code is a composite literal:
//
//	base := config.Base{
//		ApplicationName: "charlm",
//		SessionTag:      config.Value("run-42"),
//		WorldSize:       config.Func(func() int { return cluster.Size() }),
//		Training: &config.Training{
//			PerfTag:         config.Value("charlm-small"),
//			GlobalBatchSize: config.Value(32),
//		},
//	}
//	if err := base.Validate(); err != nil { ... }
//
// The zero value of every field means "not given"; [Base.WithDefaults] and its
// like give what then holds. Only the application name is required.
//
// [Load] joins a file, the environment and code; code wins over the
// environment, and the environment over the file. [DetectRanks] reads what
// launchers give. Nothing in this package reads the environment before one of
// them is called.
package config
