// Package spans is the vocabulary of span and event names, and the one table
// that maps the training-telemetry names to the DFTracer ones.
//
//	info, ok := spans.Lookup(spans.ModelForward)
//	// info.Category == "compute", info.Event == "forward"
package spans
