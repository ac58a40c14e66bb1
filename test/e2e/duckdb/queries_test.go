package duckdb

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/report"
)

// TestQueries compares every query of the documentation with the command's
// results for the same traces: a synthetic job of some hours, and the sample
// data.
func TestQueries(t *testing.T) {
	made := filepath.Join(t.TempDir(), "traces")
	writeJob(t, made, "run 1/a", 1000) // some hours
	sets := []string{made}
	for _, pattern := range []string{"dftracer", "gpu/jobs/*", "wild/jobs/*"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "data", pattern))
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, found...)
	}
	for _, traces := range sets {
		t.Run(filepath.Base(traces), func(t *testing.T) { queries(t, traces, traces == made) })
	}
	t.Run("comm_wait_per_group is the report's wait", func(t *testing.T) { checkWait(t) })
}

// queries checks the queries on some traces; the content of synthetic ones is
// known.
func queries(t *testing.T, traces string, made bool) {
	dir := t.TempDir()
	trainspan(t, "trace", "convert", traces, "--to", "parquet", "-o", filepath.Join(dir, "lake"))
	db := open(t, dir)
	sum := answer[spanstats.Result](t, "trace", "summary", traces, "--json")
	rep := answer[report.Report](t, "report", traces, "--json")

	t.Run("the whole", func(t *testing.T) {
		var events int64
		for _, r := range rowsOf(t, db, `SELECT run, count(*) AS events, count(DISTINCT hour) AS hours, count(DISTINCT ranks) AS folders FROM events WHERE ph = 'X' GROUP BY run`) {
			events += r.whole(t, "events")
			if made && (r["run"] != "run 1/a" || r.whole(t, "hours") < 3 || r.whole(t, "folders") != 1) {
				t.Errorf("row %v, want run 1/a, 3 hours or more, 1 folder", r)
			}
		}
		if events != sum.Events {
			t.Errorf("%d events, want %d", events, sum.Events)
		}
	})
	t.Run("time_by_category", func(t *testing.T) {
		checkCategories(t, db, &sum)
	})
	t.Run("slowest_ranks", func(t *testing.T) {
		type use struct{ spans, wall, compute, comm, stall int64 }
		want := make(map[string]use)
		for _, p := range sum.Processes {
			if !p.Kernels {
				want[fmt.Sprint(p.Rank, " ", p.Attempt, " ", p.PID)] = use{p.Events, p.Wall, p.Compute, p.Comm, p.CommStall}
			}
		}
		first := make(map[int64]int64)
		for _, r := range ask(t, db, "slowest_ranks") {
			rank, attempt := "", int64(1)
			if r["rank"] != nil {
				rank = fmt.Sprint(r["rank"])
			}
			if r["attempt"] != nil {
				attempt = r.whole(t, "attempt")
			}
			if _, ok := first[attempt]; !ok && rank != "" {
				first[attempt] = r.whole(t, "rank")
			}
			key := fmt.Sprint(rank, " ", attempt, " ", r["pid"])
			got := use{r.whole(t, "spans"), r.whole(t, "wall_us"), r.whole(t, "compute_us"), r.whole(t, "comm_us"), r.whole(t, "comm_stall_us")}
			if w, ok := want[key]; ok && got != w {
				t.Errorf("%s: %+v, want %+v", key, got, w)
			}
			delete(want, key)
		}
		if len(want) > 0 {
			t.Errorf("no rows for %v, want none", want)
		}
		if slow := rep.Verdict.Rank.Ranks; made && (len(slow) != 1 || first[1] != int64(slow[0]) || first[2] != int64(slow[0])) {
			t.Errorf("slowest by attempt: %v, want %v as in the report", first, slow)
		}
	})
	t.Run("goodput_by_attempt", func(t *testing.T) {
		rows := ask(t, db, "goodput_by_attempt")
		if len(rows) != len(rep.Attempts) || made && len(rows) != 2 {
			t.Fatalf("%d attempts, want %d", len(rows), len(rep.Attempts))
		}
		for i, r := range rows {
			all, share := rep.Ledger.Attempts[i].Categories, rep.Attempts[i].Goodput
			if r.whole(t, "attempt") != int64(rep.Attempts[i].Number) || r.whole(t, "productive_ns") != all[account.Productive] ||
				r.whole(t, "rank_time_ns") != all.Sum() || share != nil && math.Abs(r["goodput"].(float64)-*share) > 1e-12 ||
				all[account.Category(r["largest_loss"].(string))] != r.whole(t, "largest_loss_ns") {
				t.Errorf("%v, want %v", r, all)
			}
		}
		rows = rowsOf(t, db, `SELECT coalesce(sum(dur_ns) FILTER (category = 'productive'), 0)::BIGINT AS ns FROM ledger`)
		if got, want := rows[0].whole(t, "ns"), rep.Ledger.Categories[account.Productive]; got != want {
			t.Errorf("productive %d, want %d", got, want)
		}
	})
	t.Run("comm_wait_per_group", func(t *testing.T) {
		rows := ask(t, db, "comm_wait_per_group")
		if !made {
			return // whether its collectives have step numbers is a separate check
		}
		if len(rows) != 1 {
			t.Fatalf("%d groups, want 1", len(rows))
		}
		var want spanstats.NameStat
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
	t.Run("steps_over_2x_median", func(t *testing.T) { checkSteps(t, db, traces, made) })
}

// checkSteps compares the slow steps with the rows of trainspan trace steps.
func checkSteps(t *testing.T, db *sql.DB, traces string, made bool) {
	type step struct {
		step, rank, dur int64
	}
	var all, want []step
	lines := json.NewDecoder(bytes.NewReader(trainspan(t, "trace", "steps", traces, "--json")))
	for lines.More() {
		s := struct {
			Step int64  `json:"step"`
			Rank string `json:"rank"`
			Wall *int64 `json:"dur_us"`
		}{}
		if err := lines.Decode(&s); err != nil {
			t.Fatal(err)
		}
		if s.Wall == nil {
			continue // it never ended
		}
		rank, err := strconv.ParseInt(s.Rank, 10, 64)
		if err != nil {
			rank = -1
		}
		all = append(all, step{s.Step, rank, *s.Wall})
	}
	if len(all) == 0 {
		t.Fatal("there are no steps")
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
		rank := int64(-1)
		if r["rank"] != nil {
			rank = r.whole(t, "rank")
		}
		got = append(got, step{r.whole(t, "step"), rank, r.whole(t, "dur_ns") / 1000})
		if r["median_ns"].(float64) != 1000*median {
			t.Fatalf("median %v, want %v of %d steps", r["median_ns"], median, n)
		}
	}
	order := func(a, b step) int {
		return slices.Compare([]int64{a.step, a.rank, a.dur}, []int64{b.step, b.rank, b.dur})
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if made && len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d steps, want %d: %v, want %v", len(got), len(want), got, want)
	}
}

// checkCategories compares the times of categories with those of the summary.
func checkCategories(t *testing.T, db *sql.DB, sum *spanstats.Result) {
	t.Helper()
	want := make(map[string]spanstats.NameStat)
	for _, c := range sum.Categories {
		want[c.Category] = spanstats.NameStat{Category: c.Category, Count: c.Count, Total: c.Total, Self: c.Self, Max: c.Max}
	}
	rows := ask(t, db, "time_by_category")
	if len(rows) != len(want) {
		t.Fatalf("%d categories, want %d", len(rows), len(want))
	}
	for _, r := range rows {
		got := spanstats.NameStat{
			Category: r["cat"].(string), Count: r.whole(t, "spans"), Total: r.whole(t, "total_us"), Self: r.whole(t, "self_us"), Max: r.whole(t, "max_us"),
		}
		if got != want[got.Category] {
			t.Errorf("%+v, want %+v", got, want[got.Category])
		}
	}
}

// TestOverlappingSpans checks that overlapping spans of one thread, in a trace
// without levels, have the own time of the summary.
func TestOverlappingSpans(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace-0.pfw")
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("[\n")
	for i := range 2000 {
		at := 1_700_000_000_000_000 + 10*int64(i)
		fmt.Fprintf(&text, `{"id":%d,"name":"n%d","cat":"c%d","pid":3,"tid":%d,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h"}}`+"\n",
			i+1, i%7, i%5, i%3, at+rng.Int64N(100), rng.Int64N(100))
	}
	if err := os.WriteFile(trace, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	trainspan(t, "trace", "convert", trace, "--to", "parquet", "-o", filepath.Join(dir, "lake"))
	sum := answer[spanstats.Result](t, "trace", "summary", trace, "--json")
	db := open(t, dir)
	checkCategories(t, db, &sum)
	if rows := rowsOf(t, db, `SELECT count(*) AS n FROM events WHERE len(outlasts) > 1`); rows[0].whole(t, "n") == 0 {
		t.Error("no span outlasts two others, want one for the test")
	}
}

// checkWait compares the waits of one attempt with the report's mean over ranks
// and steps, which excludes the warm-up.
func checkWait(t *testing.T) {
	dir := t.TempDir()
	traces := filepath.Join(dir, "traces")
	writeJob(t, traces, "short", 1)
	files, err := filepath.Glob(filepath.Join(traces, "attempt1-*"))
	if err != nil || len(files) != 8 {
		t.Fatalf("%d files, want 8: %v", len(files), err)
	}
	rep := answer[report.Report](t, append([]string{"report", "--json"}, files...)...)
	trainspan(t, append([]string{"trace", "convert", "--to", "parquet", "-o", filepath.Join(dir, "lake")}, files...)...)
	db := open(t, dir)
	cover := rep.Verdict.Rank.Coverage
	view := fmt.Sprintf(`CREATE OR REPLACE VIEW events AS SELECT *, epoch_us(ts) AS ts_us FROM read_parquet('%s/events/**/*.parquet', hive_partitioning = true)
		WHERE step BETWEEN %d AND %d`, filepath.Join(dir, "lake"), cover.FirstStep, cover.LastStep)
	if _, err := db.Exec(view); err != nil {
		t.Fatal(err)
	}
	r := ask(t, db, "comm_wait_per_group")[0]
	n := float64(r.whole(t, "collectives"))
	if rep.Steps.Wait == nil || int(n) != rep.Steps.Compared*8 {
		t.Fatalf("%v collectives, want 8 for each step of %+v", n, rep.Steps)
	}
	// Sums to a microsecond.
	if off := float64(r.whole(t, "wait_us")) - *rep.Steps.Wait*n*1000; math.Abs(off) > 1 {
		t.Errorf("wait is off by %v µs of %v, want at most 1", off, r["wait_us"])
	}
	if off := float64(r.whole(t, "transfer_us")) - *rep.Steps.Transfer*n*1000; math.Abs(off) > 1 {
		t.Errorf("transfer is off by %v µs of %v, want at most 1", off, r["transfer_us"])
	}
}

// TestTwoRuns puts two jobs into one data set: a query returns both, and one
// alone by its folder.
func TestTwoRuns(t *testing.T) {
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	for _, name := range []string{"a", "b"} {
		traces := filepath.Join(dir, name)
		writeJob(t, traces, "", 1)
		trainspan(t, "trace", "convert", traces, "--to", "parquet", "-o", lake, "--run", name)
	}
	db := open(t, dir)
	rows := ask(t, db, "goodput_by_attempt")
	if len(rows) != 4 || rows[0]["run"] != "a" || rows[3]["run"] != "b" || rows[0].whole(t, "rank_time_ns") != rows[2].whole(t, "rank_time_ns") {
		t.Errorf("rows %v, want 4 of runs a and b, the first and third with the same time", rows)
	}
}

// TestParts checks that a data set that nodes wrote separately, each some ranks
// and in any order, with the goodput accounts of their digests, gives the same
// rows for every query as that of the whole job.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	traces := filepath.Join(dir, "traces")
	writeJob(t, traces, "r", 1)
	whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
	if err := errors.Join(os.Mkdir(whole, 0o755), os.Mkdir(parts, 0o755)); err != nil {
		t.Fatal(err)
	}
	trainspan(t, "trace", "convert", traces, "--to", "parquet", "-o", filepath.Join(whole, "lake"))
	var digests []string
	for i, node := range rand.New(rand.NewPCG(1, 2)).Perm(4) { // of two ranks, with both attempts
		var mine []string
		for rank := 2 * node; rank < 2*node+2; rank++ {
			found, err := filepath.Glob(filepath.Join(traces, fmt.Sprintf("*rank%d*", rank)))
			if err != nil || len(found) != 2 {
				t.Fatalf("files %v, %v; want two", found, err)
			}
			mine = append(mine, found...)
		}
		digests = append(digests, filepath.Join(dir, fmt.Sprint(node, ".digest")))
		trainspan(t, append([]string{"trace", "digest", "-o", digests[i]}, mine...)...)
		for range 1 + i%2 {
			trainspan(t, append([]string{"trace", "convert", "--to", "parquet", "--part", "-o", filepath.Join(parts, "lake")}, mine...)...)
		}
	}
	trainspan(t, append([]string{"trace", "convert", "--to", "parquet", "--part", "-o", filepath.Join(parts, "lake")}, digests...)...)
	a, b := open(t, whole), open(t, parts)
	queries, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "reference", "queries", "*.sql"))
	if err != nil || len(queries) < 6 {
		t.Fatalf("queries %v, %v; want 6 or more", queries, err)
	}
	for _, path := range queries {
		name := strings.TrimSuffix(filepath.Base(path), ".sql")
		if name == "tables" {
			continue
		}
		want, got := ask(t, a, name), ask(t, b, name)
		if name == "runs" {
			for i := range got {
				if got[i].whole(t, "parts") != 4 {
					t.Errorf("row %v, want 4 parts", got[i])
				}
				got[i]["parts"] = want[i]["parts"]
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) == 0 {
			t.Errorf("%s: %v\nwant %v", name, got, want)
		}
	}
}
