// Package dftracerexporter is an exporter of the OpenTelemetry Collector that
// writes traces as DFTracer files, one per process:
//
//	exporters:
//	  dftracer:
//	    directory: /scratch/traces
//	    file_name: trace-{rank}-{host}-{pid}.pfw.gz
//
// Spans come from any OTLP source. Which process they are of is read from
// their resource: host.name, process.pid, training.rank (or rank),
// service.name and service.instance.id. Categories and names of events follow
// the table of package spans, so DFAnalyzer finds the layers of a training job
// whatever language it is written in.
//
// A span reaches the Collector when it has ended, children before parents and
// in batches that may overtake each other. The exporter keeps spans for a
// short while to put whole subtrees on one lane, gives out the id of a parent
// that is still open when its first child is written, and remembers a bounded
// number of both. See the README for the sums.
//
// Log records that are events of spans, as trainspan sends them for spans that
// are still open, become metadata records at once.
package dftracerexporter
