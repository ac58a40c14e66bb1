// Package dftracer writes and reads trace files in the format of DFTracer: one JSON
// object per line, Chrome's trace event keys, gzip members.
//
// A [Writer] takes events from many goroutines and never makes them wait for the disk
// unless the disk is slower than the program:
//
//	w, err := dftracer.Create("trace-{rank}.pfw.gz", nil)
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	lanes := dftracer.NewLanes(int64(os.Getpid()))
//	forward := dftracer.NewKey("compute", "forward")
//
//	id, start := w.NextID(), time.Now()
//	lane, _ := lanes.Begin(dftracer.Lane{}, start.UnixMicro())
//	// the forward pass
//	end := time.Now()
//	w.WriteComplete(&forward, dftracer.Span{
//		ID: id, TID: lanes.End(lane, end.UnixMicro()), TS: start.UnixMicro(), Dur: end.Sub(start).Microseconds(), Level: 1,
//	}, dftracer.Int("epoch", 3), dftracer.Int("step", 12))
//
// [Lanes] chooses the tid of spans so that tools which nest by containment show the real
// nesting. A [Reader] returns the events of a file one by one, [Scan] reads the members
// of a large file in parallel, [ValidateFile] checks a whole trace, and [Recover]
// repairs the file of a process that was killed.
//
// The package does not depend on OpenTelemetry and starts no goroutine before a Writer
// or a Scan does. Times and durations in events are microseconds; times are wall-clock
// time since the Unix epoch.
package dftracer
