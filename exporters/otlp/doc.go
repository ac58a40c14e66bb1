// Package otlp sends spans, logs and metrics to any OpenTelemetry receiver, a
// collector or a backend, by OTLP over gRPC or HTTP.
//
// trainspan.Start sets up all three. A program that uses the builder of package
// telemetry reads the standard OTEL_* variables, or makes its own [Config]:
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
// The exporter never blocks the program: [New] makes no connection, and the
// provider feeds it from a bounded queue on its own goroutine. While the
// backend is unreachable, a batch is retried with growing pauses. Spans that
// cannot be delivered are dropped and counted by cause, or written to the spill
// directory, from where [Replay] sends them later.
//
// [Logs] makes open spans visible: it sends their starts, events and errors as
// log records. [NewMetricExporter] exports metrics.
//
// Header values are often secrets. No error and no log has them.
package otlp
