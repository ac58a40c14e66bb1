package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/trainspan/trainspan/dftracer"
)

// The program leaves a trace and a JSON-lines file behind.
func Example() {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	main()

	trace, err := dftracer.ValidateFile("trace.pfw.gz", nil)
	fmt.Println(trace.Counts["pipeline/train.iteration/X"], "iterations in the trace, error", err, trace.Err())
	records, err := os.ReadFile("telemetry.jsonl")
	fmt.Println(bytes.Count(records, []byte("training_metrics_update")), "metrics update in the file, error", err)
	// Output:
	// 10 iterations in the trace, error <nil> <nil>
	// 1 metrics update in the file, error <nil>
}
