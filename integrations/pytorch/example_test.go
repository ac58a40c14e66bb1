package pytorch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
)

// What tensorboard_trace_handler left in a folder becomes one trace.
func ExampleImport() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	path := filepath.Join(dir, "run.pfw.gz")

	sources, err := pytorch.Files("testdata/compile.json")
	if err != nil {
		panic(err)
	}
	w, err := dftracer.Create(path, nil)
	if err != nil {
		panic(err)
	}
	if _, err := pytorch.Import(context.Background(), w, sources, nil); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowForeign: true})
	fmt.Println(report.OK(), report.Events > 0, err)
	// Output: true true <nil>
}

// A Python profiler handler may count from the start of the profiler. The
// Kineto trace of the same run tells by how much its events have to move.
func ExampleFindPPClock() {
	events := []*dftracer.Event{
		{Cat: "PP", Name: "aten::empty_strided", TS: 100, Dur: 2},
		{Phase: dftracer.PhaseComplete, Cat: "PP", Name: "aten::mm", TS: 169, Dur: 50},
		{Cat: "PP", Name: "aten::relu", TS: 519, Dur: 5},
		{Cat: "compute", Name: "forward", TS: 1778000000000000, Dur: 900},
	}
	var file bytes.Buffer
	w, err := dftracer.NewWriter(&file, nil)
	if err != nil {
		panic(err)
	}
	for _, ev := range events {
		w.Write(ev)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	trace := pytorch.Source{Name: "run.pfw.gz", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }}
	profiles, err := pytorch.Files("testdata/compile.json")
	if err != nil {
		panic(err)
	}
	clock, err := pytorch.FindPPClock(context.Background(), trace, &profiles[0])
	if err != nil {
		panic(err)
	}
	fmt.Println(clock.Warning())
	fmt.Println(clock.Fix(events[1]), events[1].TS)
	// Output:
	// 3 PP events were on the profiler's own clock; they were moved by 1777999999999931 microseconds, found from 3 of 3 events of the Kineto trace
	// true 1778000000000100
}
