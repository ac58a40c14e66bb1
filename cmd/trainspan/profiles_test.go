package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// writeProfile writes what PyTorch's profiler would of one step, in a year.
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

// TestReportOfProfiles: profiles need no import first, and unrelated ones in one folder
// are told apart.
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
	status, out, said := cli(t, "report", filepath.Join(dir, "in"))
	for _, want := range []string{"A step takes 1.00 ms (mean of 2 steps on 2 ranks): 25.0 % compute, 75.0 % idle device", "RANKS"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if !strings.Contains(said, `another job in the same files`) || !strings.Contains(said, `"second.json", 1 process`) {
		t.Errorf("said: %s", said)
	}
	// What a program that is not watched wrote, beside what was sampled of it.
	w, err := dftracer.Create(filepath.Join(in, "resources.pfw.gz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "POSIX", Name: "read", TS: 1_700_000_000_000_000, Dur: 5})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := cli(t, "report", filepath.Join(dir, "in")); status != 0 || !strings.Contains(out, "on 2 ranks): 25.0 % compute") {
		t.Errorf("beside a trace without a training: status %d: %s", status, out)
	}
	if status, out, said := cli(t, "report", filepath.Join(in, "second.json")); status != 0 || !strings.Contains(out, "on 1 rank): 25.0 % compute") || said != "" {
		t.Errorf("status %d: %s%s", status, out, said)
	}
	whole, err := os.ReadFile(filepath.Join(in, "second.json"))
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(dir, "torn.json")
	if err := os.WriteFile(torn, whole[:len(whole)-30], 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out, said := cli(t, "report", torn); status != 0 || !strings.Contains(said, "torn.json: cut off at byte") || !strings.Contains(out, "A step takes 1.00 ms") {
		t.Errorf("status %d: %s%s", status, out, said)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
