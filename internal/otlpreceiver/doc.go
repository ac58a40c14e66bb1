// Package otlpreceiver takes the spans that programs send by OTLP, on the
// loopback interface of this machine: gRPC and HTTP on one port, protobuf and
// JSON, compressed with gzip or not.
//
//	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: "out"})
//	r, err := otlpreceiver.Listen(files.Take, nil)
//	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=r.Endpoint()+"/v1/traces"
//	...
//	err = errors.Join(r.Shutdown(ctx), files.Close(ctx))
//
// [Files] writes them as trace files, one for each process, in the names of this
// library whatever vocabulary they come in (package vocabulary).
package otlpreceiver
