package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// kineto writes a small profile of one rank. Rows are category, name, thread, start
// and length, in microseconds.
func kineto(t *testing.T, path string, rank int, rows [][5]any) {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":2},"traceEvents":[`, rank)
	for i, r := range rows {
		pid := 100 + rank
		if r[2].(int) < 50 {
			pid = 0 // of a stream
		}
		fmt.Fprintf(&b, "%s\n"+`{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"External id":%d}}`,
			strings.Repeat(",", min(i, 1)), r[0], r[1], pid, r[2], 1700000000000000+r[3].(int), r[4], r[2], i+1)
	}
	b.WriteString("\n]}")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProfileScreen(t *testing.T) {
	dir := t.TempDir()
	for rank := range 2 {
		kineto(t, filepath.Join(dir, fmt.Sprintf("rank%d.json", rank)), rank, [][5]any{
			{"user_annotation", "ProfilerStep#7", 101, 0, 1000}, {"user_annotation", "ProfilerStep#8", 101, 1000, 1000},
			{"user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 101, 0, 100},
			{"cpu_op", "aten::mm", 101, 100, 200},
			{"kernel", "gemm", 7, 200, 600 - 100*rank}, {"kernel", "ncclDevKernel_AllReduce_Sum_f32", 9, 700, 200},
			{"gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 1000, 100}, {"kernel", "gemm", 7, 1100, 900},
		})
	}
	r := imported(t, dir)
	var screen, page, text bytes.Buffer
	if err := report.Full(&screen, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A step takes 1.00 ms (mean of 2 steps on each of 2 ranks): 72.5 % compute, 7.5 % exposed communication, 5.0", "25.0 % of the communication overlaps", "WHERE A STEP OF 1.00 ms WENT",
		"idle device", "RANKS a step",
	} {
		if !strings.Contains(strings.Join(strings.Fields(screen.String()), " "), want) {
			t.Errorf("want %q in\n%s", want, screen.String())
		}
	}
	if strings.Contains(screen.String(), "trained") {
		t.Errorf("screen has trained time for a window of steps, want none:\n%s", screen.String())
	}
	if err := report.HTML(&page, r, ""); err != nil || strings.Contains(page.String(), ">goodput<") && !strings.Contains(page.String(), "idle device") {
		t.Errorf("HTML() = %v, want no goodput without idle time of the device:\n%s", err, page.String())
	}
	if r.Goodput == nil || *r.Goodput < 0.99 {
		t.Errorf("goodput %v, want 0.99 or more", r.Goodput)
	}
	if err := report.JSON(&text, r); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Profile struct {
			Parts map[string]int64 `json:"parts_ns"`
			Time  int64            `json:"time_ns"`
		}
	}
	if err := json.Unmarshal(text.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, ns := range back.Profile.Parts {
		sum += ns
	}
	if sum != back.Profile.Time || sum != 4e6 {
		t.Errorf("the parts sum to %d ns, the profile is %d ns; want 4 ms for both", sum, back.Profile.Time)
	}
}

// TestUnknown checks that without steps the goodput is unknown, also if a recorder with
// heartbeats saw no training begin.
func TestUnknown(t *testing.T) {
	const begin = 1700000000000000
	for _, alive := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "trace.pfw.gz")
		w, err := dftracer.Create(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []dftracer.Event{{Cat: "ai_root", Name: "ai_root", TS: begin, Dur: 60e6}, {Cat: "compute", Name: "compute.init", TS: begin, Dur: 20e6}} {
			e.Phase, e.PID, e.TID = dftracer.PhaseComplete, 7, 7
			w.Write(&e)
		}
		if alive {
			w.Write(&dftracer.Event{
				Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameCustom, PID: 7,
				Args: []dftracer.Arg{dftracer.String("name", "heartbeat"), dftracer.String("value", fmt.Sprint(int64(begin+50e6)))},
			})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		set, err := job.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := report.Read(set)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Build(jobs[0])
		var screen bytes.Buffer
		if err := report.Full(&screen, r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(screen.String()), " "), "is unknown: no training step") || r.Goodput != nil || r.Attempts[0].Goodput != nil {
			t.Errorf("alive %v: want an unknown goodput:\n%s", alive, screen.String())
		}
	}
}
