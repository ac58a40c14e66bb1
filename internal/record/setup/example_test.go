package setup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/spans"
)

// The environment selects the outputs; the program does not mention them.
func ExampleNewBuilder() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx := context.Background()
	cfg, err := config.Load(config.LoadOptions{LookupEnv: config.Environ([]string{
		"TRAINSPAN_APPLICATION_NAME=charlm", "TRAINSPAN_SESSION_TAG=run-42", "RANK=0", "WORLD_SIZE=1",
		"DFTRACER_ENABLE=1", "DFTRACER_LOG_FILE=" + filepath.Join(dir, "trace-{rank}.pfw.gz"),
		"TRAINSPAN_FILE_PATH=" + filepath.Join(dir, "telemetry-{rank}.jsonl"),
	})})
	if err != nil {
		panic(err)
	}
	builder, outputs, err := setup.NewBuilder(ctx, cfg, nil)
	if err != nil {
		panic(err)
	}
	tel, err := builder.ConfigureProvider(ctx)
	if err != nil {
		outputs.Close(ctx)
		panic(err)
	}
	_, app := tel.Start(ctx, spans.Application)
	app.End()
	fmt.Println(tel.Shutdown(ctx)) // writes, sends and closes everything
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// telemetry-0.jsonl
	// trace-0.pfw.gz
	// <nil>
}
