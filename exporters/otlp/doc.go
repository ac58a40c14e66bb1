// Package otlp sends spans, logs and metrics to any OpenTelemetry receiver, a collector
// or a backend, by OTLP over gRPC or HTTP.
//
// trainspan.Start sets up all three. A program that uses the builder of package
// telemetry reads the standard OTEL_* variables, or makes a [Config] of its own:
//
//	cfg, on, err := otlp.FromEnv(os.LookupEnv)
//	if err != nil {
//		return err
//	}
//	if on {
//		cfg.SpillDir = "/var/spool/job" // optional: lose nothing while the backend is away
//		exporter, err := otlp.New(ctx, cfg)
//		if err != nil {
//			return err
//		}
//		builder.WithSpanExporter(exporter)
//	}
//
// The exporter never keeps the program waiting: [New] makes no connection, and the
// provider feeds it from a bounded queue on a goroutine of its own. A batch is tried
// again, with growing pauses, while the backend is away. Spans that cannot be delivered
// are dropped and counted by cause, or written to the spill directory, from where
// [Replay] sends them later.
//
// [Logs] makes spans visible that are still open: it sends their starts, events and
// errors as log records. [NewMetricExporter] makes the exporter of metrics.
//
// Header values often are secrets. They appear in no error and no log.
package otlp
