package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// makeJobs makes TestContractJobs write missing jobs. Traces contain the name
// of the program that wrote them and digests the folder, so a test binary makes
// the jobs, in a TMPDIR without private names.
var makeJobs = flag.Bool("contract-jobs", false, "write the jobs of testdata/contract that are not there")

// contractJobs are the jobs of this repository. Their files are kept, because
// files of earlier versions must stay readable when the writers change.
var contractJobs = map[string]func(t *testing.T, dir string){
	"healthy":    attempts(simjob.Attempt{Ranks: 3, Steps: 60}),
	"slow-rank":  attempts(simjob.Attempt{Ranks: 3, Steps: 60, Seed: 1, Slow: 2, Extra: [4]float64{0, 0, 20, 0}}),
	"slow-input": attempts(simjob.Attempt{Ranks: 3, Steps: 30, Slow: 1, Extra: [4]float64{15, 0, 0, 0}, SlowAt: 8}),
	"hidden":     attempts(simjob.Attempt{Ranks: 2, Steps: 22, NoComm: true, Plain: true}),
	"device":     attempts(simjob.Attempt{Ranks: 2, Steps: 24, Device: true}),
	"async-save": attempts(simjob.Attempt{Ranks: 2, Steps: 30, Save: 10, Async: true}),
	"missing":    attempts(simjob.Attempt{Ranks: 3, Steps: 24, Skip: map[int]bool{1: true}}),
	"restarts": attempts(simjob.Attempt{Ranks: 2, Steps: 25, Save: 10, Killed: true},
		simjob.Attempt{Ranks: 2, Steps: 25, Number: 1, First: 20, Save: 10, Killed: true}, simjob.Attempt{Ranks: 2, Steps: 15, Number: 2, First: 40}),
	"imbalance": simulated(simjob.Job{Name: "imbalance", Layout: simjob.DP, Ranks: 4, Steps: 30, Seed: 3, Noise: simjob.None,
		Faults: []simjob.Fault{{What: simjob.Imbalance, Phase: simjob.Forward, Factor: 1.6}}}),
	"hang": simulated(simjob.Job{Name: "hang", Layout: simjob.DP, Ranks: 4, Steps: 24, Seed: 5, Noise: simjob.None,
		Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{3}, Phase: simjob.Backward, From: 20, Watchdog: 30_000}}}),
	"moe": simulated(simjob.Job{Name: "moe", Layout: simjob.MoE, Ranks: 4, Steps: 20, Seed: 7, Noise: simjob.IID}),
	"bodies": func(t *testing.T, dir string) { // the names of DLIO and of DFTracer's guide
		for rank := range 2 {
			bodiesTrace(t, filepath.Join(dir, fmt.Sprintf("r%d.pfw.gz", rank)), rank)
		}
	},
	"lines": copied("layouts/attempts-killed"), // JSON lines beside traces, of three attempts
	"ended": copied("layouts/attempts-ended"),
	"damaged": func(t *testing.T, dir string) {
		attempts(simjob.Attempt{Ranks: 2, Steps: 24})(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, "*rank1*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v; want one of rank 1", files, err)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for i := range 16 { // wrong bytes, and a missing end
			data[len(data)/2+i] ^= 0x5a
		}
		put(t, files[0], data[:len(data)*3/4])
	},
}

func attempts(all ...simjob.Attempt) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		var next time.Time
		for i, a := range all {
			if a.Start = next; i > 0 {
				a.Start = next.Add(time.Minute)
			}
			end, err := a.Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			next = end
		}
	}
}

func simulated(job simjob.Job) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if _, err := job.Write(dir); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.pfw"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			put(t, path+".gz", zipped(t, data))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func copied(name string) func(*testing.T, string) {
	from, err := filepath.Abs(filepath.Join("..", "..", "internal", "job", "testdata", name))
	return func(t *testing.T, dir string) {
		if err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// profileOf returns a small profile in PyTorch's format. Each step has two
// operators, their kernels, and a collective that waits for the slower rank.
func profileOf(t *testing.T, rank int) []byte {
	var events []map[string]any
	add := func(cat, name string, tid any, ts, dur float64, args map[string]any) {
		events = append(events, map[string]any{"ph": "X", "cat": cat, "name": name, "pid": 300 + rank, "tid": tid, "ts": ts, "dur": dur, "args": args})
	}
	at, id := 4203669604595.0, 1
	for step := range 12 {
		work := 300.0 + 120*float64(rank)
		add("user_annotation", fmt.Sprintf("ProfilerStep#%d", step+2), 300+rank, at, 1000, map[string]any{"External id": id})
		for i, op := range []struct {
			name, kernel string
			ts, dur      float64
		}{
			{"aten::addmm", "ampere_sgemm_128x64_tn", 20, work},
			{"c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 40 + work, 560 - work},
		} {
			id++
			add("cpu_op", op.name, 300+rank, at+10+60*float64(i), 40, map[string]any{"External id": id, "Sequence number": id})
			add("cuda_runtime", "cudaLaunchKernel", 300+rank, at+20+60*float64(i), 10, map[string]any{"correlation": id, "External id": id})
			events = append(events, map[string]any{"ph": "X", "cat": "kernel", "name": op.kernel, "pid": 0, "tid": 7, "ts": at + op.ts, "dur": op.dur,
				"args": map[string]any{"device": 0, "stream": 7, "correlation": id, "External id": id}})
		}
		at += 1000
	}
	text, err := json.MarshalIndent(map[string]any{"schemaVersion": 1, "distributedInfo": map[string]any{"backend": "nccl", "rank": rank, "world_size": 2},
		"baseTimeNanoseconds": simjob.ProfileBase, "traceEvents": events}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return zipped(t, text)
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestContractJobs checks that each job exists; with -contract-jobs it makes
// missing ones.
func TestContractJobs(t *testing.T) {
	all := map[string]func(*testing.T, string){
		"profiles/two-ranks": func(t *testing.T, dir string) {
			for rank := range 2 {
				put(t, filepath.Join(dir, fmt.Sprintf("rank%d.pt.trace.json.gz", rank)), profileOf(t, rank))
			}
		},
	}
	for name, write := range contractJobs {
		all["jobs/"+name] = write
	}
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if *makeJobs {
		t.Chdir("/") // a trace has the folder of its process
	}
	for name, write := range all {
		dir := filepath.Join(home, "testdata", "contract", filepath.FromSlash(name))
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if !*makeJobs {
			t.Errorf("%s is not there; -contract-jobs writes it", dir)
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir)
	}
}
