package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// importRings imports ring buffers and returns the traces, which must have no
// findings.
func importRings(t *testing.T, o pyring.Options, paths ...string) (pyring.Stats, []string) {
	t.Helper()
	if o.Out == "" {
		o.Out = t.TempDir()
	}
	st, err := pyring.Import(context.Background(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	var traces []string
	for _, f := range st.Files {
		if strings.Contains(f, ".pfw") {
			dftest.Check(t, f)
			traces = append(traces, f)
		}
	}
	return st, traces
}

// record is a line of a golden file.
type record struct {
	ID   int64          `json:"id"`
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Ph   string         `json:"ph"`
	Args map[string]any `json:"args"`
}

// paths returns each record with its ancestors, from the root on, without the
// values that differ between two runs: if two traces have equal paths, their
// records, levels and parents are equal.
func paths(records []record) map[string]int {
	byID := make(map[int64]*record)
	for i := range records {
		if records[i].Cat != dftracer.CatDFTracer {
			byID[records[i].ID] = &records[i]
		}
	}
	text := func(r *record) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s/%s", r.Cat, r.Name)
		for _, k := range slices.Sorted(maps.Keys(r.Args)) {
			if k != "hhash" && k != "p_idx" {
				fmt.Fprintf(&b, " %s=%v", k, r.Args[k])
			}
		}
		return b.String()
	}
	all := make(map[string]int)
	for i := range records {
		r := &records[i]
		if r.Cat == dftracer.CatDFTracer {
			continue
		}
		path := text(r)
		for up := r; ; {
			parent, _ := up.Args["p_idx"].(float64)
			if parent < 1 {
				break
			}
			if up = byID[int64(parent)]; up == nil {
				path = "a parent that is missing > " + path
				break
			}
			path = text(up) + " > " + path
		}
		all[path]++
	}
	return all
}

func parse(t *testing.T, data []byte) (records []record, lines int) {
	t.Helper()
	for line := range bytes.Lines(data) {
		lines++
		if line = bytes.TrimSpace(line); len(line) < 3 {
			continue
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("line %s is not JSON: %v", line, err)
		}
		records = append(records, r)
	}
	return records, lines
}

// TestAILogging checks that the test program of AI logging gives the lines of
// the original and, record for record, the result of the same program in Go.
func TestAILogging(t *testing.T) {
	for name, want := range map[string]int{
		"normal": 76, "epoch_as_metadata": 76, "disable_all": 9, "disable_dataloader": 61, "disable_device": 70, "disable_compute": 52, "disable_ckpt": 73,
	} {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("..", "..", "ai", "testdata", "logging", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			rings := t.TempDir()
			pyrun.Run(t, rings, filepath.Join("testdata", "ai_logging.py"), name)
			_, traces := importRings(t, pyring.Options{Trace: &dftracer.Options{Compression: dftracer.CompressNone}, Attempt: -1}, rings)
			if len(traces) != 1 {
				t.Fatalf("%d traces, want 1", len(traces))
			}
			data, err := os.ReadFile(traces[0])
			if err != nil {
				t.Fatal(err)
			}
			got, lines := parse(t, data)
			if lines != want {
				t.Errorf("%d lines, want %d", lines, want)
			}
			wanted, _ := parse(t, golden)
			gots, wants := paths(got), paths(wanted)
			for path, n := range wants {
				if gots[path] != n {
					t.Errorf("%d times, want %d: %s", gots[path], n, path)
				}
			}
			for path, n := range gots {
				if wants[path] == 0 {
					t.Errorf("%d times, and not wanted: %s", n, path)
				}
			}
		})
	}
}

// TestGuidedProgram checks that a program written by the guide has steps that
// do not include the wait for data.
func TestGuidedProgram(t *testing.T) {
	const epochs, batches = 2, 5
	rings := t.TempDir()
	pyrun.Run(t, rings, filepath.Join("testdata", "guided.py"), fmt.Sprint(epochs), fmt.Sprint(batches))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	set, err := job.Open(traces...)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := account.Collect(set)
	if err != nil || len(accounts) != 1 {
		t.Fatalf("%d jobs, want 1: %v", len(accounts), err)
	}
	p := accounts[0].Job.Processes[0]
	if p.Steps.Rule != vocab.StepBody || p.Steps.Count != epochs*batches {
		t.Errorf("%d steps by rule %s, want %d by %s", p.Steps.Count, p.Steps.Rule, epochs*batches, vocab.StepBody)
	}
	// A sleep lasts at least as long as requested.
	rep := accounts[0].Ledger.Report(account.Query{})
	ms := func(c account.Category) int64 { return rep.Categories[c] / 1e6 }
	if rep.Iterations.Kept != epochs*batches || ms(account.Productive)+ms(account.Warmup) < 6*epochs*batches || ms(account.DataWait) < 4*epochs*batches-1 {
		t.Errorf("%d steps, %v; want %d of 6 ms or more, with 4 ms or more of waiting for data", rep.Iterations.Kept, rep.Categories, epochs*batches)
	}
}
