// Package telemetry is the engine: it turns what a training job reports into
// OpenTelemetry spans and native records, and computes its metrics.
//
//	tel, err := telemetry.NewTrainingTelemetryBuilder().
//		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(2)}).
//		WithTrainingConfig(config.Training{PerfTag: config.Value("charlm-small"), GlobalBatchSize: config.Value(32)}).
//		WithExporter(file.New("telemetry.jsonl", nil)).
//		ConfigureProvider(ctx)
//	defer tel.Shutdown(ctx)
//
//	ctx, it := tel.Start(ctx, spans.TrainingIteration)
//	loss, err := step(ctx)
//	it.SetLoss(loss)
//	it.EndErr(&err)
//
// Recording never stops, slows or changes the training: a scope returns no
// error of telemetry, a provider that is nil or off does nothing, and what is
// wrong is reported to the exporters, to the log and in [Stats].
package telemetry
