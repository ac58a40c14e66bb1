// Package pfw writes OpenTelemetry spans into a DFTracer trace file.
//
// [Processor] is for a training job: a span processor that writes each span on the
// goroutine that ends it. Nothing is queued, nothing is dropped, and children nest under
// their parents in the file.
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
// [Exporter] is for any other OpenTelemetry program, in one line:
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New("trace.pfw.gz", nil)))
//	defer tp.Shutdown(ctx) // closes the file too
//
// The category and the name of an event come from the table of package spans for
// standard spans. Other spans have the category of their attribute "dftracer.cat", or
// else the last word of their instrumentation scope, and the name of their attribute
// "dftracer.name", or else their own.
package pfw
