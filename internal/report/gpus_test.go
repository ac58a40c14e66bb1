package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestGPUsInSteps checks that the line about the GPUs is about the time of the steps, that GPUs of other jobs do not
// count, and that a digest has it too. GPU 0 is idle before and after the steps, and GPU 1 is not used.
func TestGPUsInSteps(t *testing.T) {
	for name, c := range map[string]struct {
		every  time.Duration // between samples
		growth float64       // of memory, from the first step to the last
		want   string
	}{
		"often":       {time.Second, 0, "GPU        80 % busy in steps · 40 GB of 80 GB, not growing"},
		"growing":     {time.Second, 1, "GPU        80 % busy in steps · 7"},
		"a few times": {7 * time.Second, 0, "GPU        80 % busy in steps · 40 GB of 80 GB\n"},
		"rarely":      {20 * time.Second, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, start := t.TempDir(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
			end := write(t, dir, simjob.Attempt{Ranks: 2, Steps: 450, Start: start})
			w, err := dftracer.Create(filepath.Join(dir, "resources.pfw.gz"), &dftracer.Options{Process: dftracer.Process{PID: 900, Host: "node-a0", JobID: "4711", SessionTag: "made-up"}})
			if err != nil {
				t.Fatal(err)
			}
			for at := start.Add(-20 * time.Second); at.Before(end.Add(20 * time.Second)); at = at.Add(c.every) {
				busy, memory := 0.0, 1e9
				if at.After(start) && at.Before(end) {
					busy, memory = 80, 40e9*(1+c.growth*float64(at.Sub(start))/float64(end.Sub(start)))
				}
				count := func(pid int64, name string, args ...dftracer.Arg) {
					w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "resources", Name: name, PID: pid, TID: pid, TS: at.UnixMicro(), Args: args})
				}
				count(900, "gpu0", dftracer.Float("utilization_percent", busy), dftracer.Int("memory_bytes", int64(memory)))
				count(900, "gpu1", dftracer.Float("utilization_percent", 3), dftracer.Int("memory_bytes", 79e9))
				for rank := range int64(2) {
					count(1000+rank, "compute_gpu", dftracer.Int("gpu", 0))
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			run := `{"version": 1, "session_tag": "made-up", "job": "4711", "attempt": 0, "program": "python", "host": "node-a0", "pid": 900, "state": "completed", "exit_status": 0, ` +
				`"started": "2026-11-20T07:59:00Z", "seen": "` + end.Add(time.Second).Format(time.RFC3339) + `", "ended": "` + end.Add(time.Second).Format(time.RFC3339) + `", ` +
				`"gpus": [{"index": "0", "busy_percent": 30, "memory_bytes": 79000000000, "memory_total_bytes": 80000000000}]}`
			if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(run), 0o600); err != nil {
				t.Fatal(err)
			}
			for of, r := range map[string]*report.Report{"traces": report.Build(read(t, dir)), "digest": report.Build(digested(t, dir))} {
				screen := strings.Join(r.First(80), "\n") + "\n"
				if c.want == "" && strings.Contains(screen, "\nGPU ") || !strings.Contains(screen, c.want) {
					t.Errorf("%s: want %q:\n%s", of, c.want, screen)
				}
				if growing := strings.Contains(screen, ", growing ("); growing != (c.growth > 0) {
					t.Errorf("%s: growing is %v, want %v:\n%s", of, growing, c.growth > 0, screen)
				}
			}
		})
	}
}

// TestManyGPUs: the line about the GPUs is about all of them, and the JSON has the first ones, always the same.
func TestManyGPUs(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	end := write(t, dir, simjob.Attempt{Ranks: 2, Steps: 450, Start: start})
	const gpus, idle = 130, 129
	w, err := dftracer.Create(filepath.Join(dir, "resources.pfw.gz"), &dftracer.Options{Process: dftracer.Process{PID: 900, Host: "node-a0", JobID: "4711", SessionTag: "made-up"}})
	if err != nil {
		t.Fatal(err)
	}
	for at := start; at.Before(end); at = at.Add(time.Second) {
		for k := range gpus {
			busy := 90.0
			if k == idle {
				busy = 7
			}
			w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "resources", Name: fmt.Sprintf("gpu%03d", k), PID: 900, TID: 900, TS: at.UnixMicro(),
				Args: []dftracer.Arg{dftracer.Float("utilization_percent", busy)}})
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var before []string
	for range 2 {
		r := report.Build(read(t, dir))
		if screen := strings.Join(r.First(80), "\n"); !strings.Contains(screen, "130, 7 to 90 % busy in steps") {
			t.Errorf("got no line about 130 GPUs, one of them idle:\n%s", screen)
		}
		var text bytes.Buffer
		if err := report.JSON(&text, r); err != nil {
			t.Fatal(err)
		}
		var out struct {
			GPUs []struct{ Index string } `json:"gpus_in_steps"`
		}
		if err := json.Unmarshal(text.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, g := range out.GPUs {
			now = append(now, g.Index)
		}
		if len(now) != 100 || now[0] != "000" || now[99] != "099" || before != nil && !slices.Equal(now, before) {
			t.Errorf("the JSON has the GPUs %v, want 0 to 99", now)
		}
		before = now
	}
}
