// Package pfw writes OpenTelemetry spans into a DFTracer trace file.
//
// [Processor] is for a training job: a span processor that places each span on the
// goroutine that ends it, and drops nothing. Children nest under their parents in the
// file. The writer's goroutine makes the lines, so that a span costs its goroutine about
// a quarter more than without the Processor.
//
//	p, err := pfw.Create("trace-{rank}.pfw.gz", nil)
//	if err != nil {
//		return err
//	}
//	tel, err := telemetry.NewTrainingTelemetryBuilder().
//		WithBaseConfig(base).
//		WithSpanProcessor(p).
//		ConfigureProvider(ctx)
//	if err != nil {
//		return err
//	}
//	defer tel.Shutdown(ctx) // closes the file too
//
// [Exporter] is for any other OpenTelemetry program:
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New("trace.pfw.gz", nil)))
//	defer tp.Shutdown(ctx) // closes the file too
//
// The category and the name of an event come from the table of package spans for
// standard spans. For other spans, the category is the attribute "dftracer.cat", or else
// the last word of the instrumentation scope, and the name is the attribute
// "dftracer.name", or else the span name.
package pfw
