// Package setup turns a configuration into exporters: the JSON-lines file,
// the DFTracer trace, OTLP with spans, logs and metrics, and Prometheus, each
// where and how config.Outputs says.
//
//	cfg, err := config.Load(config.LoadOptions{})
//	…
//	builder, outputs, err := exporters.NewBuilder(ctx, cfg, nil)
//	…
//	tel, err := builder.ConfigureProvider(ctx)
//	if err != nil {
//		outputs.Close(ctx)
//		return err
//	}
//	defer tel.Shutdown(ctx) // writes, sends and closes everything
//
// [Apply] adds the outputs to a builder of the caller's own.
package setup
