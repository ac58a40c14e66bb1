package duckdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/analysis/summary"
	"github.com/trainspan/trainspan/report"
)

// TestQueries holds every query of the documentation against what the command
// says of the same traces.
func TestQueries(t *testing.T) {
	dir := t.TempDir()
	traces := filepath.Join(dir, "traces")
	writeJob(t, traces, "run 1/a", 1000) // some hours
	trainspan(t, "convert", traces, "--to", "parquet", "-o", filepath.Join(dir, "lake"))
	db := open(t, dir)
	sum := answer[summary.Result](t, "summary", traces, "--json")
	rep := answer[report.Report](t, "report", traces, "--json")

	t.Run("the whole", func(t *testing.T) {
		for _, r := range rowsOf(t, db, `SELECT run, count(*) AS events, count(DISTINCT hour) AS hours, count(DISTINCT ranks) AS folders FROM events GROUP BY run`) {
			if r["run"] != "run 1/a" || r.whole(t, "events") != sum.Events || r.whole(t, "hours") < 3 || r.whole(t, "folders") != 1 {
				t.Errorf("%v, want %d events", r, sum.Events)
			}
		}
	})
	t.Run("time_by_category", func(t *testing.T) {
		rows := ask(t, db, "time_by_category")
		if len(rows) != len(sum.Categories) {
			t.Fatalf("%d categories, want %d", len(rows), len(sum.Categories))
		}
		for i, want := range sum.Categories {
			got := summary.NameStat{
				Category: rows[i]["cat"].(string), Count: rows[i].whole(t, "spans"), Total: rows[i].whole(t, "total_us"),
				Self: rows[i].whole(t, "self_us"), Max: rows[i].whole(t, "max_us"),
			}
			want.Mean, want.P50, want.P99 = 0, 0, 0
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	})
	t.Run("slowest_ranks", func(t *testing.T) {
		type use struct{ spans, wall, compute, comm, stall int64 }
		want := make(map[string]use)
		for _, p := range sum.Processes {
			want[fmt.Sprint(p.Rank, " ", p.Attempt+1)] = use{p.Events, p.Wall, p.Compute, p.Comm, p.CommStall}
		}
		rows := ask(t, db, "slowest_ranks")
		if len(rows) != len(want) {
			t.Fatalf("%d rows, want %d", len(rows), len(want))
		}
		first := make(map[int64]int64)
		for _, r := range rows {
			rank, attempt := r.whole(t, "rank"), r.whole(t, "attempt")
			if _, ok := first[attempt]; !ok {
				first[attempt] = rank
			}
			got := use{r.whole(t, "spans"), r.whole(t, "wall_us"), r.whole(t, "compute_us"), r.whole(t, "comm_us"), r.whole(t, "comm_stall_us")}
			if w := want[fmt.Sprint(rank, " ", attempt)]; got != w {
				t.Errorf("rank %d, attempt %d: %+v, want %+v", rank, attempt, got, w)
			}
		}
		slow := rep.Verdict.Rank.Ranks
		if len(slow) != 1 || first[1] != int64(slow[0]) || first[2] != int64(slow[0]) {
			t.Errorf("slowest by attempt: %v, the report says %v", first, slow)
		}
	})
	t.Run("goodput_by_attempt", func(t *testing.T) {
		rows := ask(t, db, "goodput_by_attempt")
		if len(rows) != len(rep.Attempts) || len(rows) != 2 {
			t.Fatalf("%d attempts, want %d", len(rows), len(rep.Attempts))
		}
		for i, r := range rows {
			all := rep.Ledger.Attempts[i].Categories
			if r.whole(t, "attempt") != int64(rep.Attempts[i].Number) || r.whole(t, "productive_ns") != all[goodput.Productive] ||
				r.whole(t, "rank_time_ns") != all.Sum() || math.Abs(r["goodput"].(float64)-rep.Attempts[i].Goodput) > 1e-12 ||
				all[goodput.Category(r["largest_loss"].(string))] != r.whole(t, "largest_loss_ns") {
				t.Errorf("%v, want %v", r, all)
			}
		}
		rows = rowsOf(t, db, `SELECT sum(dur_ns)::BIGINT AS ns FROM ledger WHERE category = 'productive'`)
		if got, want := rows[0].whole(t, "ns"), rep.Ledger.Categories[goodput.Productive]; got != want {
			t.Errorf("productive %d, want %d", got, want)
		}
	})
	t.Run("comm_wait_per_group", func(t *testing.T) {
		rows := ask(t, db, "comm_wait_per_group")
		if len(rows) != 1 {
			t.Fatalf("%d groups", len(rows))
		}
		var want summary.NameStat
		for _, n := range sum.Names {
			if n.Name == "all_reduce" {
				want = n
			}
		}
		r := rows[0]
		if r["pg"] != "0" || r.whole(t, "ranks") != 8 || r.whole(t, "collectives") != want.Count || r.whole(t, "total_us") != want.Total ||
			r.whole(t, "wait_us")+r.whole(t, "transfer_us") != want.Total {
			t.Errorf("%v, want %+v", r, want)
		}
	})
	t.Run("comm_wait_per_group is the report's wait", func(t *testing.T) { checkWait(t) })
	t.Run("steps_over_2x_median", func(t *testing.T) {
		type step struct {
			step, rank, dur int64
		}
		var all, want []step
		lines := json.NewDecoder(bytes.NewReader(trainspan(t, "steps", traces, "--json")))
		for lines.More() {
			var s struct {
				Step int64  `json:"step"`
				Rank string `json:"rank"`
				Wall int64  `json:"dur_us"`
			}
			if err := lines.Decode(&s); err != nil {
				t.Fatal(err)
			}
			if s.Wall == 0 {
				continue // it never ended
			}
			rank, err := strconv.ParseInt(s.Rank, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, step{s.Step, rank, s.Wall})
		}
		sorted := slices.SortedFunc(slices.Values(all), func(a, b step) int { return int(a.dur - b.dur) })
		n := len(sorted)
		median := float64(sorted[(n-1)/2].dur+sorted[n/2].dur) / 2
		for _, s := range all {
			if float64(s.dur) > 2*median {
				want = append(want, s)
			}
		}
		var got []step
		for _, r := range ask(t, db, "steps_over_2x_median") {
			got = append(got, step{r.whole(t, "step"), r.whole(t, "rank"), r.whole(t, "dur_us")})
			if r["median_us"].(float64) != median {
				t.Fatalf("median %v, want %v of %d steps", r["median_us"], median, n)
			}
		}
		order := func(a, b step) int {
			return slices.Compare([]int64{a.step, a.rank, a.dur}, []int64{b.step, b.rank, b.dur})
		}
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%d steps, want %d: %v, want %v", len(got), len(want), got, want)
		}
	})
}

// checkWait compares the waits of one attempt with the report's mean over ranks and
// steps, which leaves the warm-up out.
func checkWait(t *testing.T) {
	dir := t.TempDir()
	traces := filepath.Join(dir, "traces")
	writeJob(t, traces, "short", 1)
	files, err := filepath.Glob(filepath.Join(traces, "attempt1-*"))
	if err != nil || len(files) != 8 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	rep := answer[report.Report](t, append([]string{"report", "--json"}, files...)...)
	trainspan(t, append([]string{"convert", "--to", "parquet", "-o", filepath.Join(dir, "lake")}, files...)...)
	db := open(t, dir)
	cover := rep.Verdict.Rank.Coverage
	view := fmt.Sprintf(`CREATE OR REPLACE VIEW events AS SELECT * FROM read_parquet('%s/events/**/*.parquet', hive_partitioning = true)
		WHERE step BETWEEN %d AND %d`, filepath.Join(dir, "lake"), cover.FirstStep, cover.LastStep)
	if _, err := db.Exec(view); err != nil {
		t.Fatal(err)
	}
	r := ask(t, db, "comm_wait_per_group")[0]
	n := float64(r.whole(t, "collectives"))
	if rep.Steps.Wait == nil || int(n) != rep.Steps.Count*8 {
		t.Fatalf("%v collectives, %+v", n, rep.Steps)
	}
	// Sums to a microsecond.
	if off := float64(r.whole(t, "wait_us")) - *rep.Steps.Wait*n*1000; math.Abs(off) > 1 {
		t.Errorf("wait is off by %v us of %v", off, r["wait_us"])
	}
	if off := float64(r.whole(t, "transfer_us")) - *rep.Steps.Transfer*n*1000; math.Abs(off) > 1 {
		t.Errorf("transfer is off by %v us of %v", off, r["transfer_us"])
	}
}

// TestTwoRuns puts two jobs into one data set: a query sees both, and one alone by
// its folder.
func TestTwoRuns(t *testing.T) {
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	for _, name := range []string{"a", "b"} {
		traces := filepath.Join(dir, name)
		writeJob(t, traces, "", 1)
		trainspan(t, "convert", traces, "--to", "parquet", "-o", lake, "--run", name)
	}
	db := open(t, dir)
	rows := ask(t, db, "goodput_by_attempt")
	if len(rows) != 4 || rows[0]["run"] != "a" || rows[3]["run"] != "b" || rows[0].whole(t, "rank_time_ns") != rows[2].whole(t, "rank_time_ns") {
		t.Errorf("%v", rows)
	}
}
