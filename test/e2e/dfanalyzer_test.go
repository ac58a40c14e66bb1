package e2e

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestDFAnalyzer lets DFAnalyzer read traces, and compares the number and time
// of the events of each of its layers with `trainspan trace summary`: they are
// equal within 1 %, and equal in number except for the calls on files that it
// leaves out by their paths. TRAINSPAN_DFANALYZER_PYTHON is a python3 with
// dftracer-analyzer, see docs/guide/clusters.md; TRAINSPAN_DFANALYZER_TRACES are
// folders of traces, a synthetic job without it.
func TestDFAnalyzer(t *testing.T) {
	python := os.Getenv("TRAINSPAN_DFANALYZER_PYTHON")
	if python == "" {
		t.Skip("TRAINSPAN_DFANALYZER_PYTHON names no python3 with dftracer-analyzer")
	}
	ctx, dir := untilDeadline(t), t.TempDir()
	program := built.Command(t)
	folders := filepath.SplitList(os.Getenv("TRAINSPAN_DFANALYZER_TRACES"))
	if len(folders) == 0 {
		folders = []string{filepath.Join(dir, "job")}
		if err := (simjob.Large{Ranks: 2, Steps: 30, Save: 10}).Write(folders[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			folder, err := filepath.Abs(folder)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(ctx, python, "testdata/dfanalyzer.py", folder, t.TempDir())
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			_, text, found := strings.Cut(string(out), "layers ")
			if err != nil || !found {
				t.Fatalf("%v: want the totals in %s%s", err, out, said.String())
			}
			var theirs map[string]layer
			if err := json.NewDecoder(strings.NewReader(text)).Decode(&theirs); err != nil {
				t.Fatal(err)
			}
			sum, err := exec.CommandContext(ctx, program, "trace", "summary", "--json", "--top", "0", folder).Output()
			if err != nil {
				t.Fatal(err)
			}
			for name, ours := range layersOf(t, sum) {
				got := theirs[name]
				t.Logf("%-12s %7d of %7d events, %12.6f of %12.6f s", name, got.Count, ours.Count, got.Time, ours.Time)
				if got.Count != ours.Count && name != "posix" || math.Abs(got.Time-ours.Time) > ours.Time/100 {
					t.Errorf("%s: %+v, want %+v as in the summary", name, got, ours)
				}
			}
		})
	}
}

// layer has the totals of the events of a layer.
type layer struct {
	Count int64
	Time  float64 // s, of all lanes
}

// layersOf adds up a summary by the layers of the preset for AI logging.
func layersOf(t *testing.T, summary []byte) map[string]layer {
	t.Helper()
	var s struct {
		Names []struct {
			Category, Name string
			Count          int64
			Total          int64 `json:"total_us"`
		}
	}
	if err := json.Unmarshal(summary, &s); err != nil {
		t.Fatal(err)
	}
	out := make(map[string]layer)
	for _, n := range s.Names {
		add := func(name string, is bool) {
			l := out[name]
			if is {
				l.Count, l.Time = l.Count+n.Count, l.Time+float64(n.Total)/1e6
			}
			out[name] = l
		}
		add("app", n.Name == "ai_root")
		add("training", n.Category == "pipeline" && n.Name == "train")
		add("epoch", n.Category == "pipeline" && strings.HasPrefix(n.Name, "epoch"))
		add("compute", n.Category == "compute")
		add("fetch_data", n.Name == "fetch.iter")
		add("checkpoint", n.Category == "checkpoint")
		add("comm", n.Category == "comm")
		add("device", n.Category == "device")
		add("data_loader", n.Category == "data" || n.Category == "data_loader" || n.Category == "dataloader")
		add("reader", n.Category == "reader" || n.Name == "preprocess")
		add("posix", n.Category == "POSIX" || n.Category == "STDIO")
	}
	return out
}
