// Package telemetry records a training job: it turns what the job reports into
// OpenTelemetry spans and records for outputs, and computes the metrics of the
// training.
//
// trainspan.Start makes a [Provider] from the environment. A program that sets
// every part itself uses the builder:
//
//	tel, err := telemetry.NewTrainingTelemetryBuilder().
//		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(2)}).
//		WithTrainingConfig(config.Training{PerfTag: config.Value("charlm-small"), GlobalBatchSize: config.Value(32)}).
//		WithExporter(file.New("telemetry.jsonl", nil)).
//		ConfigureProvider(ctx)
//	if err != nil {
//		return err
//	}
//	defer tel.Shutdown(ctx)
//
//	for batch := range batches {
//		ctx, iteration := tel.Start(ctx, spans.TrainingIteration)
//		loss, err := train(ctx, batch)
//		iteration.SetLoss(loss)
//		iteration.EndErr(&err)
//	}
//
// [Provider.Start] is the usual way to start a span. A program can choose
// another style for a part of its code; spans of all styles nest in each other:
//
//   - Spans in a context, for code that hands on a context: [Provider.Start], or
//     [Provider.Run] around a function; [Provider.StartSpan] and [Provider.TimedSpan] for
//     names of your own.
//   - Callbacks, for frameworks with hooks, where no context leads from one call to the
//     next: package callbacks has a function for each start and each end.
//   - Plain OpenTelemetry, for instrumentation libraries and code that has it already:
//     [Provider.TracerProvider].
//   - The ai tree, for the operations inside of an iteration under the names of DFTracer:
//     package ai.
//
// Recording never stops, slows or changes the training: no call returns an
// error of telemetry that a program must handle, a [Provider] that is nil or
// off does nothing, and problems are reported to the outputs, to the log and in
// [Stats].
package telemetry
