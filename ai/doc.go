// Package ai is DFTracer's tree of what a training job does: compute, data,
// data loading, communication, device transfers, checkpoints, the pipeline.
// Each node records scopes under its category and name, by which DFAnalyzer's
// "ai" preset finds its layers.
//
//	defer ai.Compute.Forward.Start(ctx).End()
//
//	ctx, step := ai.Compute.Step.StartContext(ctx) // what is started with ctx nests below
//	defer step.End()
//
//	for epoch := range ai.Pipeline.Epoch.Range(ctx, epochs) {
//		for batch := range ai.Iter(ctx, ai.DataLoader.Fetch, loader.Batches()) {
//			ai.Update(ai.Epoch(epoch), ai.Step(step)) // holds for this block too
//			...
//		}
//	}
//
// The nodes of the package belong to the default provider of package
// telemetry; NewTree makes a tree over another one. A scope is written
// straight to the trace file when nobody else wants it, and is an
// OpenTelemetry span when an exporter asks for it: see
// telemetry.Provider.ScopeKind. Scopes nest with the spans of package
// telemetry and of the plain OpenTelemetry API through the context, in any
// order and across goroutines. Without a span in the context a scope hangs
// under the latest open span of a callback. The block of a plain iterator and
// the scope of a hook are the parents of what starts with their context.
//
// Everything is safe for concurrent use, any number of scopes of one node may
// be open at a time, and a nil Node does nothing. Without a provider nothing
// happens and nothing is allocated; a warning is logged once if there is a sign
// that somebody expects a trace.
package ai
