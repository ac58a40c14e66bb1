package account_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// TestComputeOfDLIO checks that the computation of DLIO for a batch is a step, also for the
// last batch of an epoch, which has no recorded body, and that its computation in an
// evaluation is not a step.
func TestComputeOfDLIO(t *testing.T) {
	p := process{Process: account.Process{Rank: 0, Attempt: 1, Start: ns(1000), End: ns(1060), LastSeen: ns(1060), Heartbeats: true}}
	add := func(id, parent uint64, cat, name string, from, to float64) {
		p.spans = append(p.spans, job.Span{ID: id, Parent: parent, Name: name, Cat: cat, Start: ns(1000 + from), End: ns(1000 + to), Step: job.Unknown, First: job.Unknown})
	}
	add(1, 0, "dlio_benchmark", "DLIOBenchmark._train", 0, 40)
	id := uint64(2)
	for i := range 3 {
		at := float64(10 * i)
		if i < 2 {
			add(id, 1, "data_loader", "loop.iter", at, at+3)
			add(id+1, 1, "data_loader", "loop.yield", at+3, at+10)
			add(id+2, id+1, "ai_framework", "TorchFramework.compute", at+4, at+9)
		} else {
			add(id, 1, "ai_framework", "TorchFramework.compute", at+4, at+9)
		}
		id += 3
	}
	add(id, 0, "dlio_benchmark", "DLIOBenchmark._eval", 40, 60)
	add(id+1, id, "ai_framework", "TorchFramework.compute", 45, 50)
	want := map[string]int64{string(account.Productive): 15000, string(account.DataWait): 6000, string(account.Validation): 20000, string(account.Other): 19000}
	var ledger account.Ledger
	if err := ledger.Add(p.builder(nil, false)); err != nil {
		t.Fatal(err)
	}
	rep := ledger.Report(account.Query{})
	for _, d := range diffTotals("offline", rep.Categories, want) {
		t.Errorf("ledger differs: %s", d)
	}
	if rep.Iterations.Kept != 3 {
		t.Errorf("%+v, want 3 steps", rep.Iterations)
	}
}
