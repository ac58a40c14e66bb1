// Package file writes native telemetry records as JSON lines, in the record
// grammar of NVIDIA's one-logger.
//
//	exporter := file.New("telemetry.{rank}.jsonl", nil)
//	builder.WithExporter(exporter)
//
// By default each record is written when it happens, spans name their parent,
// trace and rank, and every line is valid JSON. [Options.Compat] writes what
// one-logger itself would write, byte for byte.
package file
