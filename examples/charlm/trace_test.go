package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestTracesAreValid checks the trace with a strict reader, and counts its
// events.
func TestTracesAreValid(t *testing.T) {
	text := sourceTree(t)
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
			out := t.TempDir()
			args := small(out, text, "-checkpoint-every", "15")
			saves := "checkpoint/capture/X"
			if async {
				args = append(args, "-async-checkpoint")
				saves = "checkpoint/capture.async/X"
			}
			printed := runOK(t, nil, args...)
			path := filepath.Join(out, "trace.pfw.gz")
			report := dftest.Check(t, path)
			want := map[string]int{
				"ai_root/ai_root/X": 1, "comm/comm.init/X": 1, "dataloader/dataloader.init/X": 1,
				"compute/compute.init/X": 1, "compute/step.init/X": 1, "checkpoint/restart/X": 1,
				"pipeline/train/X": 1, "pipeline/epoch.block/X": 2, "pipeline/train.iteration/X": 40,
				"dataloader/fetch.iter/X": 40, "device/transfer/X": 40,
				"compute/backward/X": 40, "compute/step.zero_grad/X": 40, "comm/all_reduce/X": 40, "compute/step/X": 40,
				"pipeline/evaluate/X": 2, "pipeline/evaluate.iteration/X": 4,
				"pipeline/test/X": 1, "pipeline/test.iteration/X": 2, saves: 3,
			}
			if async {
				want["checkpoint/capture.finalize/X"] = 3
			}
			for key, n := range want {
				if report.Counts[key] != n {
					t.Errorf("%d events %s, want %d", report.Counts[key], key, n)
				}
			}
			if n := report.Counts["compute/forward/X"]; n < 40 {
				t.Errorf("%d forward passes, want 40 or more", n)
			}
			all := dftest.Events(t, path)
			checkSteps(t, all)
			checkLayers(t, all)
			checkFiles(t, all)
			if !strings.Contains(printed, path) {
				t.Errorf("the trace is not named in\n%s, want %q in it", printed, path)
			}
		})
	}
}

// layers are the layers of DFAnalyzer's "ai" preset that a job in one process
// can have, by the words that the preset searches.
var layers = map[string]func(cat, name string) bool{
	"app":         func(cat, name string) bool { return name == "ai_root" },
	"training":    func(cat, name string) bool { return cat == "pipeline" && name == "train" },
	"epoch":       func(cat, name string) bool { return cat == "pipeline" && strings.HasPrefix(name, "epoch") },
	"compute":     func(cat, name string) bool { return cat == "compute" },
	"fetch_data":  func(cat, name string) bool { return name == "fetch.iter" },
	"checkpoint":  func(cat, name string) bool { return cat == "checkpoint" },
	"comm":        func(cat, name string) bool { return cat == "comm" },
	"device":      func(cat, name string) bool { return cat == "device" },
	"data_loader": func(cat, name string) bool { return cat == "data" || cat == "data_loader" || cat == "dataloader" },
	"reader":      func(cat, name string) bool { return cat == "reader" || name == "preprocess" },
	"posix":       func(cat, name string) bool { return strings.Contains(strings.ToLower(cat), "posix") },
}

// checkFiles checks the values that DFAnalyzer's "posix" preset uses: the file,
// the result of the call and, for the bytes, the names of the calls that read.
// Each file that the loader opens is read once and closed.
func checkFiles(t *testing.T, events []dftracer.Event) {
	t.Helper()
	paths, calls := map[string]string{}, map[string]int{}
	for _, ev := range events {
		if ev.Name == tracefile.NameFileHash {
			path, hash := ev.Meta()
			paths[hash] = path
		}
	}
	var bytes int64
	for _, ev := range events {
		if ev.Cat != "POSIX" {
			continue
		}
		calls[ev.Name]++
		file, _ := ev.Arg("fhash")
		ret, ok := ev.Arg("ret")
		if !strings.HasSuffix(paths[file.Text()], ".go") || !ok || ret.Int64() < 0 {
			t.Errorf("%s of %q returned %v, want a Go file and 0 or more", ev.Name, paths[file.Text()], ret.Text())
		}
		if ev.Name == "pread" {
			bytes += ret.Int64()
		}
	}
	if n := calls["pread"]; n < 8*40 || calls["open64"] != n || calls["close"] != n || len(calls) != 3 || bytes <= 0 {
		t.Errorf("calls %v, %d bytes; want %d reads or more, each with open and close", calls, bytes, 8*40)
	}
	sum := spanstats.New(nil)
	for i := range events {
		sum.Add(&events[i])
	}
	r := sum.Result()
	i := slices.IndexFunc(r.Categories, func(c spanstats.NameStat) bool { return c.Category == "POSIX" })
	if i < 0 || r.Categories[i].Count == 0 || len(r.Processes) != 1 || r.Processes[0].IO == 0 {
		t.Errorf("summary of the processes %+v, want I/O", r.Processes)
	}
}

// checkLayers checks that no layer is empty, that each epoch is one event, and
// that no compute event is inside another one, because its time would count
// twice.
func checkLayers(t *testing.T, events []dftracer.Event) {
	t.Helper()
	counts := map[string]int{}
	cats := map[int64]string{}
	for _, ev := range events {
		if ev.Phase == dftracer.PhaseComplete {
			cats[int64(ev.ID)] = ev.Cat
		}
	}
	for _, ev := range events {
		if ev.Phase != dftracer.PhaseComplete {
			continue
		}
		for layer, has := range layers {
			if has(ev.Cat, ev.Name) {
				counts[layer]++
			}
		}
		if ev.Cat == "compute" && cats[ev.Parent] == "compute" {
			t.Errorf("%s is inside another compute event, want none", ev.Name)
		}
	}
	for layer := range layers {
		if counts[layer] == 0 {
			t.Errorf("layer %s has no events", layer)
		}
	}
	if counts["app"] != 1 || counts["training"] != 1 || counts["epoch"] != 2 {
		t.Errorf("layers %v, want one app, one training, two epochs", counts)
	}
}

// checkSteps checks that the events of a step have its number.
func checkSteps(t *testing.T, events []dftracer.Event) {
	t.Helper()
	slices.SortStableFunc(events, func(a, b dftracer.Event) int { return cmp.Compare(a.TS, b.TS) })
	steps := map[string]int64{}
	for _, ev := range events {
		if ev.Name != "backward" && ev.Name != "step" && ev.Name != "fetch.iter" {
			continue
		}
		epoch, hasEpoch := ev.Arg("epoch")
		step, hasStep := ev.Arg("step")
		want := steps[ev.Name]
		steps[ev.Name]++
		if !hasEpoch || !hasStep || epoch.Int64() != want/20 || step.Int64() != want {
			t.Fatalf("%s number %d has epoch %v (%v) and step %v (%v), want epoch %d and its number", ev.Name, want, epoch.Int64(), hasEpoch, step.Int64(), hasStep, want/20)
		}
	}
}

// TestEveryRunHasItsOwnTrace resumes in one directory, then starts from the
// beginning.
func TestEveryRunHasItsOwnTrace(t *testing.T) {
	text, out := sourceTree(t), t.TempDir()
	traces := func() string {
		paths, err := filepath.Glob(filepath.Join(out, "*.pfw.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range paths {
			paths[i] = filepath.Base(paths[i])
		}
		return strings.Join(paths, " ")
	}
	runOK(t, nil, small(out, text)...)
	before, err := os.ReadFile(filepath.Join(out, "trace.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	runOK(t, nil, small(out, text, "-resume", "-epochs", "3")...)
	if got, want := traces(), "trace-2.pfw.gz trace.pfw.gz"; got != want {
		t.Errorf("traces %s, want %s", got, want)
	}
	after, err := os.ReadFile(filepath.Join(out, "trace.pfw.gz"))
	if err != nil || string(before) != string(after) {
		t.Errorf("the second run changed the trace of the first (%v), want it as before", err)
	}
	runOK(t, nil, small(out, text, "-fresh")...)
	if got, want := traces(), "trace.pfw.gz"; got != want {
		t.Errorf("traces %s after -fresh, want %s", got, want)
	}
	if n := len(events(records(t, filepath.Join(out, "telemetry-0.jsonl")), "one_logger_initialization")); n != 1 {
		t.Errorf("the file holds %d runs after -fresh, want 1", n)
	}
}

func TestCoveredTime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times []interval
		want  int64
	}{
		{"nothing", nil, 0},
		{"one after the other", []interval{{5, 7}, {1, 3}}, 4},
		{"at one time", []interval{{1, 5}, {3, 8}}, 7},
		{"inside each other", []interval{{1, 10}, {2, 3}, {4, 6}}, 9},
		{"without length", []interval{{4, 4}, {4, 6}, {6, 6}}, 2},
	} {
		if got := covered(tt.times); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSummaryTable reads the printed table: its columns add up.
func TestSummaryTable(t *testing.T) {
	printed := runOK(t, nil, small(t.TempDir(), sourceTree(t))...)
	_, table, ok := strings.Cut(printed, "category  events")
	if !ok {
		t.Fatalf("no table in\n%s", printed)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")[1:]
	rows := map[string]float64{}
	for _, line := range lines {
		var name string
		var count int
		var total, busy, share float64
		plain := strings.Replace(line, "whole run", "run", 1)
		if _, err := fmt.Sscanf(plain, "%s %d %f s %f s %f", &name, &count, &total, &busy, &share); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if busy > total || share > 100 || count < 1 {
			t.Errorf("row %q: want a time within the total, at most 100 %% and a count", line)
		}
		if len(line) != len(lines[0]) {
			t.Errorf("row %q has another width than %q", line, lines[0])
		}
		rows[name] = share
	}
	for _, name := range []string{"compute", "pipeline", "dataloader", "comm", "device", "checkpoint"} {
		if _, ok := rows[name]; !ok {
			t.Errorf("no row %s in\n%s", name, printed)
		}
	}
	if rows["compute"] <= 0 || rows["pipeline"] < rows["compute"] { // the amount depends on the disk
		t.Errorf("shares %v, want compute above 0, pipeline at least as much", rows)
	}
}
