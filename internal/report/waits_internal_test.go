package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestWaitsOfManyRanks checks that the table of a large job has the ranks that were waited for
// longest first, and the sum of all others.
func TestWaitsOfManyRanks(t *testing.T) {
	w := &straggler.Waits{By: "ranks"}
	for i := range 64 {
		w.Names = append(w.Names, fmt.Sprintf("%d-%d", 16*i, 16*i+15))
		w.Cells = append(w.Cells, straggler.WaitCell{Waiter: i, For: 42, Time: int64(1000 + i)}, straggler.WaitCell{Waiter: i, For: i, Time: 1})
		w.Total += int64(1001 + i)
	}
	slices.SortStableFunc(w.Cells, func(a, b straggler.WaitCell) int { return int(b.Time - a.Time) })
	v := &straggler.Verdict{Finding: finding.Finding{Kind: finding.SlowRanks, Ranks: []int{682}}, Waits: w}
	table := waits(v)
	if want := []string{"672-687 (682)", "63 others"}; !slices.Equal(table.Names, want) {
		t.Errorf("columns %q, want %q", table.Names, want)
	}
	if got := table.Rows[0].Cells[0].Weight; got != "1.00" {
		t.Errorf("the weight of the largest cell of a range is %s, want 1.00", got)
	}
	if len(table.Rows) != mostWaits || table.Rows[0].Name != "1008-1023" || table.Rows[mostWaits-1].Name != "53 others" {
		t.Errorf("%d rows, the first is %+v, want %d, the first of 1008-1023", len(table.Rows), table.Rows[0], mostWaits)
	}
	all := int64(0)
	for _, row := range table.Rows {
		sum := int64(0)
		for _, c := range row.Cells {
			sum += c.Time
		}
		if all += sum; sum != row.Total || len(row.Cells) != len(table.Names) {
			t.Errorf("row %s has %d cells of %d ns, want %d of %d ns", row.Name, len(row.Cells), sum, len(table.Names), row.Total)
		}
	}
	if all != w.Total*1000 {
		t.Errorf("the cells are %d ns, want %d", all, w.Total*1000)
	}
	few := *w
	few.Names, few.Cells = w.Names[:3], []straggler.WaitCell{{Waiter: 2, For: 1, Time: 7}}
	if got := waits(&straggler.Verdict{Waits: &few}); !slices.Equal(got.Names, few.Names) || got.Rows[2].Cells[1].Time != 7000 {
		t.Errorf("columns %q and rows %+v, want three in their order", got.Names, got.Rows)
	}
}
