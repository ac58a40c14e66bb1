package report_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// This file computes the results of a profile independently, from the raw file with only
// the standard library and a different algorithm: time by time, with counts of the open
// spans. Times are in microseconds.

type rawEvent struct {
	Ph, Cat, Name string
	Ts, Dur       json.Number
	PID, TID      any
}

func (e *rawEvent) span() (from, to float64) {
	from, _ = e.Ts.Float64()
	dur, _ := e.Dur.Float64()
	return from, from + dur
}

type truth struct {
	device                                               bool
	steps, rows                                          int
	time, compute, comm, copies, data, collectives, busy float64
}

// rawProfiles returns the files of a profile: one, or those in a tar archive.
func rawProfiles(t *testing.T, path string) (out [][]rawEvent) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = gziptest.Text(t, data)
	if strings.HasSuffix(path, ".tar.gz") {
		for r := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			if one, err := io.ReadAll(r); err != nil {
				t.Fatal(err)
			} else if h.Typeflag == tar.TypeReg && len(one) > 0 {
				out = append(out, rawEvents(t, h.Name, one))
			}
		}
	}
	return append(out, rawEvents(t, path, data))
}

func rawEvents(t *testing.T, name string, data []byte) []rawEvent {
	t.Helper()
	data = gziptest.Text(t, data)
	var list []rawEvent
	var file struct {
		TraceEvents []rawEvent `json:"traceEvents"`
	}
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		err = json.Unmarshal(data, &list)
	} else if err = json.Unmarshal(data, &file); err == nil {
		list = file.TraceEvents
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}

// tailOf returns the step that the profiler opened when it was stopped: the last one, if it
// is much shorter than each of the others.
func tailOf(events []rawEvent) (last *rawEvent) {
	var steps []*rawEvent
	for i := range events {
		if e := &events[i]; strings.HasPrefix(e.Name, "ProfilerStep#") && e.Cat != "gpu_user_annotation" {
			steps = append(steps, e)
		}
	}
	for _, e := range steps {
		if from, _ := e.span(); last == nil {
			last = e
		} else if was, _ := last.span(); from > was {
			last = e
		}
	}
	for _, e := range steps {
		from, to := e.span()
		if at, end := last.span(); e != last && (end-at)*50 > to-from {
			return nil
		}
	}
	if len(steps) < 2 {
		return nil
	}
	return last
}

// truthOf divides the steps that the profiler marks.
func truthOf(events []rawEvent) (out truth) {
	const (
		compute = iota
		comm
		copies
		data
		step
		kinds
	)
	type edge struct {
		at   float64
		kind int
		by   int
	}
	tail := tailOf(events)
	var device, host []edge
	add := func(to *[]edge, kind int, e *rawEvent) {
		from, until := e.span()
		*to = append(*to, edge{from, kind, 1}, edge{until, kind, -1})
	}
	for i := range events {
		e := &events[i]
		if e.Ph != "X" {
			continue
		}
		out.rows++
		name := strings.ToLower(e.Name)
		switch strings.ToLower(e.Cat) {
		case "kernel":
			out.device = true
			if strings.Contains(name, "nccl") {
				add(&device, comm, e)
			} else {
				add(&device, compute, e)
			}
		case "gpu_memcpy", "gpu_memset", "memcpy", "memset":
			out.device = true
			add(&device, copies, e)
		case "cpu_op", "user_annotation", "operator", "":
			if e.PID == "Traces" || e.PID == "Spans" {
				continue
			}
			switch {
			case strings.HasPrefix(e.Name, "ProfilerStep#") && e == tail: // not a step
			case strings.HasPrefix(e.Name, "ProfilerStep#"):
				add(&device, step, e)
				add(&host, step, e)
				out.steps++
			case strings.HasPrefix(e.Name, "enumerate(DataLoader)"), e.Name == "## load_batch ##", e.Name == "## wait_for_batch ##":
				add(&device, data, e)
				add(&host, data, e)
			case strings.HasPrefix(name, "gloo:"): // spans named nccl: are only launches
				add(&host, comm, e)
			case strings.Contains(e.Name, "::") && !strings.Contains(e.Name, "c10d"):
				add(&host, compute, e)
			}
		}
	}
	edges, order := host, []int{data, compute, comm}
	if out.device {
		edges, order = device, []int{compute, comm, copies, data}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	var open [kinds]int
	for i, e := range edges {
		if i > 0 {
			took := e.at - edges[i-1].at
			if open[compute]+open[comm]+open[copies] > 0 {
				out.busy += took
			}
			if open[step] > 0 {
				out.time += took
				if open[comm] > 0 {
					out.collectives += took
				}
				for _, k := range order {
					if open[k] > 0 {
						*[...]*float64{&out.compute, &out.comm, &out.copies, &out.data}[k] += took
						break
					}
				}
			}
		}
		open[e.kind] += e.by
	}
	return out
}

// TestTruthOfProfiles checks real profiles, from PyTorch 1.9 to 2026: their parts equal
// those computed from the raw files, to 1 % of the time of the steps.
func TestTruthOfProfiles(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "data", "kineto")
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) == 0 {
		t.Skipf("%s is not there", folder)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "manifest.json") || !strings.Contains(filepath.Base(path), ".") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			var want truth
			raw := rawProfiles(t, path)
			for _, events := range raw {
				one := truthOf(events)
				want.device = want.device || one.device
				want.steps, want.rows = want.steps+one.steps, want.rows+one.rows
				for i, v := range [...]*float64{&want.time, &want.compute, &want.comm, &want.copies, &want.data, &want.collectives, &want.busy} {
					*v += [...]float64{one.time, one.compute, one.comm, one.copies, one.data, one.collectives, one.busy}[i]
				}
			}
			r := imported(t, path)
			p := r.Profile
			if p == nil {
				t.Fatal("the file is not a profile")
			}
			for _, b := range holdsRules(r) {
				t.Errorf("report breaks a rule: %s", b)
			}
			if len(p.Ranks) != len(raw) || p.Device != want.device {
				t.Errorf("%d ranks, device %v; want %d, %v", len(p.Ranks), p.Device, len(raw), want.device)
			}
			near := func(what string, ns int64, us, of float64) {
				t.Helper()
				// Traces have whole microseconds, which are more than 1 % of tiny profiles.
				if got := float64(ns) / 1000; math.Abs(got-us) > max(0.01*of, min(0.02*of, 0.1*float64(want.rows)), 1) {
					t.Errorf("%s: %.0f µs, want %.0f", what, got, us)
				}
			}
			near("busy", int64(*p.Busy*float64(p.Window)), want.busy, want.busy)
			if want.steps == 0 { // other rules may find steps
				if p.Steps == 0 && r.Goodput != nil {
					t.Errorf("goodput is %v without steps, want none", *r.Goodput)
				}
				return
			}
			if p.Steps != want.steps {
				t.Errorf("%d steps, want %d", p.Steps, want.steps)
			}
			near("steps", p.Time, want.time, want.time)
			near("compute", p.Parts["compute"], want.compute, want.time)
			near("exposed communication", p.Parts["exposed_communication"], want.comm, want.time)
			near("copies", p.Parts["copies"], want.copies, want.time)
			near("data", p.Parts["input"], want.data, want.time)
			near("communication", p.Communication, want.collectives, want.time)
			near("idle", p.Parts["idle"], want.time-want.compute-want.comm-want.copies-want.data, want.time)
			if g := float64(p.Time) / float64(r.Ledger.Wall*int64(len(p.Ranks))); r.Goodput == nil || math.Abs(*r.Goodput-g) > 1e-9 {
				t.Errorf("goodput %v, want %v", r.Goodput, g)
			}
		})
	}
}

// imported returns the report of a profile.
func imported(t *testing.T, path string) *report.Report {
	t.Helper()
	sources, err := torch.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "profile.pfw.gz")
	w, err := dftracer.Create(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torch.Import(context.Background(), w, sources, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	set, err := job.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
	}
	return report.Build(jobs[0])
}

// TestTruthOfOneLogger checks that the training time of records from the original
// one-logger, with and without iterations, equals its own totals.
func TestTruthOfOneLogger(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "golden", "one-logger")
	files, err := filepath.Glob(filepath.Join(folder, "*", "golden.norm.jsonl"))
	if err != nil || len(files) == 0 {
		t.Skipf("%s is not there", folder)
	}
	for _, path := range files {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			if strings.Contains(path, "left_open") {
				t.Skip("saves and a custom span that never ended lie in its last iteration")
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			iterations, took, custom, own := 0, 0.0, 0.0, false
			for line := range bytes.Lines(text) {
				var r struct {
					Type, Name, ID string
					Event          struct {
						Name       string
						Attributes struct {
							Iterations int     `json:"num_iterations"`
							Took       float64 `json:"total_iteration_time_sec"`
						}
					}
					Attributes struct {
						Duration float64 `json:"duration_msec"`
					}
				}
				if err := json.Unmarshal(bytes.ReplaceAll(line, []byte("Infinity"), []byte("0")), &r); err != nil {
					t.Fatal(err)
				}
				switch {
				case strings.HasPrefix(r.Name, "custom") && r.Attributes.Duration > 0:
					custom += r.Attributes.Duration / 1000
				case r.Name == "training_single_iteration" && r.Attributes.Duration > 0:
					if !own {
						own, iterations, took = true, 0, 0
					}
					iterations++
					took += r.Attributes.Duration / 1000
				case r.Event.Name == "training_metrics_update" && !own && r.Event.Attributes.Took > 0:
					iterations, took = r.Event.Attributes.Iterations, r.Event.Attributes.Took
				}
			}
			set, err := job.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := report.Read(set)
			if err != nil || len(jobs) != 1 {
				t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
			}
			r := report.Build(jobs[0])
			if iterations == 0 {
				if r.Goodput != nil {
					t.Errorf("goodput is %v, want none: no record tells what trained", *r.Goodput)
				}
				return
			}
			trained := float64(r.Ledger.Categories[account.Productive]+r.Ledger.Categories[account.Warmup]) / 1e9
			if r.Goodput == nil || r.Steps.Count != iterations || trained > 1.01*took || trained < 0.99*took-custom {
				t.Errorf("%d steps in %.3f s, goodput %v; want %d in %.3f s", r.Steps.Count, trained, r.Goodput, iterations, took)
			}
		})
	}
}
