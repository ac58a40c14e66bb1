// Package kineto reads the Chrome traces that the PyTorch profiler writes.
//
// The reader is a hand-written scanner with a sliding window: it keeps one
// event at a time, parses the arguments of an event on demand, and converts
// decimal microseconds to int64 nanoseconds without using a float. Its memory
// does not grow with the file.
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
// It accepts every form since torch 1.9: objects and bare arrays, absolute and
// relative times, the base key before or after the events or missing, quoted
// thread ids, rows with and without a category. A damaged file is read as far
// as possible: an event that cannot be parsed is skipped, the scanner finds the
// next one, and Info has what was skipped and where. Files of another kind are
// refused with a *RefusedError that names the kind.
package kineto
