package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// writeProfile writes a profile of one step in the given year.
func writeProfile(t *testing.T, path string, year, rank, pid int) {
	t.Helper()
	at := int64(year-1970) * 31_557_600_000_000
	text := fmt.Sprintf(`{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"X"}],"distributedInfo":{"backend":"nccl","rank":%d,"world_size":2},"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":%d,"tid":%d,"ts":%d,"dur":1000},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":%d,"tid":%d,"ts":%d,"dur":500},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d,"dur":250,"args":{"device":0,"stream":7}}]}`, rank, pid, pid, at, pid, pid, at+100, at+200)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReportOfProfiles checks that profiles need no import first, and that
// unrelated ones in one folder are separated.
func TestReportOfProfiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(dir, "in", "below")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	writeProfile(t, filepath.Join(in, "first.json"), 2021, 0, 100)
	writeProfile(t, filepath.Join(in, "first-other.json"), 2021, 1, 101)
	writeProfile(t, filepath.Join(in, "second.json"), 2024, 0, 100)
	if err := os.WriteFile(filepath.Join(in, "notes.txt"), []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, said := cli(t, "report", "--full", filepath.Join(dir, "in"))
	for _, want := range []string{"A step takes 1.00 ms (mean of 1 step on each of 2 ranks): 25.0 % compute, 75.0 % idle device", "RANKS"} {
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("report of profiles: want %q in %s", want, out)
		}
	}
	if !strings.Contains(said, "not reported: 1 other job in the same files: second.json.1; --run second.json.1 reports it") {
		t.Errorf("said %q, want the other job in one line", said)
	}
	// Resource samples of a program without records, in the folder of its profile.
	w, err := dftracer.Create(filepath.Join(in, "resources.pfw.gz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "POSIX", Name: "read", TS: 1_700_000_000_000_000, Dur: 5})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := cli(t, "report", "--full", filepath.Join(dir, "in")); status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "of 2 ranks): 25.0 % compute") {
		t.Errorf("report beside a trace without training: status %d, want 0 and 25.0 %% compute on 2 ranks: %s", status, out)
	}
	if status, out, said := cli(t, "report", filepath.Join(in, "second.json")); status != 0 || !strings.Contains(out, "on 1 rank): 25.0 % compute") || said != "" {
		t.Errorf("report of one rank: status %d, want 0, 25.0 %% compute and no message: %s%s", status, out, said)
	}
	whole, err := os.ReadFile(filepath.Join(in, "second.json"))
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(dir, "torn.json")
	if err := os.WriteFile(torn, whole[:len(whole)-30], 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, said := cli(t, "report", torn); status != 0 || !strings.Contains(said, "torn.json: truncated at byte") || !strings.Contains(out, "A step takes 1.00 ms") {
		t.Errorf("report of a torn profile: status %d, want 0, the byte of the damage and a step of 1.00 ms: %s%s", status, out, said)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("files left in the temporary directory: %v, %v; want none", left, err)
	}
}

// TestReportOfCopies checks that a duplicate profile, compressed or not, counts
// once, and is reported.
func TestReportOfCopies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	text := `[{"ph":"X","name":"ProfilerStep#1","pid":"CPU functions","tid":1,"ts":0,"dur":1000}, {"ph":"X","name":"aten::mm","pid":"CPU functions","tid":1,"ts":100,"dur":500}]`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.json.gz"), gziptest.Pack([]byte(text)), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, _ := cli(t, "report", "--full", dir)
	if status != 0 || !strings.Contains(out, "mean of 1 step on 1 rank") || !strings.Contains(out, "a copy of") {
		t.Errorf(`report of copies: status %d, want 0, one step of one rank and "a copy of": %s`, status, out)
	}
	status, _, said := cli(t, "trace", "import", dir, "-o", filepath.Join(t.TempDir(), "out.pfw"))
	if status != 0 || !strings.Contains(said, "a copy of ") {
		t.Errorf(`import of copies: status %d, want 0 and "a copy of": %s`, status, said)
	}
}

// TestReportOfForeignTraces checks that a Chrome trace of another program has
// spans, but no steps and no operators, whatever its spans are called.
func TestReportOfForeignTraces(t *testing.T) {
	for name, text := range map[string]string{
		"viztracer.json": `{"traceEvents":[{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"MainProcess"}},
{"pid":1,"tid":1,"ts":10.5,"ph":"X","cat":"fee","dur":900,"name":"forward"},{"pid":1,"tid":1,"ts":1000,"ph":"X","cat":"fee","dur":90,"name":"Optimizer.step#SGD.step"}],"viztracer_metadata":{"version":"0.16"}}`,
		"page.json":  `{"traceEvents":[{"args":{},"cat":"v8,devtools.timeline","dur":120,"name":"v8::compile","ph":"X","pid":5,"tid":1,"ts":91000000000}],"metadata":{"source":"DevTools"}}`,
		"pyspy.json": `[{"cat":"py-spy","name":"train","ph":"B","pid":7,"tid":7,"ts":0},{"cat":"py-spy","name":"train","ph":"E","pid":7,"tid":7,"ts":900}]`,
		"jax.json":   `{"displayTimeUnit":"ns","traceEvents":[{"ph":"X","pid":2,"tid":3,"ts":1.0,"dur":95.0,"name":"ProfilerStep#1"},{"ph":"X","pid":2,"tid":3,"ts":2.0,"dur":5.0,"name":"aten::mm"}]}`,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		status, out, _ := cli(t, "report", path)
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "it may be a Chrome trace of another program") || strings.Contains(out, "%") {
			t.Errorf("%s: status %d, want 0, a hint at another program and no shares: %s", name, status, out)
		}
		_, out, _ = cli(t, "report", "--json", path)
		if !strings.Contains(out, `"goodput": null`) || !strings.Contains(out, `"busy_share": null`) || !strings.Contains(out, `"count": 0,`) {
			t.Errorf("%s: want goodput and busy_share null and no steps, got %s", name, out)
		}
	}
}

// TestCompareProfiles checks that profiles are compared by the contents of
// their steps, even with few steps.
func TestCompareProfiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	base, next := filepath.Join(dir, "base.json"), filepath.Join(dir, "next.json")
	writeProfile(t, base, 2021, 0, 100)
	writeProfile(t, next, 2024, 0, 100)
	text, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(next, bytes.ReplaceAll(text, []byte(`"dur":250`), []byte(`"dur":450`)), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, said := cli(t, "compare", base, next)
	for _, want := range []string{"Cannot decide whether", "compute                0.25 ms  0.45 ms   +0.200 ms", "idle device            0.75 ms  0.55 ms   -0.200 ms", "kernel     base      new  difference\n    gemm  0.25 ms  0.45 ms   +0.200 ms"} {
		if status != 4 || !strings.Contains(out, want) {
			t.Errorf("compare: status %d, want 4 and %q: %s%s", status, want, out, said)
		}
	}
}

// TestSummaryOfProfiles checks that the summary names the profiles, not the
// traces made from them.
func TestSummaryOfProfiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("profiles", 0o700); err != nil {
		t.Fatal(err)
	}
	writeProfile(t, "profiles/rank0.json", 2026, 0, 200)
	writeProfile(t, "profiles/rank1.json", 2026, 1, 201)
	for _, args := range [][]string{
		{"trace", "summary", "profiles"}, {"trace", "summary", "profiles", "--json"}, {"trace", "events", "profiles", "--json"},
		{"trace", "convert", "profiles", "--to", "chrome", "-o", "out.json", "--json"}, {"trace", "merge", "profiles", "-o", "out.pfw.gz", "--json"},
	} {
		status, said, wrong := cli(t, args...)
		if status != 0 || !strings.Contains(said, "profiles") || strings.Contains(said, "profiles1.pfw") {
			t.Errorf("%v: status %d, %s%s, want the name profiles alone", args, status, said, wrong)
		}
	}
}
