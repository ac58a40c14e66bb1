package file_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx := context.Background()
	exporter := file.New(filepath.Join(dir, "telemetry-{rank}.jsonl"), nil)
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithRanks(config.Ranks{Rank: config.Value(0)}).
		WithExporter(exporter).
		ConfigureProvider(ctx)
	if err != nil {
		panic(err)
	}
	_, sp := tel.StartSpan(ctx, "tokenize")
	sp.End()
	fmt.Println(tel.Shutdown(ctx), filepath.Base(exporter.Path()))

	f, err := os.Open(exporter.Path())
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var record struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			panic(err)
		}
		fmt.Println(record.Type, record.Name)
	}
	// Output:
	// <nil> telemetry-0.jsonl
	// start tokenize
	// stop tokenize
}

// A program with an SDK of its own writes JSON lines beside what it sends.
func ExampleNew_besideOTLP() {
	ctx := context.Background()
	path := filepath.Join(os.TempDir(), "telemetry-{pid}.jsonl")
	sent, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint("localhost:4317"), otlptracegrpc.WithInsecure())
	if err != nil {
		panic(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(sent), sdktrace.WithBatcher(file.New(path, nil)))
	defer tp.Shutdown(ctx) //nolint:errcheck // the SDK has logged it
	_, span := tp.Tracer("example.com/job").Start(ctx, "training_loop")
	span.End()
}
