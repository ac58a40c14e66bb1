package compilelog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/compilelog"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

const fixture = "../testdata/dedicated_log_torch_trace_abc.log"

func read(t testing.TB, src io.Reader) (*compilelog.Log, []compilelog.Phase) {
	t.Helper()
	var phases []compilelog.Phase
	log, err := compilelog.Read(src, time.Time{}, func(p *compilelog.Phase) error {
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
		t.Errorf("phases %+v, log %+v; want 3 phases, 2 unmatched, process 100, no rank", phases, log)
	}
	for i, want := range []compilelog.Phase{
		{Name: "fx_graph_cache_miss", CompileID: "0/0", Start: 1778000000000150500, TID: 100, Depth: 3, Instant: true},
		{Name: "entire_frame_compile", CompileID: "0/0", Start: 1778000000000100500, Dur: 1000000, TID: 100, Depth: 2},
		{Name: "dynamo", CompileID: "0/0", Start: 1778000000000000500, Dur: 1500000, TID: 100, Depth: 1, FailType: "Unsupported"},
	} {
		if phases[i] != want {
			t.Errorf("phase %+v, want %+v", phases[i], want)
		}
	}
	if log.Skipped != 2 || log.Defects[0].Offset <= 0 || !strings.Contains(log.Defects[0].Reason, "payload") || !strings.Contains(log.Defects[1].Reason, "envelope") {
		t.Errorf("defects %v, want 2 skipped: one in the payload, with its offset, one in the envelope", log.Defects)
	}
	if !slices.Equal(log.Executions, []string{"0/0", "1/0"}) {
		t.Errorf("executions %v, want [0/0 1/0]", log.Executions)
	}
	if len(log.Compiles) != 2 {
		t.Fatalf("compiles %+v, want 2", log.Compiles)
	}
	inductor, perOp := log.Compiles[0], log.Compiles[1]
	if !slices.Equal(inductor.CacheKeys, []string{"fabc"}) || !slices.Equal(inductor.Kernels["triton_poi_fused_add_mul_0:1"], []string{"add", "mul_7"}) {
		t.Errorf("compile %+v, want cache key fabc and the kernel of add and mul_7", inductor)
	}
	var ops []string
	for _, o := range perOp.Forward {
		ops = append(ops, o.Node+"="+o.String())
	}
	want := "mul=function.mul.Tensor add=function.add.Scalar getitem=function.getitem mul_1=function.mul.Scalar neg=function.neg.default"
	if strings.Join(ops, " ") != want {
		t.Errorf("operators %q, want %q", ops, want)
	}
	for _, tc := range []struct {
		c        *compilelog.Compile
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

// TestCompiledAutograd checks that a graph of compiled autograd is a compilation of its own.
func TestCompiledAutograd(t *testing.T) {
	graph := func(env string) string {
		return record(`"aot_forward_graph": {}, "frame_id": 0, "frame_compile_id": 0`+env, "    x = torch.ops.aten.mul.Tensor(a)")
	}
	log, _ := read(t, strings.NewReader(graph("")+graph(`, "compiled_autograd_id": 1`)+graph(`, "compiled_autograd_id": null`)))
	var got []string
	for _, c := range log.Compiles {
		got = append(got, fmt.Sprint(c.ID, " ", len(c.Forward)))
	}
	if want := []string{"0/0 2", "!1/0/0 1"}; !slices.Equal(got, want) {
		t.Errorf("operators by compilation: %q, want %q", got, want)
	}
}

func TestReadStopsWithTheCallback(t *testing.T) {
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if _, err := compilelog.Read(bytes.NewReader(data), time.Time{}, func(*compilelog.Phase) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := compilelog.Read(iotest.ErrReader(stop), time.Time{}, nil); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := compilelog.Read(strings.NewReader("hello\nworld\n"), time.Time{}, nil); !errors.Is(err, compilelog.ErrNotLog) {
		t.Error("got no error for a text that is not a log:", err)
	}
	if log, err := compilelog.Read(bytes.NewReader(data[:len(data)/2]), time.Time{}, nil); err != nil || log.Phases == 0 {
		t.Errorf("Read of half a log: %v, %d phases; want no error and some phases", err, log.Phases)
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
			f, err := os.Open("../../../../../shared/data/kineto/torch_trace/" + file)
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
				t.Errorf("skipped %d, rank %d: %v; want %d, %d", log.Skipped, log.Rank, log.Defects, want.skipped, want.rank)
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
				if time.Unix(0, p.Start).Year() < 2024 || p.Dur < 0 {
					t.Errorf("phase %+v, want a start after 2023 and a length of 0 or more", p)
				}
			}
			if used+log.Unmatched+log.Skipped != want.begins {
				t.Errorf("%d events in phases, %d unmatched, %d skipped; want %d as in the log", used, log.Unmatched, log.Skipped, want.begins)
			}
			if want.forward > 0 && len(log.Compiles[0].Forward) != want.forward {
				t.Errorf("forward operators %v, want %d", log.Compiles[0].Forward, want.forward)
			}
			if want.inference > 0 && (len(log.Compiles[0].Inference) == 0 || log.Compiles[0].CacheKeys[0] != "fcxg4r73scighp7pjee6p3ploc65qptlut3rep6xbwtjawuldrv5") {
				t.Errorf("compile %+v, want inference operators and the cache key of the log", log.Compiles[0])
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
		growth.Work(t, len(data), 128, func() { _, _ = compilelog.Read(bytes.NewReader(data), time.Time{}, nil) })
		var n int64
		log, err := compilelog.Read(bytes.NewReader(data), time.Time{}, func(p *compilelog.Phase) error {
			if p.Name == "" || p.Dur < 0 || p.Depth < 1 {
				t.Fatalf("phase %+v, want a name, a depth and a length of 0 or more", p)
			}
			n++
			return nil
		})
		if err != nil && !errors.Is(err, compilelog.ErrNotLog) {
			t.Fatal(err)
		}
		if log.Phases != n {
			t.Fatalf("log counts %d phases, want %d as seen", log.Phases, n)
		}
		for _, c := range log.Compiles {
			c.Backwards(func(op, overload string, same bool) {
				if list := c.Overloads(op, true); len(list) == 0 || list[0] != overload || same && slices.ContainsFunc(list, func(o string) bool { return o != overload }) {
					t.Errorf("%s has overloads %q, want %q first, and only it: %v", op, list, overload, same)
				}
			})
		}
	})
}

// shapes are logs with n items of one kind.
var shapes = map[string]func(n int) string{
	"records": func(n int) string { return strings.Repeat(record(`"x": {}`, `{}`), n) },
	"begins":  func(n int) string { return many(n, `"chromium_event": {}`, `{"name": "p%d", "ts": %d, "ph": "B"}`) },
	"ends":    func(n int) string { return many(n, `"chromium_event": {}`, `{"name": "p%d", "ts": %d, "ph": "E"}`) },
	"compiles": func(n int) string {
		return many(n, `"artifact": {"name": "fx_graph_cache_hit"}`, `{"key": "f%d", "n": %d}`)
	},
	"one line": func(n int) string { return record(`"x": {}`, strings.Repeat("y", 30*n)) },
	"defects": func(n int) string {
		return record(`"x": {}`, `{}`) + strings.Repeat("V0822 14:00:48.9 1 x.py:1] {\n", n)
	},
	"operators": func(n int) string {
		return record(`"aot_forward_graph": {}, "frame_id": 0, "frame_compile_id": 0`, strings.Repeat("    x = torch.ops.aten.mul.Tensor(a)\n\t", n))
	},
}

func record(env, payload string) string {
	return "V0822 14:00:48.902000 100 file.py:12] {" + env + "}\n\t" + payload + "\n"
}

func many(n int, env, payload string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(record(fmt.Sprintf(`%s, "frame_id": %d, "frame_compile_id": 0`, env, i), fmt.Sprintf(payload, i, i)))
	}
	return b.String()
}

func TestGrowth(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			const n = 1000
			logs := map[int]string{n: shape(n), 16 * n: shape(16 * n)}
			growth.Allocated(t, n, func(n int) { read(t, strings.NewReader(logs[n])) })
		})
	}
}

func BenchmarkGrowth(b *testing.B) {
	for name, shape := range shapes {
		b.Run(name, func(b *testing.B) {
			const n = 1000
			logs := map[int]string{n: shape(n), 16 * n: shape(16 * n)}
			growth.Bench(b, n, func(n int) { read(b, strings.NewReader(logs[n])) })
		})
	}
}

func BenchmarkRead(b *testing.B) {
	one, err := os.ReadFile(fixture)
	if err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat(one, 200)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := compilelog.Read(bytes.NewReader(data), time.Time{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOlderLogs reads logs from before PyTorch 2.5, without events of phases,
// and from before 2.4, without dates.
func TestOlderLogs(t *testing.T) {
	const (
		start   = `V0403 07:28:48.052000 77 torch/_dynamo/convert_frame.py:672] {"dynamo_start": {"stack": []}, "frame_id": 1, "frame_compile_id": 0, "attempt": 0}` + "\n"
		guards  = `V0403 07:28:49.552000 77 torch/_dynamo/guards.py:1894] {"dynamo_guards": {}, "frame_id": 1, "frame_compile_id": 0, "attempt": 0}` + "\n"
		metrics = `V0403 07:28:50.065000 77 torch/_dynamo/utils.py:685] {"compilation_metrics": {"co_name": "f", "start_time": 1712154528.25, "entire_frame_compile_time_s": 1.5, "fail_type": null}, "frame_id": 1, "frame_compile_id": 0, "attempt": 0}` + "\n"
		event   = `V0403 07:28:48.052000 77 torch/_dynamo/utils.py:1] {"chromium_event": {}, "has_payload": "x"}` + "\n\t" + `{"name": "dynamo", "ts": 1712154528000000.0, "ph": "X", "dur": 9, "args": {}}` + "\n"
	)
	// Written at 14:28:50 in a time zone seven hours behind, just after the last
	// record.
	written := time.Date(2024, 4, 3, 14, 28, 50, 100e6, time.UTC)
	first := time.Date(2024, 4, 3, 14, 28, 48, 52e6, time.UTC).UnixNano()
	for _, c := range []struct {
		name, log string
		written   time.Time
		want      []compilelog.Phase
		clock     bool
	}{
		{"metrics", start + guards + metrics, time.Time{}, []compilelog.Phase{{Name: "entire_frame_compile", CompileID: "1/0", Start: 1712154528250000000, Dur: 1.5e9, TID: 77, Depth: 1}}, false},
		{"a failure", strings.Replace(metrics, "null", `"Unsupported"`, 1), time.Time{}, []compilelog.Phase{{Name: "entire_frame_compile", CompileID: "1/0", Start: 1712154528250000000, Dur: 1.5e9, TID: 77, Depth: 1, FailType: "Unsupported"}}, false},
		{"events say more", event + metrics, time.Time{}, []compilelog.Phase{{Name: "dynamo", Start: 1712154528e9, Dur: 9000, TID: 77, Depth: 1}}, false},
		{"clocks alone", start + guards, written, []compilelog.Phase{{Name: "entire_frame_compile", CompileID: "1/0", Start: first, Dur: 1.5e9, TID: 77, Depth: 1}}, true},
		{"clocks of a copy", start + guards, written.AddDate(0, 3, 0), []compilelog.Phase{{Name: "entire_frame_compile", CompileID: "1/0", Start: first - 7*3600e9, Dur: 1.5e9, TID: 77, Depth: 1}}, true},
		{"clocks around New Year", strings.ReplaceAll(start+guards, "V0403", "V1231"), time.Date(2025, 1, 1, 0, 5, 0, 0, time.UTC), []compilelog.Phase{{
			Name: "entire_frame_compile", CompileID: "1/0", Start: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() - 16*3600e9 - 31*60e9 - 11.948e9, Dur: 1.5e9, TID: 77, Depth: 1,
		}}, true},
		{"no date at all", start + guards, time.Time{}, nil, false},
		{"metrics without a time", strings.Replace(metrics, "1712154528.25", "null", 1), time.Time{}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []compilelog.Phase
			log, err := compilelog.Read(strings.NewReader(c.log), c.written, func(p *compilelog.Phase) error {
				got = append(got, *p)
				return nil
			})
			if err != nil || !slices.Equal(got, c.want) || log.ByClock != c.clock {
				t.Errorf("%+v, by clock %v, want %+v; %v", got, log.ByClock, c.want, err)
			}
		})
	}
}
