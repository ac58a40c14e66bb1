package torch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// The files of tensorboard_trace_handler in a folder become one trace.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	path := filepath.Join(dir, "run.pfw.gz")

	sources, err := torch.Files("testdata/compile.json")
	if err != nil {
		panic(err)
	}
	w, err := dftracer.Create(path, nil)
	if err != nil {
		panic(err)
	}
	if _, err := torch.Import(context.Background(), w, sources, nil); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowForeign: true})
	fmt.Println(report.OK(), report.Events > 0, err)
	// Output: true true <nil>
}
