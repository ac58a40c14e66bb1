// Package vocab knows what the names of spans mean, whatever program gave them: their
// class, their rule of a training step, the standard span that other vocabularies call
// by another name, and what an OpenTelemetry span is called in a trace file.
package vocab
