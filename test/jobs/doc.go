// Package jobs replays recorded jobs through every path of a span and compares
// the outputs with the expected ones.
//
// A recording is the input of one job: the ring buffers of Python processes,
// the requests of OpenTelemetry SDKs, files of the PyTorch profiler and
// compiler, or a script of calls of the Go API. A replay needs neither Python
// nor PyTorch nor a network.
//
// The outputs (trace files, JSON lines, OTLP requests, counts) are compared in
// a normal form that keeps their meaning: the spans and how they nest, their
// levels and lanes, unfinished spans, attributes, events, links, metadata and
// losses. It leaves out what differs between two runs: ids, process numbers,
// the order of the parts of a batch, versions. README.md describes the form and
// how to record a job again.
package jobs
