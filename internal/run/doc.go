// Package run puts a training job together from the files that its processes
// left: job, attempts, ranks, spans, events, the last sign of life of each
// process, and what is missing.
package run
