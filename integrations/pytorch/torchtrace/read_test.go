package torchtrace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trainspan/trainspan/integrations/pytorch/torchtrace"
)

const fixture = "../testdata/dedicated_log_torch_trace_abc.log"

func read(t testing.TB, src io.Reader) (*torchtrace.Log, []torchtrace.Phase) {
	t.Helper()
	var phases []torchtrace.Phase
	log, err := torchtrace.Read(src, func(p *torchtrace.Phase) error {
		phases = append(phases, *p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return log, phases
}

func TestRead(t *testing.T) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	log, phases := read(t, bytes.NewReader(data))
	if len(phases) != 3 || log.Phases != 3 || log.Unmatched != 2 || log.PID != 100 || log.Rank != -1 {
		t.Errorf("phases %+v, log %+v", phases, log)
	}
	for i, want := range []torchtrace.Phase{
		{Name: "fx_graph_cache_miss", CompileID: "0/0", Start: 1778000000000150500, TID: 100, Depth: 3, Instant: true},
		{Name: "entire_frame_compile", CompileID: "0/0", Start: 1778000000000100500, Dur: 1000000, TID: 100, Depth: 2},
		{Name: "dynamo", CompileID: "0/0", Start: 1778000000000000500, Dur: 1500000, TID: 100, Depth: 1, FailType: "Unsupported"},
	} {
		if phases[i] != want {
			t.Errorf("phase %+v, want %+v", phases[i], want)
		}
	}
	if log.Skipped != 2 || log.Defects[0].Offset <= 0 || !strings.Contains(log.Defects[0].Reason, "payload") || !strings.Contains(log.Defects[1].Reason, "envelope") {
		t.Errorf("defects %v", log.Defects)
	}
	if !slices.Equal(log.Executions, []string{"0/0", "1/0"}) {
		t.Errorf("executions %v", log.Executions)
	}
	if len(log.Compiles) != 2 {
		t.Fatalf("compiles %+v", log.Compiles)
	}
	inductor, perOp := log.Compiles[0], log.Compiles[1]
	if !slices.Equal(inductor.CacheKeys, []string{"fabc"}) || !slices.Equal(inductor.Kernels["triton_poi_fused_add_mul_0:1"], []string{"add", "mul_7"}) {
		t.Errorf("compile %+v", inductor)
	}
	var ops []string
	for _, o := range perOp.Forward {
		ops = append(ops, o.Node+"="+o.String())
	}
	want := "mul=function.mul.Tensor add=function.add.Scalar getitem=function.getitem mul_1=function.mul.Scalar neg=function.neg.default"
	if strings.Join(ops, " ") != want {
		t.Errorf("operators %q", ops)
	}
	for _, tc := range []struct {
		c        *torchtrace.Compile
		op       string
		backward bool
		want     string
	}{
		{perOp, "mul", false, "Tensor Scalar"}, {perOp, "mul", true, "Tensor"}, {perOp, "absent", false, ""}, {inductor, "mm", false, "default"},
	} {
		if got := strings.Join(tc.c.Overloads(tc.op, tc.backward), " "); got != tc.want {
			t.Errorf("overloads of %s: %q, want %q", tc.op, got, tc.want)
		}
	}
}

func TestReadStopsWithTheCallback(t *testing.T) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if _, err := torchtrace.Read(bytes.NewReader(data), func(*torchtrace.Phase) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := torchtrace.Read(iotest.ErrReader(stop), nil); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := torchtrace.Read(strings.NewReader("hello\nworld\n"), nil); !torchtrace.ErrNotLog(err) {
		t.Error("any text is a log:", err)
	}
	if log, err := torchtrace.Read(bytes.NewReader(data[:len(data)/2]), nil); err != nil || log.Phases == 0 {
		t.Error("a cut log:", err)
	}
}

func TestRealLogs(t *testing.T) {
	for file, want := range map[string]struct {
		begins, skipped    int64
		forward, inference int
		rank               int64
		records            map[string]int64
	}{
		"simple.log.gz":                 {50, 0, 0, 0, -1, map[string]int64{"chromium_event": 50, "aot_inference_graph": 1}},
		"simple_corrupted_json.log.gz":  {50, 1, 0, 0, -1, map[string]int64{"chromium_event": 50}},
		"provenance_jit_fwd_bwd.log.gz": {108, 0, 12, 0, -1, map[string]int64{"chromium_event": 108, "aot_forward_graph": 1, "aot_backward_graph": 1}},
		"graph_exec_order_rank0.log.gz": {174, 0, 0, 1, 0, map[string]int64{"chromium_event": 174, "aot_inference_graph": 2, "graph_execution": 1}},
	} {
		t.Run(file, func(t *testing.T) {
			f, err := os.Open("../../../../shared/data/kineto/torch_trace/" + file)
			if err != nil {
				t.Skip("no real logs here: ", err)
			}
			defer f.Close()
			zr, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			log, phases := read(t, zr)
			if log.Skipped != want.skipped || log.Rank != want.rank {
				t.Errorf("skipped %d, rank %d: %v", log.Skipped, log.Rank, log.Defects)
			}
			for k, n := range want.records {
				if log.Records[k] != n {
					t.Errorf("%s: %d records, want %d", k, log.Records[k], n)
				}
			}
			// Every begin and end is in a phase, an instant, or unmatched.
			var used int64
			for _, p := range phases {
				used += 2
				if p.Instant {
					used--
				}
				if p.Time().Year() < 2024 || p.Dur < 0 {
					t.Errorf("phase %+v", p)
				}
			}
			if used+log.Unmatched+log.Skipped != want.begins {
				t.Errorf("%d events in phases, %d unmatched, %d in the log", used, log.Unmatched, want.begins)
			}
			if want.forward > 0 && len(log.Compiles[0].Forward) != want.forward {
				t.Errorf("forward %v", log.Compiles[0].Forward)
			}
			if want.inference > 0 && (len(log.Compiles[0].Inference) == 0 || log.Compiles[0].CacheKeys[0] != "fcxg4r73scighp7pjee6p3ploc65qptlut3rep6xbwtjawuldrv5") {
				t.Errorf("compile %+v", log.Compiles[0])
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("V0822 14:00:48.902000 1543231 torch/x.py:1288] {\"chromium_event\": {}, \"has_payload\": \"x\"}\n\t{\"name\":\"a\",\"ts\":1.5,\"ph\":\"B\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n int64
		log, err := torchtrace.Read(bytes.NewReader(data), func(p *torchtrace.Phase) error {
			if p.Name == "" || p.Dur < 0 || p.Depth < 1 {
				t.Fatalf("phase %+v", p)
			}
			n++
			return nil
		})
		if err != nil && !torchtrace.ErrNotLog(err) {
			t.Fatal(err)
		}
		if log.Phases != n {
			t.Fatalf("%d phases, %d seen", log.Phases, n)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	one, err := os.ReadFile(fixture)
	if err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat(one, 200)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := torchtrace.Read(bytes.NewReader(data), nil); err != nil {
			b.Fatal(err)
		}
	}
}
