package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestRunsReadsLittle checks that runs does not read the records of runs that
// are excluded by their run.json files, but reads those of the first attempt of
// a continued run.
func TestRunsReadsLittle(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t) // train.1 8 h ago, train.2 7 h and 6 h, eval.1 5 h, last.1 4 h
	traces, err := filepath.Glob("trainspan-runs/*/attempt-*/*/trace.pfw.gz")
	if err != nil || len(traces) != 5 {
		t.Fatalf("traces %v, %v; want 5", traces, err)
	}
	for _, trace := range traces {
		text, err := os.ReadFile(trace)
		if err == nil {
			err = os.WriteFile(trace, text[:len(text)-9], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{ // want has the folders for which it reports damage
		{"", "train/attempt-1 train/attempt-2 train/attempt-3 eval/attempt-1 last/attempt-1"},
		{"--since 270m", "eval/attempt-1 last/attempt-1"}, // eval still runs
		{"--since 330m", "eval/attempt-1 last/attempt-1"},
		{"--since 390m --job train", "train/attempt-2 train/attempt-3"}, // attempt 2 began before, and 3 belongs to the same run
		{"--since 9h --job e*", "eval/attempt-1"},
		{"--since 1m", "eval/attempt-1"},
		{"--since 1m --job last", ""},
	} {
		_, _, said := cli(t, append([]string{"runs", "--json"}, strings.Fields(c.args)...)...)
		var got []string
		for _, dir := range []string{"train/attempt-1", "train/attempt-2", "train/attempt-3", "eval/attempt-1", "last/attempt-1"} {
			if strings.Contains(said, dir) {
				got = append(got, dir)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("runs %s reads the records of %q, want %q: %s", c.args, got, c.want, said)
		}
	}
}

// TestRunsSelected checks that --since, --job and --sort select and order the
// rows, and that wrong values and empty selections are refused with a remedy.
func TestRunsSelected(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t) // train.1 8 h ago, train.2 7 h, eval.1 5 h, last.1 4 h
	for _, c := range []struct {
		args    string
		want    string // the ids, in this order
		refused string
	}{
		{"", "last.1 eval.1 train.2 train.1", ""},
		{"--since 330m", "last.1 eval.1", ""},
		{"--since 70000m", "last.1 eval.1 train.2 train.1", ""},
		{"--since 5w", "last.1 eval.1 train.2 train.1", ""},
		{"--since 2020-01-01", "last.1 eval.1 train.2 train.1", ""},
		{"--job train", "train.2 train.1", ""},
		{"--job *a*", "last.1 eval.1 train.2 train.1", ""},
		{"--job eva?", "eval.1", ""},
		{"--job train --sort lasted", "train.2 train.1", ""},
		{"--sort lost --since 450m --job [lt]*", "train.2 last.1", ""},
		{"--since soon", "", "--since soon: give a length of time such as 90m, 12h, 3d or 4w, or a time in UTC such as 2026-11-01"},
		{"--since 4y", "", "--since 4y: give a length of time"},
		{"--since -4w", "", "--since -4w: give a length of time"},
		{"--since w", "", "--since w: give a length of time"},
		{"--since 99999w", "", "--since 99999w: give a length of time"},
		{"--since 1s", "", "no run began since "},
		{"--job nothing", "", "found no run of job nothing; leave out --job and --since to see all runs"},
		{"--job [", "", "--job [: syntax error in pattern"},
		{"--sort size", "", "choose one of began, lost, rank-time, lasted"},
	} {
		status, out, said := cli(t, append([]string{"runs", "--json"}, strings.Fields(c.args)...)...)
		if c.refused != "" {
			if status != ui.StatusUse || !strings.Contains(said, c.refused) {
				t.Errorf("runs %s: status %d, %q, want %d and %q", c.args, status, said, ui.StatusUse, c.refused)
			}
			continue
		}
		var ids []string
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var row runRow
			if err := d.Decode(&row); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, row.ID)
		}
		if got := strings.Join(ids, " "); status != ui.StatusOK || got != c.want {
			t.Errorf("runs %s: status %d, %q, want %q: %s", c.args, status, got, c.want, said)
		}
	}
}

// TestRunsWithTheSameID checks that a run has the same id in each list, if runs
// in two folders have the same name and number, and that a copy is no run of its
// own.
func TestRunsWithTheSameID(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, folder := range []string{"old", "new"} {
		root := filepath.Join(dir, folder)
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir(root)
		r := madeRun{name: "train", key: folder}
		r.write(t, i, now.Add(time.Duration(3*i-6)*time.Hour)) // 6 and 3 h ago
	}
	t.Chdir(dir)
	if err := os.CopyFS("copy", os.DirFS("new")); err != nil {
		t.Fatal(err)
	}
	ids := func(args ...string) map[string]string { // by the time in hours
		status, out, said := cli(t, append([]string{"runs", "--json"}, args...)...)
		if status != ui.StatusOK {
			t.Fatalf("runs %v: status %d, want 0: %s", args, status, said)
		}
		got := make(map[string]string)
		for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
			var row runRow
			if err := d.Decode(&row); err != nil {
				t.Fatal(err)
			}
			got[now.Sub(row.Began).Round(time.Hour).String()] += row.ID
		}
		return got
	}
	all := ids("old/trainspan-runs", "new/trainspan-runs")
	if len(all) != 2 || all["6h0m0s"] == all["3h0m0s"] {
		t.Fatalf("ids %v, want two", all)
	}
	newest := map[string]string{"3h0m0s": all["3h0m0s"]}
	for _, c := range []struct {
		args string
		want map[string]string
	}{
		{"old/trainspan-runs new/trainspan-runs --since 4h", newest},
		{"new/trainspan-runs old/trainspan-runs --since 4h", newest},
		{"new/trainspan-runs old/trainspan-runs", all},
		{"old/trainspan-runs new/trainspan-runs copy/trainspan-runs", all},
		{"copy/trainspan-runs old/trainspan-runs new/trainspan-runs --since 4h --job train", newest},
	} {
		if got := ids(strings.Fields(c.args)...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("runs %s: ids %v, want %v", c.args, got, c.want)
		}
	}
	for at, id := range all {
		_, out, said := cli(t, "report", "old/trainspan-runs", "new/trainspan-runs", "--run", id, "--json")
		var r struct {
			Ledger struct {
				From int64 `json:"from_ns"`
			}
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || now.Sub(time.Unix(0, r.Ledger.From)).Round(time.Hour).String() != at {
			t.Errorf("report --run %s: %v, begins at %d, want the run of %s ago: %s", id, err, r.Ledger.From, at, said)
		}
	}
}

// TestRunsSum checks that the time of the ranks is the sum over the runs, and
// that a host whose rank is slow in two runs is named, but not one that is slow
// in only one.
func TestRunsSum(t *testing.T) {
	var rows []runRow
	var rankTime, lost int64
	for i, slow := range []int{5, 6, 1, 0} { // node01, node01, node00, and all ranks on one host
		j := simjob.Job{Name: "j", Layout: simjob.DP, Ranks: 8, PerHost: 4, Steps: 60, Seed: uint64(i + 1), Noise: simjob.None,
			Faults: []simjob.Fault{{What: simjob.Slow, Ranks: []int{slow}, Phase: simjob.Forward, Factor: 2}}}
		if i == 3 {
			j.PerHost = 8
		}
		dir := t.TempDir()
		if _, err := j.Write(dir); err != nil {
			t.Fatal(err)
		}
		listed, err := listRuns(t.Context(), ui.New(ui.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}), []string{dir}, time.Time{}, func(string) bool { return true })
		if err != nil || len(listed) != 1 {
			t.Fatalf("found %d runs, want 1: %v", len(listed), err)
		}
		row := listed[0]
		row.ID = "j." + strconv.Itoa(i+1)
		var parts int64
		for _, p := range row.Spent {
			parts += p.Time
		}
		if row.Lost <= 0 || row.Lost >= row.RankTime || parts != row.RankTime || row.Diagnosis != "slow_ranks" {
			t.Errorf("%+v: want a part of %d lost, by slow ranks", row, row.RankTime)
		}
		rows, rankTime, lost = append(rows, row), rankTime+row.RankTime, lost+row.Lost
		for name, args := range map[string][]string{"runs": {"runs", "--json", dir}, "runs-sum": {"runs", "--sum", "--json", dir}} {
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "schema", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal([]byte(want(t, args...)), &v); err != nil {
				t.Fatal(err)
			}
			if err := compile(t, text).Validate(v); err != nil {
				t.Errorf("%s does not follow the schema: %v", name, err)
			}
		}
		if out := want(t, "runs", dir); !strings.Contains(out, "\n1 run since 20") || !strings.Contains(out, "\nRank time: ") || !strings.Contains(out, "\nLost: ") {
			t.Errorf("runs: want the number of runs, their rank time and what was lost, got\n%s", out)
		}
	}
	rows = append(rows, runRow{ID: "j.5", Began: rows[0].Began.Add(-time.Hour)}) // nothing is known about it
	sum := sumOf(rows)
	if sum.Runs != 5 || sum.Unknown != 1 || sum.RankTime != rankTime || sum.Lost != lost || !sum.From.Equal(rows[4].Began) {
		t.Errorf("%+v, want the sum %d, lost %d", sum, rankTime, lost)
	}
	if want := []slowHost{{"node01", []string{"j.1", "j.2"}, 3}}; !reflect.DeepEqual(sum.SlowHosts, want) {
		t.Errorf("slow hosts %+v, want %+v", sum.SlowHosts, want)
	}
	text := strings.Join(sum.lines(rows), "\n")
	for _, want := range []string{"5 runs since ", "; the time of 1 is unknown", "Slow host: node01 in 2 of 3 runs on several hosts: j.1, j.2"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

// TestRunsShowTheDiagnosis checks that the list has the diagnosis of each report, in its words, and
// that without any run it says the same as the other commands.
func TestRunsShowTheDiagnosis(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range []string{"runs", "report"} {
		if status, _, said := cli(t, line); status != ui.StatusUse || !strings.HasPrefix(said, "trainspan: trainspan-runs has no run; record one with trainspan run") {
			t.Errorf("%s without runs: status %d, stderr %q; want %d and how to record one", line, status, said, ui.StatusUse)
		}
	}
	for name, a := range map[string]simjob.Attempt{
		"slow": {Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{14}}, "saves": {Ranks: 2, Steps: 60, Save: 1}, "short": {Ranks: 1, Steps: 3}, "fine": {Ranks: 2, Steps: 200},
	} {
		makeJob(t, name, a)
		var r struct {
			Verdict struct {
				Diagnosis string
				Finding   *struct{ Kind string }
			}
		}
		if err := json.Unmarshal([]byte(want(t, "report", "--json", name)), &r); err != nil {
			t.Fatal(err)
		}
		kind := ""
		if f := r.Verdict.Finding; f != nil {
			kind = f.Kind
		}
		if got := lines[runRow](t, "runs", "--json", name)[0].Diagnosis; got != kind {
			t.Errorf("%s: runs --json has the diagnosis %q, want %q as in the report", name, got, kind)
		}
		if got := want(t, "runs", name); !strings.Contains(got, "  finding\n") || !strings.Contains(got, "  "+strings.ToLower(r.Verdict.Diagnosis)+"\n") {
			t.Errorf("%s: %s, want %s", name, got, strings.ToLower(r.Verdict.Diagnosis))
		}
	}
}
