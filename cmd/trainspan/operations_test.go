package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/optrace"
)

// TestReportOfOperations: a table of operations is a job, another table is told to be none.
func TestReportOfOperations(t *testing.T) {
	dir := t.TempDir()
	var rows []optrace.Row
	for step := range int64(30) {
		for dp := range int32(4) {
			at, forward := float32(0), 1+float32((step*7+int64(dp)*3)%5)/500
			if dp == 2 {
				forward *= 1.5
			}
			for _, o := range []struct {
				kind string
				end  float32
			}{{"params-all-gather", 0.1}, {"forward-compute", 0.1 + forward}, {"backward-compute", 2.1 + forward}, {"grads-reduce-scatter", 3.9}, {"optimizer-clip-main-grad", 3.9}, {"optimizer", 4}} {
				rows = append(rows, optrace.Row{DP: dp, Step: step, Type: o.kind, Start: at, Duration: o.end - at})
				at = o.end
			}
		}
	}
	table, other := filepath.Join(dir, "trace-x.parquet"), filepath.Join(dir, "other.parquet")
	if err := parquet.WriteFile(table, rows); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(other, []struct{ A int }{{1}}); err != nil {
		t.Fatal(err)
	}
	if status, out, said := cli(t, "report", table, "--check"); status != 3 || !strings.Contains(out, "Rank 2 is late") || !strings.Contains(out, "Slowdown 1.1") || said != "" {
		t.Errorf("status %d: %s%s", status, out, said)
	}
	var r struct {
		Verdict struct {
			Straggler struct {
				Kind  string
				Ranks []int
				Gain  float64
			}
		}
		Slowdown optrace.Slowdown
	}
	status, out, _ := cli(t, "report", table, "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || r.Verdict.Straggler.Kind != "slow_ranks" || r.Slowdown.Ranks[0].Name != "2" || r.Slowdown.S < 1.08 {
		t.Errorf("status %d, %v: %+v", status, err, r)
	}
	if status, _, said := cli(t, "report", other); status != 1 || !strings.Contains(said, "other columns") {
		t.Errorf("another table: status %d: %s", status, said)
	}
	if status, _, said := cli(t, "report", table, "--html", filepath.Join(dir, "p.html")); status != 2 || !strings.Contains(said, "--json") {
		t.Errorf("--html: status %d: %s", status, said)
	}
}
