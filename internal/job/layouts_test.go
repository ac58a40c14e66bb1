package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/spans"
)

// Traces and JSON lines of earlier writers stay readable: complete ones and
// those of killed processes. The fixtures are the example job (examples/charlm)
// at the times when writers changed:
//
//   - first: the first writers; the whole job in one file, roots and their children share lanes, one command line with its arguments
//   - one-path: members as the disk takes them, and one rule for names
//   - attempts: attempt and session in the start record, one key once in a record
func TestEarlierLayouts(t *testing.T) {
	dirs, err := filepath.Glob("testdata/layouts/*")
	if err != nil || len(dirs) != 6 {
		t.Fatalf("directories %v, %v; want 6", dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			killed := strings.HasSuffix(dir, "-killed")
			trace := filepath.Join(t.TempDir(), "trace.pfw.gz")
			copyFile(t, filepath.Join(dir, "trace.pfw.gz"), trace)
			lines := filepath.Join(t.TempDir(), "telemetry.jsonl")
			copyFile(t, filepath.Join(dir, "telemetry.jsonl"), lines)

			fromTrace, fromLines := standard(t, trace), standard(t, lines)
			for _, name := range []string{spans.Application, spans.TrainingLoop} {
				if fromTrace[name] != 1 || fromLines[name] != 1 {
					t.Errorf("%s: %d in the trace, %d in the JSON lines; want 1 each", name, fromTrace[name], fromLines[name])
				}
			}
			if fromTrace[spans.TrainingIteration] < 10 || fromTrace[spans.ModelForward] < 10 {
				t.Errorf("trace has %v, want 10 iterations and forwards or more", fromTrace)
			}
			both := readAll(t, trace, lines)
			if len(both.jobs) != 1 || len(both.sinks) != 1 {
				t.Errorf("trace and JSON lines together are %d jobs of %d processes, want one of one", len(both.jobs), len(both.sinks))
			}

			records, events := 0, int64(-1)
			for _, ev := range dftest.Events(t, trace) {
				if records++; ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameEnd {
					n, _ := ev.Arg("num_events")
					events = n.Int64()
				}
			}
			if killed != (events < 0) || !killed && events != int64(records-1) {
				t.Errorf("%d records, the end record counts %d; want one less, or no end record after a kill", records, events)
			}
			report, err := recovery.File(trace, nil)
			if err != nil || report.Clean == killed {
				t.Errorf("recovered: %+v, %v; want changes only after a kill", report, err)
			}
			dftest.Check(t, trace)
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// standard returns the number of spans of one file by standard name.
func standard(t *testing.T, path string) map[string]int {
	t.Helper()
	r := readAll(t, path)
	if len(r.set.Skipped) > 0 {
		t.Fatalf("%v is no telemetry, want none", r.set.Skipped)
	}
	n := map[string]int{}
	for p, s := range r.sinks {
		if p.Bad > 0 {
			t.Errorf("%s: %d lines cannot be read, want none", path, p.Bad)
		}
		seen := map[uint64]bool{} // a span also comes when it begins
		for i := range s.spans {
			if sp := &s.spans[i]; !seen[sp.ID] {
				seen[sp.ID] = true
				n[sp.Name]++
			}
		}
	}
	return n
}
