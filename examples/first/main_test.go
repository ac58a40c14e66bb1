package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/dftracer"
)

// The program writes a trace and JSON lines to a directory of this run.
func Example() {
	dir, err := os.MkdirTemp("", "first")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	main()
	main() // a second start is a second attempt

	for n := range 2 {
		traces, _ := filepath.Glob(fmt.Sprintf("trainspan-runs/*/attempt-%d/*/trace.pfw.gz", n+1))
		trace, err := dftracer.ValidateFile(traces[0], nil)
		fmt.Println(trace.Counts["pipeline/train.iteration/X"], "iterations in the trace, error", err, trace.Err())
		records, _ := filepath.Glob(fmt.Sprintf("trainspan-runs/*/attempt-%d/*/telemetry.jsonl", n+1))
		lines, err := os.ReadFile(records[0])
		fmt.Println(bytes.Count(lines, []byte(`"stop"`)), "spans ended in the JSON lines, error", err)
	}
	// Output:
	// 200 iterations in the trace, error <nil> <nil>
	// 2 spans ended in the JSON lines, error <nil>
	// 200 iterations in the trace, error <nil> <nil>
	// 2 spans ended in the JSON lines, error <nil>
}
