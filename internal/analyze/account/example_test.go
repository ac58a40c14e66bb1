package account_test

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// A job that was killed in its second step and continued with this step.
func ExampleLedger() {
	const s = 1_000_000_000
	span := func(id, parent uint64, name string, from, to int64) *job.Span {
		sp := &job.Span{ID: id, Parent: parent, Start: from * s, End: to * s, Step: job.Unknown, First: job.Unknown}
		sp.SetName("", name)
		return sp
	}
	var ledger account.Ledger
	for attempt, at := range []int64{1000, 1100} {
		p := account.Process{Attempt: attempt + 1, Start: at * s, End: job.NoEnd, LastSeen: (at + 38) * s}
		if attempt == 1 {
			p.LastSeen, p.End = (at+40)*s, (at+40)*s
		}
		b := account.NewBuilder(p)
		b.Saved((at+30)*s, int64(attempt)-1)
		b.Span(span(1, 0, "application", at, at+40))
		b.Span(span(2, 1, "model_initialization", at, at+10))
		loop := span(3, 1, "training_loop", at+10, at+40)
		loop.First = int64(attempt)
		b.Span(loop)
		for i := range int64(2) {
			step := span(4+uint64(i), 3, "training_single_iteration", at+10+15*i, at+25+15*i)
			step.Step = int64(attempt) + i
			if step.End > p.LastSeen {
				step.End = job.NoEnd // killed
			}
			b.Span(step)
		}
		if err := ledger.Add(b); err != nil {
			fmt.Println(err)
			return
		}
	}
	ledger.Expect(1) // number of ranks: a missing rank becomes a flag
	report := ledger.Report(account.Query{})
	fmt.Printf("%.1f %% of %d s\n", 100*report.Ratio(), report.Categories.Sum()/s) // of all ranks together
	for _, c := range account.Categories() {
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

// The commonly used goodput figures of a job of two hours that failed once, and the time of each rank.
func ExampleReport_Figures() {
	const minute = 60_000_000_000
	var ledger account.Ledger
	for attempt, to := range []int64{50, 120} {
		from := int64(60 * attempt)
		b := account.NewBuilder(account.Process{Attempt: attempt + 1, Start: (1000 + from) * minute, End: job.NoEnd, LastSeen: (1000 + to) * minute})
		for at := from; at < to; at += 10 {
			step := &job.Span{ID: uint64(at + 1), Start: (1000 + at) * minute, End: (1010 + at) * minute, Step: at / 10, First: job.Unknown}
			step.SetName("", "training_single_iteration")
			b.Span(step)
		}
		save := &job.Span{ID: 1000, Start: (1029 + from) * minute, End: (1030 + from) * minute, Step: job.Unknown, First: job.Unknown}
		save.SetName("", "checkpoint_save_sync")
		b.Span(save)
		b.Saved((1030+from)*minute, from/10+2)
		if err := ledger.Add(b); err != nil {
			fmt.Println(err)
			return
		}
	}
	const flops = 6*7e9 + 12*32*32*128*4096 // per token of a model with 7e9 parameters, 32 layers, 32 heads of 128, sequences of 4096
	basis := account.Basis{Devices: 8, PeakFLOPs: 989e12, ModelFLOPs: flops * 40e6}
	for _, f := range ledger.Report(account.Query{}).Figures(basis) {
		if f.Name == account.FigureYoung || f.Name == "ettr" || f.Name == "mfu" {
			fmt.Printf("%s %.2f: %s\n", f.Name, f.Value, f.Note)
		}
	}
	err := ledger.Stretches(func(s *account.Stretch) error {
		if s.Category == account.Downtime {
			fmt.Printf("rank %d was down for %d minutes\n", s.Rank, (s.End-s.Start)/minute)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// ettr 0.90: productive time / (wall time + queue time), without queue time, which is unknown
	// young_interval_seconds 889.94: between checkpoints; a suggestion for small losses
	// mfu 0.42: of productive time, without recomputation, relative to the given peak
	// rank 0 was down for 10 minutes
}
