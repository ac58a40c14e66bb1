package account_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// TestStartUp checks that the parts of a start divide only time that no other span
// explains: initializations, data loading and custom spans have priority.
func TestStartUp(t *testing.T) {
	p := process{Process: account.Process{Rank: 0, Attempt: 1, Start: ns(1000), End: ns(1100), LastSeen: ns(1100), Heartbeats: true}}
	add := func(id, parent uint64, cat, name string, from, to float64) {
		s := job.Span{ID: id, Parent: parent, Name: name, Cat: cat, Start: ns(1000 + from), End: ns(1000 + to), Step: job.Unknown, First: job.Unknown}
		p.spans = append(p.spans, s)
	}
	add(1, 0, "", "application", 0, 100)
	add(2, 1, "startup", "interpreter", 0, 2)
	add(3, 1, "", "startup_imports", 2, 10)
	add(4, 3, "startup", "device", 6, 9)            // inside of imports: counts as device
	add(5, 1, "", "model_initialization", 10, 20)   // init
	add(6, 5, "startup", "model", 12, 15)           // stays init
	add(7, 1, "startup", "rendezvous", 20, 30)      //
	add(8, 7, "app", "lookup", 22, 23)              // custom
	add(9, 1, "startup", "tea", 30, 33)             // an unknown part: other
	add(10, 1, "startup", "first_batch", 33, 43)    //
	add(11, 1, "", "data_loading", 35, 40)          // concurrent: data
	add(12, 1, "startup", "compile", 43, 50)        //
	add(13, 12, "compile", "graph_compile", 44, 49) // warm-up
	add(14, 1, "startup", "model", 50, 51)          //
	add(15, 10, "", "data_loading", 41, 43)         // inside of first_batch: the first batch
	want := map[string]int64{
		string(account.StartupInterpreter): 2 * 1000, string(account.StartupImports): 5 * 1000, string(account.StartupDevice): 3 * 1000, string(account.Init): 10 * 1000,
		string(account.StartupRendezvous): 9 * 1000, "custom.lookup": 1 * 1000, string(account.StartupFirstBatch): 5 * 1000, string(account.DataWait): 5 * 1000,
		string(account.StartupCompile): 2 * 1000, string(account.Warmup): 5 * 1000, string(account.StartupModel): 1 * 1000, string(account.Other): 52 * 1000,
	}
	b := p.builder(nil, false)
	var ledger account.Ledger
	if err := ledger.Add(b); err != nil {
		t.Fatal(err)
	}
	for _, d := range diffTotals("offline", ledger.Report(account.Query{}).Categories, want) {
		t.Errorf("ledger differs: %s", d)
	}
	data, err := b.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored account.Builder
	if err := stored.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	var again account.Ledger
	if err := again.Add(&stored); err != nil {
		t.Fatal(err)
	}
	for _, d := range diffTotals("stored", again.Report(account.Query{}).Categories, want) {
		t.Errorf("stored ledger differs: %s", d)
	}
}
