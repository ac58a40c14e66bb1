package ai_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
)

// A loop over batches: the wait for each is fetch.iter, the work on it is
// fetch.block, and what the body does nests inside.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	path := filepath.Join(dir, "trace.pfw.gz")
	trace, err := pfw.Create(path, nil)
	if err != nil {
		panic(err)
	}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "loop", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithSpanProcessor(trace).
		ConfigureProvider(context.Background())
	if err != nil {
		panic(err)
	}
	defer telemetry.SetDefault(tel)()

	ctx := context.Background()
	batches := func(yield func(int) bool) {
		for i := range 3 {
			if !yield(i) {
				return
			}
		}
	}
	// snippet:ai
	for epoch := range ai.Pipeline.Epoch.Range(ctx, 2) {
		for ctx, batch := range ai.IterContext(ctx, ai.DataLoader.Fetch, batches) {
			ai.Update(ai.Epoch(epoch), ai.Step(3*epoch+batch))
			forward := ai.Compute.Forward.Start(ctx)
			forward.End()
			gather := ai.Comm.AllReduce.Start(ctx)
			gather.End()
		}
	}
	// end:ai
	if err := tel.Shutdown(ctx); err != nil {
		panic(err)
	}

	report, err := dftracer.ValidateFile(path, nil)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"pipeline/epoch.block/X", "dataloader/fetch.iter/X", "dataloader/fetch.block/X", "compute/forward/X", "comm/all_reduce/X"} {
		fmt.Println(name, report.Counts[name])
	}
	fmt.Println(report.OK())
	// Output:
	// pipeline/epoch.block/X 2
	// dataloader/fetch.iter/X 6
	// dataloader/fetch.block/X 6
	// compute/forward/X 6
	// comm/all_reduce/X 6
	// true
}
