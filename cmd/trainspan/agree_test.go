package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// bodiesTrace writes a trace like that of a program in DFTracer's guide: loops
// over a loader without named iterations, whose steps restart in each epoch.
func bodiesTrace(t *testing.T, path string, rank int) {
	t.Helper()
	w, err := dftracer.Create(path, &dftracer.Options{Process: dftracer.Process{PID: 200 + rank, Host: "node2", Rank: &rank}})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1_700_000_000_000_000)
	span := func(id uint64, cat, name string, start, end int64, args ...dftracer.Arg) {
		w.Write(&dftracer.Event{ID: id, Cat: cat, Name: name, TID: 9, TS: start, Dur: end - start, Level: 1, Parent: dftracer.NoParent, Args: args})
	}
	for epoch := range int64(2) {
		began := at
		for step := range int64(3) {
			args := []dftracer.Arg{dftracer.Int("epoch", epoch), dftracer.Int("step", step)}
			span(w.NextID(), "dataloader", "fetch.iter", at, at+100, args...)
			span(w.NextID(), "compute", "forward", at+110, at+300, args...)
			span(w.NextID(), "compute", "backward", at+300, at+700, args...)
			span(w.NextID(), "dataloader", "fetch.block", at+100, at+800, args...)
			at += 800
		}
		span(w.NextID(), "pipeline", "epoch.block", began, at, dftracer.Int("epoch", epoch))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestVerbsAgree checks that different commands give the same figures for the
// same files.
func TestVerbsAgree(t *testing.T) {
	made := t.TempDir()
	sub := func(name string) string {
		dir := filepath.Join(made, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	iterations, bodies := sub("iterations"), sub("bodies")
	for rank := range 2 {
		if err := makeTrace([]string{filepath.Join(iterations, fmt.Sprintf("r%d.pfw.gz", rank)), strconv.Itoa(rank), strconv.Itoa(100 + rank), "node1"}); err != nil {
			t.Fatal(err)
		}
		bodiesTrace(t, filepath.Join(bodies, fmt.Sprintf("r%d.pfw.gz", rank)), rank)
	}
	profiled := sub("profiled")
	var text strings.Builder
	for i := range 4 { // like an import of PyTorch's profiler
		fmt.Fprintf(&text, `{"id":%d,"name":"ProfilerStep#%d","cat":"pipeline","pid":3,"tid":3,"ts":%d,"dur":900,"ph":"X","args":{"hhash":"h","level":1}}`+"\n", 2*i+1, 5+i, 1_700_000_000_000_000+1000*i)
		fmt.Fprintf(&text, `{"id":%d,"name":"forward","cat":"compute","pid":3,"tid":3,"ts":%d,"dur":700,"ph":"X","args":{"hhash":"h","level":2,"p_idx":%d}}`+"\n", 2*i+2, 1_700_000_000_000_100+1000*i, 2*i+1)
	}
	if err := os.WriteFile(filepath.Join(profiled, "r0.pfw"), []byte("[\n"+text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	again := sub("again") // the second loop restarts from a checkpoint, in one process
	text.Reset()
	at, id := 1_700_000_000_000_000, 1
	for _, first := range []int{100, 102} {
		loop := id
		id++
		began := at
		for i := range 4 {
			fmt.Fprintf(&text, `{"id":%d,"name":"train.iteration","cat":"pipeline","pid":3,"tid":3,"ts":%d,"dur":900,"ph":"X","args":{"hhash":"h","level":2,"p_idx":%d,"step":%d}}`+"\n", id, at, loop, first+i)
			at, id = at+1000, id+1
		}
		fmt.Fprintf(&text, `{"id":%d,"name":"train","cat":"pipeline","pid":3,"tid":3,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":1,"train_iterations_start":%d}}`+"\n", loop, began, at-began, first)
	}
	if err := os.WriteFile(filepath.Join(again, "r0.pfw"), []byte("[\n"+text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{iterations, bodies, profiled, again}
	shared := filepath.Join("..", "..", "..", "shared")
	for _, pattern := range []string{"data/dftracer", "data/gpu/jobs/*", "data/wild/jobs/*", "repro/job-rank3.pfw", "golden/*/*.pfw.gz"} {
		found, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	for name, a := range map[string][]simjob.Attempt{
		"async":    {{Ranks: 4, Steps: 50, Save: 10, Async: true}},
		"device":   {{Ranks: 2, Steps: 30, Device: true}},
		"silent":   {{Ranks: 3, Steps: 30, NoComm: true, Plain: true}},
		"skipped":  {{Ranks: 4, Steps: 30, Skip: map[int]bool{1: true}}},
		"restarts": {{Ranks: 4, Steps: 60, Save: 20, Killed: true}, {Ranks: 4, Steps: 60, Number: 1, First: 40, Save: 20, Killed: true}, {Ranks: 4, Steps: 60, Number: 2, First: 80}},
	} {
		dir, next := filepath.Join(made, name), time.Time{}
		for i := range a {
			if a[i].Start = next; i > 0 {
				a[i].Start = next.Add(time.Minute)
			}
			end, err := a[i].Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			next = end
		}
		paths = append(paths, dir)
	}
	layouts, err := filepath.Glob(filepath.Join("..", "..", "internal", "job", "testdata", "layouts", "*"))
	if err != nil || len(layouts) == 0 {
		t.Fatalf("directories %v, %v; want one or more", layouts, err)
	}
	for _, dir := range layouts {
		paths = append(paths, dir, filepath.Join(dir, "telemetry.jsonl"))
	}
	profiles, err := filepath.Glob(filepath.Join(shared, "data", "kineto", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	const large = 1 << 20 // these take some seconds each
	for _, path := range profiles {
		if info, err := os.Stat(path); err != nil || testing.Short() && info.Size() > large || strings.HasSuffix(path, "manifest.json") {
			continue
		}
		out := filepath.Join(sub(filepath.Base(path)), "profile.pfw.gz")
		if code, _, problems := call("trace", "import", path, "-o", out, "--quiet"); code != 0 {
			t.Log(problems)
		}
		if _, err := os.Stat(out); err == nil {
			paths = append(paths, filepath.Dir(out))
		}
	}
	if testing.Short() { // test-long runs all of them
		paths = slices.DeleteFunc(paths, func(path string) bool { return bytesBelow(t, path) > 100<<10 })
	}
	for _, path := range paths {
		t.Run(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), func(t *testing.T) {
			figures(t, ask(t, path))
			agree(t, path)
		})
	}
}

func agree(t *testing.T, path string) {
	var rep report.Report
	if err := json.Unmarshal([]byte(want(t, "report", "--json", path)), &rep); err != nil {
		t.Fatal(err)
	}
	var rows []stepJSON
	for _, line := range strings.Split(strings.TrimSpace(want(t, "trace", "steps", "--json", path)), "\n") {
		var row stepJSON
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	var rules, ranks []string
	attempts := make(map[int][]int64)
	lowest := make(map[int]string)
	epochs := int64(0)
	for _, r := range rows {
		if !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
		if !slices.Contains(ranks, r.Rank) {
			ranks = append(ranks, r.Rank)
		}
		if r.Dur == nil {
			continue
		}
		if r.Epoch != nil {
			epochs++
		}
		low, any := lowest[r.Attempt]
		if n, _ := strconv.Atoi(r.Rank); !any || n < atoi(low) {
			lowest[r.Attempt], attempts[r.Attempt] = r.Rank, nil
		}
		if r.Rank == lowest[r.Attempt] {
			attempts[r.Attempt] = append(attempts[r.Attempt], r.Step)
		}
	}
	if got := strings.Join(rules, ", "); got != rep.Steps.Rule {
		t.Errorf("steps goes by %q, want %q as in the report", got, rep.Steps.Rule)
	}
	for _, a := range rep.Attempts {
		first, last := int64(-1), int64(-1)
		if n := len(attempts[a.Number]); n > 0 {
			first, last = attempts[a.Number][0], attempts[a.Number][n-1]
		}
		if first != a.FirstStep || last != a.LastStep {
			t.Errorf("attempt %d: steps %d to %d, want %d to %d as in the report", a.Number, first, last, a.FirstStep, a.LastStep)
		}
		delete(attempts, a.Number)
	}
	if len(attempts) > 0 {
		t.Errorf("the report lacks the attempts %v, want none", attempts)
	}

	var sum struct {
		Processes []struct {
			Rank    string
			Attempt int
		}
		Epochs []struct{ Steps int64 }
	}
	if err := json.Unmarshal([]byte(want(t, "trace", "summary", "--json", path)), &sum); err != nil {
		t.Fatal(err)
	}
	for _, e := range sum.Epochs {
		epochs -= e.Steps
	}
	if epochs != 0 {
		t.Errorf("the epochs of the summary lack %d steps, want 0", epochs)
	}
	for _, p := range sum.Processes {
		if i := slices.Index(ranks, p.Rank); i >= 0 {
			ranks = slices.Delete(ranks, i, i+1)
		}
	}
	if len(ranks) > 0 {
		t.Errorf("the summary lacks the ranks %v, want none", ranks)
	}
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func abs(n int64) int64 { return max(n, -n) }

// mostInside returns the largest number of spans that are directly in one span
// of their lane.
func mostInside(rows []eventRow) (most int) {
	lanes := make(map[[2]int64][]eventRow)
	for _, e := range rows {
		if e.Ph == complete {
			lanes[[2]int64{e.PID, e.TID}] = append(lanes[[2]int64{e.PID, e.TID}], e)
		}
	}
	type open struct {
		end    int64
		inside int
	}
	for _, list := range lanes {
		slices.SortFunc(list, func(x, y eventRow) int { return cmp.Or(cmp.Compare(x.TS, y.TS), cmp.Compare(y.Dur, x.Dur)) })
		var around []open
		for _, e := range list {
			for len(around) > 0 && around[len(around)-1].end <= e.TS {
				around = around[:len(around)-1]
			}
			if n := len(around); n > 0 {
				around[n-1].inside++
				most = max(most, around[n-1].inside)
			}
			around = append(around, open{end: e.TS + e.Dur})
		}
	}
	return most
}

// TestBarAgreesWithSummary checks that the parts in the bar of the report are those of trace summary: of a
// job whose rank 2 loads its data 30 ms late, and of one that is also killed and restarted.
func TestBarAgreesWithSummary(t *testing.T) {
	const late = 2
	slow := simjob.Attempt{Ranks: 4, Steps: 60, Save: 20, Slow: late, Extra: [4]float64{30}}
	killed, resumed := slow, slow
	killed.Killed = true
	resumed.Number, resumed.First, resumed.Steps = 1, 40, 80
	for name, attempts := range map[string][]simjob.Attempt{"one attempt": {slow}, "restarted": {killed, resumed}} {
		t.Run(name, func(t *testing.T) {
			dir, next := t.TempDir(), time.Time{}
			for _, a := range attempts {
				a.Start = next
				end, err := a.Write(dir)
				if err != nil {
					t.Fatal(err)
				}
				next = end.Add(time.Second)
			}
			r := lines[report.Report](t, "report", "--json", dir)[0]
			sum := lines[spanstats.Result](t, "trace", "summary", "--json", dir)[0]

			bar, all := make(map[string]int64), int64(0)
			forLate := int64(0) // waits for the late rank
			for _, s := range r.Shares {
				bar[s.Part] += s.Time
				all += s.Time
				if s.Part == string(account.WaitInStep) && s.Rank != nil && *s.Rank == late {
					forLate += s.Time
				}
			}
			if want := r.Ledger.Categories.Sum(); all != want {
				t.Errorf("bar of the report has %d ns, want %d as in the ledger", all, want)
			}
			self := make(map[string]int64) // by category, in nanoseconds
			for _, c := range sum.Categories {
				self[c.Category] = c.Self * 1000
			}
			iterations := int64(0)
			for _, n := range sum.Names {
				if n.Name == "train.iteration" {
					iterations += n.Self * 1000
				}
			}
			equal := func(what string, got, want int64) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %d ns in the bar, want %d as in the summary", what, got, want)
				}
			}
			equal("data", bar[string(account.DataWait)], self["dataloader"])
			of := r.Ledger.Categories
			equal("saves and loads", bar[string(account.CheckpointSave)]+of[account.CheckpointLoad], self["checkpoint"])
			inSteps := bar[string(account.Compute)] + bar[string(account.Communication)] + bar[string(account.WaitInStep)] +
				bar[string(account.OtherCode)] + bar[string(account.StepUnsplit)] + bar[string(account.LostWork)] + of[account.Warmup] + of[account.Init]
			equal("steps, with lost ones, the warm-up and the initialization", inSteps, self["compute"]+self["comm"]+iterations)

			// The late rank never waits, so what the others spend in collectives beyond it is waiting for it.
			want := int64(0)
			spent := make(map[string]int64)
			for _, p := range sum.Processes {
				spent[p.Rank] += p.Comm * 1000
			}
			for _, ns := range spent {
				want += ns - spent[strconv.Itoa(late)]
			}
			if lost := of[account.LostWork]; forLate > want || forLate < want-lost-bar[string(account.StepUnsplit)] {
				t.Errorf("bar has waits of %d ns for rank %d, want %d ns as in the summary, less at most %d in lost steps", forLate, late, want, lost)
			}
			if share := float64(forLate) / float64(all); share < 0.15 {
				t.Errorf("%.2f of the bar is waiting for rank %d, want at least 0.15", share, late)
			}
		})
	}
}
