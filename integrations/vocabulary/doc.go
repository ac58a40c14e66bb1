// Package vocabulary knows how other programs name the spans of a training job,
// and what these are called in a trace file: one table for all of them.
//
//	v, ok := vocabulary.Find("megatron.train_step")
//	// v.Span == spans.TrainingIteration
//
// A standard span (package spans) keeps its meaning whatever sent it: ledger,
// straggler search and analyzers see no difference. A span that has no standard
// counterpart gets a category, so that its time is counted for what it is.
package vocabulary
