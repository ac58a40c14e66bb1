package report_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// This file computes the results of a folder of traces independently, from their lines with
// only the standard library: the steps, their compute time, the waiting for their loader, and
// the first and last time. Times are in microseconds.

type rawSpan struct{ from, to int64 }

type rawJob struct {
	ranks, steps int
	trained      int64 // in finished steps, without interruptions
	open         int64 // a usual step time for each unfinished step: the job may continue
	waited       int64 // waiting for batches
	from, to     int64
}

// rawTraces reads the files of a folder, one per rank.
func rawTraces(t *testing.T, folder string) (out rawJob) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.pfw*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no trace files: %v", folder, err)
	}
	out.from, out.to = math.MaxInt64, math.MinInt64
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data = gziptest.Text(t, data)
		var steps, waits, breaks []rawSpan
		begun := make(map[int64]bool)
		trains := false
		for line := range bytes.Lines(data) {
			var e struct {
				Ph, Cat, Name string
				Ts, Dur       int64
				Args          map[string]any
			}
			if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("{")) {
				continue
			}
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s has a line that is not JSON: %v", path, err)
			}
			if e.Ph == "M" {
				if at, ok := e.Args["begin_ts"].(float64); ok && e.Args["value"] == "train.iteration" {
					begun[int64(at)] = true
				}
				if text, ok := e.Args["value"].(string); ok && e.Args["name"] == "heartbeat" {
					var at int64
					if err := json.Unmarshal([]byte(text), &at); err != nil {
						t.Fatal(err)
					}
					out.to = max(out.to, at)
				}
				continue
			}
			s := rawSpan{e.Ts, e.Ts + e.Dur}
			out.from, out.to = min(out.from, s.from), max(out.to, s.to)
			switch e.Name {
			case "train.iteration", "TorchFramework.compute":
				steps, trains = append(steps, s), true
				begun[s.from] = true
			case "fetch.iter", "loop.iter":
				waits = append(waits, s)
			}
			if strings.HasPrefix(e.Name, "capture") || strings.HasPrefix(e.Name, "evaluate") || e.Name == "fetch.iter" {
				breaks = append(breaks, s)
			}
		}
		if !trains {
			continue
		}
		out.ranks++
		out.steps = max(out.steps, len(begun))
		out.trained += without(steps, breaks)
		out.waited += without(waits, nil)
		slices.SortFunc(steps, func(a, b rawSpan) int { return int(a.to - a.from - b.to + b.from) })
		usual := steps[len(steps)/2]
		out.open += int64(len(begun)-len(steps)) * (usual.to - usual.from)
	}
	return out
}

// without returns the length of the spans of a without those of b.
func without(a, b []rawSpan) (us int64) {
	type edge struct {
		at   int64
		a, b int
	}
	var edges []edge
	for _, s := range a {
		edges = append(edges, edge{s.from, 1, 0}, edge{s.to, -1, 0})
	}
	for _, s := range b {
		edges = append(edges, edge{s.from, 0, 1}, edge{s.to, 0, -1})
	}
	slices.SortFunc(edges, func(x, y edge) int { return int(x.at - y.at) })
	inA, inB := 0, 0
	for i, e := range edges {
		if i > 0 && inA > 0 && inB == 0 {
			us += e.at - edges[i-1].at
		}
		inA, inB = inA+e.a, inB+e.b
	}
	return us
}

// TestTruthOfTraces checks the run of DLIO and the jobs of other programs: their steps, the
// time in them and the waiting for batches equal those of the raw lines, to 1 %.
func TestTruthOfTraces(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	folders := []string{filepath.Join(data, "dftracer")}
	for _, more := range []string{"wild", "gpu"} {
		jobs, err := filepath.Glob(filepath.Join(data, more, "jobs", "*"))
		if err != nil {
			t.Fatal(err)
		}
		folders = append(folders, jobs...)
	}
	if _, err := os.Stat(folders[0]); err != nil {
		t.Skipf("%s is not there", data)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			want := rawTraces(t, folder)
			state, err := report.Load(nil, folder)
			if err != nil {
				t.Fatal(err)
			}
			jobs := state.Jobs()
			if len(jobs) != 1 {
				t.Fatalf("%d jobs, want 1", len(jobs))
			}
			r := report.Build(jobs[0])
			if len(r.Ranks) != want.ranks || r.Steps.Count != want.steps {
				t.Errorf("%d steps of %d ranks, want %d of %d", r.Steps.Count, len(r.Ranks), want.steps, want.ranks)
			}
			near := func(what string, ns, us, more int64) {
				t.Helper()
				if got := float64(ns) / 1000; got < 0.99*float64(us) || got > 1.01*float64(us+more) {
					t.Errorf("%s: %.0f µs, want %d to %d", what, got, us, us+more)
				}
			}
			c := r.Ledger.Categories
			if !strings.Contains(strings.Join(r.Quality.Remarks, "\n"), "clocks of ranks differ") { // else the raw times come from several clocks
				near("wall", r.Ledger.Wall, want.to-want.from, 0)
			}
			near("trained", c[account.Productive]+c[account.Warmup], want.trained, want.open)
			if got := c[account.DataWait] / 1000; float64(got) < 0.99*float64(want.waited) {
				t.Errorf("waited %d µs for data, want at least 99 %% of %d", got, want.waited)
			}
			if g := float64(c[account.Productive]) / float64(int64(want.ranks)*r.Ledger.Wall); r.Goodput == nil || math.Abs(*r.Goodput-g) > 1e-9 {
				t.Errorf("goodput %v, want %v", r.Goodput, g)
			}
		})
	}
}
