// Package otlp sends spans, logs and metrics to any OpenTelemetry receiver, a
// collector or a backend, by OTLP over gRPC or HTTP.
//
// The standard OTEL_* variables choose and configure it:
//
//	cfg, on, err := otlp.FromEnv(os.LookupEnv)
//	if err == nil && on {
//		cfg.SpillDir = "/var/spool/job" // optional: lose nothing while the backend is away
//		exporter, err := otlp.New(ctx, cfg)
//		…
//		builder.WithSpanExporter(exporter)
//	}
//
// or a program does, with a [Config] of its own. The exporter never keeps the
// program waiting: New makes no connection, and the provider feeds it from a
// bounded queue on a goroutine of its own. A batch is tried again, with growing
// pauses, while the backend is away; what cannot be delivered is dropped and
// counted by cause, or written to the spill directory, from where [Replay]
// sends it later.
//
// [Logs] makes spans visible that are still open: it sends their starts, events
// and errors as log records. [metricExporter] sends metrics. Package exporters
// sets up all three.
//
// Header values often are secrets. They appear in no error and no log.
package otlp
