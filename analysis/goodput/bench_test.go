package goodput_test

import (
	"testing"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/analysis/run"
)

// millionSpans are those of 100,000 iterations, in the order in which a trace
// file has them: a span stands where it ended.
func millionSpans() []run.Span {
	const steps = 100_000
	out := make([]run.Span, 0, 10*steps+2)
	unknown := func(id, parent uint64, name string, from, to int64) run.Span {
		return run.Span{ID: id, Parent: parent, Name: name, Start: from, End: to, Step: run.Unknown, First: run.Unknown, Thread: 1}
	}
	at, id := int64(1e18), uint64(2)
	for i := range int64(steps) {
		step := id + 2
		out = append(out, unknown(id+1, 2, "data_loading", at, at+1000))
		at += 1000
		for k, name := range []string{"model_forward", "zero_grad", "model_backward", "all_reduce", "all_reduce", "all_reduce", "optimizer_update", "log"} {
			s := unknown(id+3+uint64(k), step, name, at+int64(k)*1000, at+int64(k+1)*1000)
			if name == "all_reduce" {
				s.Cat = "comm"
			}
			out = append(out, s)
		}
		s := unknown(step, 2, "training_single_iteration", at, at+8000)
		s.Step = i
		out = append(out, s)
		at, id = at+8000, id+12
	}
	loop := unknown(2, 1, "training_loop", 1e18, at)
	loop.First = 0
	return append(out, loop, unknown(1, 0, "application", 1e18, at))
}

// BenchmarkLedger puts a million spans through a ledger and asks it once.
func BenchmarkLedger(b *testing.B) {
	spans := millionSpans()
	b.ReportAllocs()
	for b.Loop() {
		builder := goodput.NewBuilder(goodput.Process{Attempt: 1, Start: 1e18, End: spans[len(spans)-1].End, LastSeen: spans[len(spans)-1].End})
		for i := range spans {
			builder.Span(&spans[i])
		}
		var l goodput.Ledger
		mustAdd(&l, builder)
		rep := l.Report(goodput.Query{})
		if rep.Categories[goodput.DataWait] != 1e8 || rep.Categories.Sum() != rep.Wall {
			b.Fatal(rep.Categories)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(spans)), "ns/span")
}
