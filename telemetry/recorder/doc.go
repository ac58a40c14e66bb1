// Package recorder keeps the state of a training run: the spans that are open,
// what their parents are, the windows of time and the counters that the
// metrics are made of. It makes the records and the OpenTelemetry spans;
// package telemetry hands them to the outputs.
//
// Programs use package telemetry, which makes a [Recorder] with its provider
// and has other names for the types of this package. Use a Recorder directly
// for spans whose start and end are far apart.
package recorder
