// Package jobs replays recorded jobs through every way that a span can take and
// compares what comes out with what is expected.
//
// A recording is the input of one job: the rings of Python processes, the requests
// of OpenTelemetry SDKs, files of the PyTorch profiler and compiler, or a script of
// calls of the Go API. A replay needs neither Python nor PyTorch nor a network.
//
// The outputs (trace files, JSON lines, OTLP requests, counts) are compared in a
// normal form that keeps what they mean: which spans there are, how they nest,
// their levels and lanes, what is unfinished, attributes, events, links, metadata and
// losses. It leaves out what differs between two runs: ids, process numbers, the
// order in which parts of a batch are written, versions. README.md says how to read
// it and how to record a job again.
package jobs
