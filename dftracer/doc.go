// Package dftracer writes and reads trace files in the format of DFTracer:
// one JSON object per line, Chrome's trace event keys, gzip members.
//
// A Writer takes events from many goroutines and never makes them wait for
// the disk unless the disk is slower than the program:
//
//	w, err := dftracer.Create("trace-{rank}.pfw.gz", nil)
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	forward := dftracer.NewKey("compute", "forward")
//	id, start := w.NextID(), time.Now()
//	...
//	w.WriteComplete(&forward, dftracer.Span{ID: id, TID: lane, TS: start.UnixMicro(),
//		Dur: time.Since(start).Microseconds(), Level: 1}, dftracer.Int("epoch", 3), dftracer.Int("step", 12))
//
// Lanes decides the tid of spans so that tools which nest by containment
// show the truth. A Reader returns the events of a file one by one, Scan reads
// the members of a large file in parallel, Validate checks a whole trace and
// Recover repairs the file of a process that was killed.
//
// The package knows nothing of OpenTelemetry and starts no goroutine before a
// Writer or a Scan does.
package dftracer
