// Package pyring reads the rings of Python processes (package ring, docs/maintain/architecture.md)
// while those run, and writes what stands in them as a trace file per process and,
// where the program uses one-logger's callbacks, as JSON lines.
//
//	drain, err := pyring.New(pyring.Options{Dir: rings, Out: folder})
//	... run the job ...
//	err = drain.Close(ctx)
//
// Import does the same with rings that were left behind.
//
// Each process keeps its own pid, threads, host, rank and times. A span lies
// below the innermost span of its thread that was open when it started; one
// that outlives it belongs to the next one. What was open when a process died
// has a begin record and no end.
package pyring
