package report_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)                                                     //nolint:errcheck // temporary
	if _, err := (simjob.Attempt{Ranks: 4, Steps: 60}).Write(dir); err != nil { // writes the traces of a job
		panic(err)
	}

	state, err := report.Load(nil, dir)
	if err != nil {
		panic(err)
	}
	for _, job := range state.Jobs() {
		r := report.Build(job)
		fmt.Printf("%d ranks, %d steps, %.0f %% in steps\n", len(r.Ranks), r.Steps.Count, 100**r.Goodput)
		var screen strings.Builder
		fmt.Println(report.Text(&screen, r), strings.Contains(screen.String(), "compute")) // or JSON, or HTML
	}
	// Output:
	// 4 ranks, 60 steps, 81 % in steps
	// <nil> true
}
