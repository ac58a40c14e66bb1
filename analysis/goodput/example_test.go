package goodput_test

import (
	"fmt"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/run"
)

// A job that was killed in its second step and went on with it.
func ExampleLedger() {
	const s = 1_000_000_000
	span := func(id, parent uint64, name string, from, to int64) *run.Span {
		sp := &run.Span{ID: id, Parent: parent, Start: from * s, End: to * s, Step: run.Unknown, First: run.Unknown}
		sp.SetName("", name)
		return sp
	}
	var ledger goodput.Ledger
	for attempt, at := range []int64{1000, 1100} {
		p := goodput.Process{Attempt: attempt + 1, Start: at * s, End: run.NoEnd, LastSeen: (at + 38) * s}
		if attempt == 1 {
			p.LastSeen, p.End = (at+40)*s, (at+40)*s
		}
		b := goodput.NewBuilder(p)
		b.Span(span(1, 0, "application", at, at+40))
		b.Span(span(2, 1, "model_initialization", at, at+10))
		loop := span(3, 1, "training_loop", at+10, at+40)
		loop.First = int64(attempt)
		b.Span(loop)
		for i := range int64(2) {
			step := span(4+uint64(i), 3, "training_single_iteration", at+10+15*i, at+25+15*i)
			step.Step = int64(attempt) + i
			if step.End > p.LastSeen {
				step.End = run.NoEnd // killed
			}
			b.Span(step)
		}
		if err := ledger.Add(b); err != nil {
			fmt.Println(err)
			return
		}
	}
	report := ledger.Report(goodput.Query{})
	fmt.Printf("%.1f %% of %d s\n", 100*report.Ratio(), report.Wall/s)
	for _, c := range goodput.Categories() {
		if ns := report.Categories[c]; ns != 0 {
			fmt.Println(c, ns/s)
		}
	}
	d := report.Disruptions[0]
	fmt.Printf("the kill cost %d s and %d iterations\n", d.Total/s, d.Iterations)
	// Output:
	// 32.1 % of 140 s
	// productive 45
	// lost_work 13
	// init 20
	// downtime 62
	// the kill cost 85 s and 1 iterations
}

func ExampleLive() {
	const s = 1_000_000_000
	live, err := goodput.NewLive(goodput.LiveOptions{Start: 1000 * s})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop := live.Start(&goodput.LiveSpan{Name: "training_loop", Time: 1000 * s, First: 0, Step: run.Unknown})
	for i := range int64(4) {
		load := live.Start(&goodput.LiveSpan{Parent: loop, Name: "data_loading", Time: (1000 + 5*i) * s, First: run.Unknown, Step: run.Unknown})
		live.End(load, (1001+5*i)*s)
		step := live.Start(&goodput.LiveSpan{Parent: loop, Name: "training_single_iteration", Time: (1001 + 5*i) * s, First: run.Unknown, Step: i})
		live.End(step, (1005+5*i)*s)
	}
	snap := live.Snapshot(1020 * s)
	fmt.Printf("%.0f %%, waited for data %d s, %d s at risk\n", 100*snap.Ratio(), snap.Categories[goodput.DataWait]/s, snap.AtRisk/s)
	// Output:
	// 80 %, waited for data 4 s, 16 s at risk
}
