// Package spanstats folds the events of traces into totals while they stream by:
// time per name with self time and percentiles, and how much of each process's
// time went into computing, I/O and communication.
//
//	agg := spanstats.New(nil)
//	_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
//		agg.Add(ev)
//		return nil
//	})
//	result := agg.Result()
//
// Memory does not grow with the number of events. Counts, totals and means are
// exact; percentiles come from a histogram whose buckets are less than 1.6 %
// wide. Self time and unions are exact as long as what has to be remembered
// fits its bound, and Result tells what was given up where it does not.
package spanstats
