package report

import (
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// The totals of each bin, which one pass computes, equal those of a report on the bin.
func TestBinsAreReports(t *testing.T) {
	var l account.Ledger
	for i, p := range []account.Process{
		{Rank: 0, Attempt: 1, Start: 1000, End: job.NoEnd, LastSeen: 5000},
		{Rank: 0, Attempt: 2, Start: 6000, End: 9100, LastSeen: 9100},
		{Rank: 1, Attempt: 1, Start: 1500, End: job.NoEnd, LastSeen: 4400},
		{Rank: 1, Attempt: 2, Start: 6500, End: 8000, LastSeen: 8000},
	} {
		b := account.NewBuilder(p)
		for k := range int64(6) {
			s := &job.Span{ID: uint64(k + 1), Step: k + int64(2*i), First: job.Unknown, Start: p.Start + 100 + 300*k, End: p.Start + 350 + 300*k}
			s.SetName("", spans.TrainingIteration)
			b.Span(s)
		}
		if err := l.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	edges := []int64{1000, 1001, 1400, 1450, 4999, 5000, 7777, 9100}
	for i, bin := range binned(&l, edges) {
		rep := l.Report(account.Query{From: edges[i], To: edges[i+1]})
		all := account.Totals{}
		for n, spent := range bin {
			for c, ns := range spent {
				all[c] += ns
			}
			for _, a := range rep.Attempts {
				if a.Attempt == n && !reflect.DeepEqual(a.Categories, spent) {
					t.Errorf("%d to %d, attempt %d: %v, want %v", edges[i], edges[i+1], n, spent, a.Categories)
				}
			}
		}
		if !reflect.DeepEqual(all, rep.Categories) {
			t.Errorf("%d to %d: %v, want %v", edges[i], edges[i+1], all, rep.Categories)
		}
	}
}
