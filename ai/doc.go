// Package ai implements DFTracer's tree of the operations of a training job:
// compute, data, data loading, communication, device transfers, checkpoints,
// the pipeline. Each node records scopes under its category and name, by which
// DFAnalyzer's "ai" preset finds its layers.
//
//	defer ai.Compute.Forward.Start(ctx).End()
//
//	ctx, step := ai.Compute.Step.StartContext(ctx) // what starts with ctx nests below
//	defer step.End()
//
//	for epoch := range ai.Pipeline.Epoch.Range(ctx, epochs) {
//		for batch := range ai.Iter(ctx, ai.DataLoader.Fetch, batches) {
//			ai.Update(ai.Epoch(epoch)) // holds for this block too
//			train(ctx, batch)
//		}
//	}
//
// The nodes of the package belong to the default provider of package telemetry;
// [NewTree] makes a tree over another provider. A scope goes straight to the
// trace file, and is an OpenTelemetry span too if the filter of an exporter
// selects it: config.ExportAll selects all scopes, a list those that it names as
// "compute.forward", as "forward" or by the standard span of package spans. The
// default filter selects none.
//
// Scopes nest with the spans of package telemetry and of the plain
// OpenTelemetry API through the context, in any order and across goroutines. If
// the context carries no span, the parent is the latest open span of a
// callback. The block of a plain iterator and the scope of a hook are the
// parents of what starts with their context.
//
// Everything is safe for concurrent use, any number of scopes of one node may
// be open at a time, and a nil Node does nothing. Without a provider nothing is
// recorded and nothing is allocated; one warning is logged if DFTRACER_ENABLE
// asks for a trace or another provider than the default one is on.
package ai
