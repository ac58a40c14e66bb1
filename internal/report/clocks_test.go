package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestClocksApart checks that the ledger of a job whose clocks differ by seconds equals the
// ledger of the same job on one clock.
func TestClocksApart(t *testing.T) {
	of := func(apart int64) *report.Report {
		dir := t.TempDir()
		j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Offset: func(rank int) int64 { return apart * int64(rank) }}
		if _, err := j.Write(dir); err != nil {
			t.Fatal(err)
		}
		return report.Build(read(t, dir))
	}
	one, several := of(0), of(7_000_000)
	if d := several.Ledger.Wall - one.Ledger.Wall; math.Abs(float64(d)) > 5e6 {
		t.Errorf("Wall = %d on several clocks, want about %d as on one clock", several.Ledger.Wall, one.Ledger.Wall)
	}
	if a := several.Ledger.Categories[account.Absent]; float64(a) > 0.02*float64(several.Ledger.Wall) {
		t.Errorf("%d ns absent of %d, want at most 2 %%", a, several.Ledger.Wall)
	}
	for r, text := range map[*report.Report]bool{one: false, several: true} {
		if got := strings.Contains(strings.Join(r.Quality.Remarks, " "), "clocks of ranks differ by up to 21"); got != text {
			t.Errorf("remarks %q, want that clocks differ: %v", r.Quality.Remarks, text)
		}
	}
}
