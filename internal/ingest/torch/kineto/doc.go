// Package kineto reads the Chrome traces that the PyTorch profiler writes.
//
// The reader is a hand-written scanner over a sliding window: it keeps one
// event at a time, leaves the arguments of an event as raw bytes until they
// are asked for, and turns decimal microseconds into int64 nanoseconds without
// passing through a float. Its memory does not grow with the file.
//
//	err := kineto.Walk(file, "rank0.pt.trace.json.gz", func(m kineto.Member) error {
//		r := kineto.NewReader(m.Body)
//		var ev kineto.Event
//		for {
//			if err := r.Next(&ev); err == io.EOF {
//				return nil
//			} else if err != nil {
//				return err
//			}
//			fmt.Println(ev.Kind(), ev.Name(), ev.TS, ev.Dur)
//		}
//	})
//
// It accepts every shape seen since torch 1.9: objects and bare arrays,
// absolute and relative times, the base key before or after the events or
// missing, quoted thread ids, rows with and without a category. A damaged file
// is read as far as it goes: an event that cannot be parsed is skipped, the
// scanner finds the next one, and Info tells what was skipped and where.
// Files of another kind are refused by name with a *RefusedError.
package kineto
