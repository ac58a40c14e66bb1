package account_test

import (
	"maps"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// The time in which a killed attempt may have lived after its last record is neither work
// nor downtime, and figures that depend on it are ranges. Steps take 100 ms.
func TestAfterTheLastRecord(t *testing.T) {
	const ms, start = int64(1e6), int64(1e18)
	type want struct {
		unobserved, down        int64 // sum of both ranks
		unrecorded, downMost    int64
		iterations, iterations2 int
		latest                  int64 // after the start
	}
	for name, tt := range map[string]struct {
		latest int64 // after the last record of each rank
		died   bool
		back   int64 // when the second attempt starts, after the last record
		end    bool  // the first attempt ended properly
		want   want
	}{
		"nothing is known":          {0, false, 2000, false, want{0, 4000, 0, 0, 6, 0, 0}},
		"half a second may be lost": {500, false, 2000, false, want{1000, 3000, 1000, 4000, 6, 11, 1500}},
		"and the end is known":      {300, true, 2000, false, want{600, 3400, 600, 0, 6, 9, 1300}},
		"it was back sooner":        {500, false, 200, false, want{400, 0, 400, 400, 6, 8, 1200}},
		"it ended in good order":    {0, false, 2000, true, want{0, 4000, 0, 0, 6, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var l account.Ledger
			for rank := range 2 {
				id := uint64(1)
				add := func(p account.Process, from int64, first, steps int64) {
					b := account.NewBuilder(p)
					sp := job.Span{ID: id, Start: from, End: job.NoEnd, Step: job.Unknown, First: first, Thread: 1}
					sp.SetName("", spans.TrainingLoop)
					b.Span(&sp)
					loop := id
					for n := range steps {
						id++
						sp := job.Span{ID: id, Parent: loop, Start: from + n*100*ms, End: from + (n+1)*100*ms, Step: first + n, First: job.Unknown, Thread: 1}
						sp.SetName("", spans.TrainingIteration)
						b.Span(&sp)
					}
					id++
					if err := l.Add(b); err != nil {
						t.Fatal(err)
					}
				}
				last := start + 1000*ms
				p := account.Process{Rank: rank, Attempt: 1, Start: start, End: job.NoEnd, LastSeen: last, Died: tt.died}
				if tt.latest > 0 {
					p.Latest = last + tt.latest*ms
				}
				if tt.end {
					p.End = last
				}
				add(p, start, 0, 10)
				back := last + tt.back*ms
				add(account.Process{Rank: rank, Attempt: 2, Start: back, End: back + 1000*ms, LastSeen: back + 1000*ms}, back, 4, 10)
			}
			rep := l.Report(account.Query{})
			if got := rep.Categories.Sum(); got != 2*rep.Wall {
				t.Errorf("the categories add up to %d, want %d", got, 2*rep.Wall)
			}
			sums := account.Totals{}
			if err := l.Stretches(func(s *account.Stretch) error { sums[s.Category] += s.End - s.Start; return nil }); err != nil || !maps.Equal(sums, rep.Categories) {
				t.Errorf("stretches add up to %v, want %v; %v", sums, rep.Categories, err)
			}
			d := rep.Disruptions[0]
			got := want{rep.Categories[account.Unobserved] / ms, rep.Categories[account.Downtime] / ms, d.Unrecorded / ms, d.DownMost / ms, d.Iterations, d.IterationsMost, 0}
			if at := rep.Attempts[0].Latest; at != 0 {
				got.latest = (at - start) / ms
			}
			if got != tt.want {
				t.Errorf("disruption %+v, want %+v", got, tt.want)
			}
			if sum := d.LostWork + d.Stall + d.Stretch + d.Unrecorded + d.Down + d.Init + d.Reload + d.Warmup; sum != d.Total || d.Down+d.Unrecorded != 2*tt.back*ms {
				t.Errorf("%+v: the parts sum to %d, want the total, with %d ns down or unrecorded", d, sum, 2*tt.back*ms)
			}
			if before := l.Report(account.Query{AsOf: start + 1000*ms}); before.Categories[account.Unobserved] != 0 {
				t.Errorf("before the kill: categories %v, want nothing unobserved", before.Categories)
			}
		})
	}
}
