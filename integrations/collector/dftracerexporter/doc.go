// Package dftracerexporter is an exporter of the OpenTelemetry Collector that
// writes traces as DFTracer files, one per process:
//
//	exporters:
//	  dftracer:
//	    directory: /scratch/traces
//	    file_name: trace-{rank}-{host}-{pid}.pfw.gz
//
// Spans come from any OTLP source. The exporter identifies their process by
// their resource: host.name, process.pid, training.rank (or rank), service.name
// and service.instance.id. Categories and names of events follow the table of
// package spans, so DFAnalyzer finds the layers of a training job whatever its
// language.
//
// A span reaches the Collector after its end, children before parents, in
// batches that may overtake each other. The exporter keeps spans for a short
// time to write whole subtrees on one lane, assigns an id to an open parent
// when it writes its first child, and remembers a limited number of both. See
// the README for the memory this needs.
//
// The exporter writes log records that are events of spans, which trainspan
// sends for spans that are still open, as metadata records at once.
package dftracerexporter
