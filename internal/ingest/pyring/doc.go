// Package pyring reads the ring buffers of Python processes (package ring,
// docs/maintain/ring.md) while the processes run, and writes a trace file per
// process and, if the program uses one-logger's callbacks, JSON lines.
//
//	drain, err := pyring.New(pyring.Options{Dir: rings, Out: folder})
//	... run the job ...
//	err = drain.Close(ctx)
//
// Import does the same with ring buffers that were left behind.
//
// Each process keeps its own pid, threads, host, rank and times. The parent of
// a span is the innermost span of its thread that was open when it started; if
// the span outlives that, its parent is the next one around it. A span that was
// open when a process died has a begin record and no end.
package pyring
