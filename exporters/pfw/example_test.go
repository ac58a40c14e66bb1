package pfw_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	path := filepath.Join(dir, "trace.pfw.gz")

	// snippet:otel
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New(path, nil)))
	// end:otel
	ctx, request := tp.Tracer("example.com/shop").Start(context.Background(), "request")
	_, query := tp.Tracer("example.com/shop").Start(ctx, "query")
	query.End()
	request.End()
	if err := tp.Shutdown(context.Background()); err != nil {
		panic(err)
	}

	report, err := dftracer.ValidateFile(path, nil)
	fmt.Println(report.Counts["shop/request/X"], report.Counts["shop/query/X"], report.OK(), err)
	// Output: 1 1 true <nil>
}

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary

	trace, err := pfw.Create(filepath.Join(dir, "trace-{rank}.pfw.gz"), nil)
	if err != nil {
		panic(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(trace))
	_, span := tp.Tracer("example.com/job").Start(context.Background(), "training_loop")
	span.End()
	fmt.Println(tp.Shutdown(context.Background()), filepath.Base(trace.Writer().Path()))
	// Output: <nil> trace-0.pfw.gz
}

// A program with its own SDK writes a trace file in addition to its OTLP export.
func ExampleNew_besideOTLP() {
	ctx := context.Background()
	path := filepath.Join(os.TempDir(), "trace-{pid}.pfw.gz")
	sent, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint("localhost:4317"), otlptracegrpc.WithInsecure())
	if err != nil {
		panic(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sent), sdktrace.WithBatcher(pfw.New(path, nil)))
	defer tp.Shutdown(ctx) //nolint:errcheck // the SDK has logged it
	_, span := tp.Tracer("example.com/job").Start(ctx, "training_loop")
	span.End()
}
