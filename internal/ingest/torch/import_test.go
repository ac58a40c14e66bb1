package torch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// The fixtures of all eras have the same step, which starts here.
const stepStart = int64(1778000000000000)

func TestErasGiveTheSameEvents(t *testing.T) {
	for _, tc := range []struct {
		file   string
		era    kineto.Era
		rank   int64
		nanos  bool
		legacy bool
	}{
		{"era_torch19.json", kineto.EraAbsoluteMicros, -1, false, true},
		{"era_absolute_int.json", kineto.EraAbsoluteMicros, 3, false, false},
		{"era_absolute_fraction.json", kineto.EraAbsoluteFraction, 3, true, false},
		{"era_relative_base_first.json", kineto.EraRelative, 3, true, false},
		{"era_relative_base_last.json", kineto.EraRelative, -1, true, false},
		{"rank3.1778000000005000000.pt.trace.json", kineto.EraRelativeNoBase, 3, true, false},
	} {
		t.Run(tc.file, func(t *testing.T) {
			c, rep := load(t, nil, tc.file)
			f := rep.Files[0]
			if f.Era != tc.era || f.Rank != tc.rank || f.Steps != 1 || f.PID != 100 {
				t.Errorf("era %v, rank %d, %d steps, pid %d; want %v, %d, 1, 100", f.Era, f.Rank, f.Steps, f.PID, tc.era, tc.rank)
			}
			step := c.one(t, "PP", "ProfilerStep#7")
			if step.TS != stepStart || step.Dur != 1000 || step.PID != 100 || step.TID != 100 {
				t.Errorf("step %+v, want 1000 µs at the start of the step on process and thread 100", step)
			}
			if it := c.one(t, "pipeline", "train.iteration"); it.TS != stepStart || num(t, it, "step") != 7 {
				t.Errorf("iteration %+v, want step 7 at the start of the step", it)
			}
			if l := c.one(t, "dataloader", "fetch.iter"); l.TS != stepStart+10 || l.Dur != 90 || arg(l, "loader") != "_SingleProcessDataLoaderIter" || num(t, l, "step") != 7 {
				t.Errorf("loader %+v, want 90 µs, 10 µs after the start of step 7, with the class of the loader", l)
			}
			if o := c.one(t, "compute", "step"); arg(o, "optimizer") != "SGD" || o.Dur != 100 {
				t.Errorf("optimizer %+v, want SGD, 100 µs", o)
			}
			tr := c.one(t, "device", "transfer")
			if arg(tr, "kind") != "HtoD" || num(t, tr, "bytes") != 128 || arg(tr, "pinned") != "yes" || arg(tr, "src") != "host" || num(t, tr, "step") != 7 {
				t.Errorf("transfer %+v, want 128 bytes from pinned host memory to the device in step 7", tr)
			}
			back := c.one(t, "compute", "backward")
			if num(t, back, "inferred") != 1 {
				t.Errorf("backward %+v, want it inferred", back)
			}
			if !tc.legacy {
				fw := c.one(t, "compute", "forward")
				if fw.TS != stepStart+200 || fw.Dur != 100 || num(t, fw, "inferred") != 1 {
					t.Errorf("forward %+v, want 100 µs, 200 µs after the start of the step, inferred", fw)
				}
			}
			k := c.one(t, "PP", "gemm_bw<float>")
			if arg(k, "op") != "aten::mm" || num(t, k, "stream") != 7 || num(t, k, "device_id") != 0 || num(t, k, "device") != 1 || num(t, k, "step") != 7 {
				t.Errorf("kernel %+v, want op aten::mm, stream 7, device 1, step 7", k)
			}
			if k.PID != 100 || k.TID != 1_000_000_007 {
				t.Errorf("kernel on lane %d/%d, want 100/1000000007", k.PID, k.TID)
			}
			if tc.nanos && num(t, k, "dur_ns") != 60_250 {
				t.Errorf("kernel takes %s ns, want 60250", arg(k, "dur_ns"))
			}
		})
	}
}

func TestProfilerFields(t *testing.T) {
	c, rep := load(t, nil, "era_absolute_int.json")
	op := c.one(t, "PP", "aten::addmm")
	for key, want := range map[string]string{
		"device": "0", "cpu_memory": "64", "device_memory_usage": "512", "is_remote": "0", "input_size": "104", "input_bytes": "416",
		"device_us": "50", "rank": "3", "step": "7",
	} {
		if got := arg(op, key); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	// Host time is the step (1000) and the engine (200); device time 10+50+60.
	for key, want := range map[string]float64{"total_cpu_percent": 100.0 * 100 / 1200, "self_cpu_percent": 100.0 * 90 / 1200, "total_device_percent": 100.0 * 50 / 120} {
		a, _ := op.Arg(key)
		if d := a.Float64() - want; d > 1e-3 || d < -1e-3 {
			t.Errorf("%s = %v, want %v", key, a.Float64(), want)
		}
	}
	f := rep.Files[0]
	if f.SelfCPU != 1200*time.Microsecond || f.Device != 120*time.Microsecond || f.MemoryInstants != 3 || f.MemoryNetBytes != 64 || f.MemoryUnattributed != 1 {
		t.Errorf("report %+v, want 1200 µs of CPU, 120 µs of device, 3 memory instants of 64 bytes, 1 unattributed", f)
	}
	free := c.one(t, "PP", "[memory]")
	if free.Dur != 0 || num(t, free, "device_memory_usage") != -512 || num(t, free, "unattributed") != 1 {
		t.Errorf("free in the step only: %+v, want no length, -512 bytes, unattributed", free)
	}
	engine := c.one(t, "PP", "autograd::engine::evaluate_function: AddmmBackward0")
	if arg(engine, "device_us") != "60" {
		t.Errorf("outer row %+v, want 60 µs of device time", engine)
	}
	if int64(op.Parent) != int64(c.one(t, "PP", "ProfilerStep#7").ID) || op.Level != 2 {
		t.Errorf("parent %d, level %d; want the step, 2", op.Parent, op.Level)
	}
	if s := rep.String(); !strings.Contains(s, "rank 3 (from distributedInfo) of 4") {
		t.Errorf("report: %s, want \"rank 3 (from distributedInfo) of 4\" in it", s)
	}
}

func TestFraming(t *testing.T) {
	c, rep := load(t, nil, "era_relative_base_first.json")
	hh := c.one(t, dftracer.CatDFTracer, tracefile.NameHostHash)
	if arg(hh, "name") != "node7" || arg(hh, "value") != hh.HostHash || rep.Files[0].Host != "node7" {
		t.Errorf("host %+v, want node7", hh)
	}
	if pr := c.one(t, dftracer.CatDFTracer, tracefile.NameProcess); arg(pr, "value") != "3" {
		t.Errorf("rank record %+v, want 3", pr)
	}
	cm := map[string]string{}
	for _, e := range c.pick(dftracer.CatDFTracer, tracefile.NameCustom) {
		cm[arg(e, "name")] = arg(e, "value")
	}
	if cm["pytorch.total_device_us"] != "120.75" || cm["pytorch.time_base"] != "baseTimeNanoseconds" {
		t.Errorf("totals %v, want 120.75 µs and baseTimeNanoseconds", cm)
	}
	if e := c.one(t, "PP", "aten::addmm"); e.HostHash != hh.HostHash {
		t.Errorf("host hash %v of an event, want %v", e.HostHash, hh.HostHash)
	}
}

func TestDefects(t *testing.T) {
	for _, tc := range []struct {
		file            string
		events, skipped int64
		truncated       bool
		repaired        int64
		want            []string
	}{
		{"defect_quote.json", 3, 1, false, 0, []string{"aten::add", "aten::mul", "aten::div"}},
		{"defect_control.json", 3, 0, false, 1, []string{"aten::add", "getpass.py(0):  \uFFFD x", "aten::mul"}},
		{"defect_bareword.json", 3, 0, false, 0, []string{"aten::add", "aten::sub", "aten::mul"}},
		{"defect_backslash.json", 3, 0, false, 0, []string{"aten::add", `C:\Users\x.py(3): f`, "aten::mul"}},
		{"defect_truncated.json", 3, 1, true, 0, []string{"aten::add", "aten::mul"}},
		{"defect_missing_comma.json", 4, 0, false, 0, []string{"aten::add", "aten::mul", "aten::div"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			c, rep := load(t, nil, tc.file)
			f := rep.Files[0]
			if f.Skipped != tc.skipped || f.Truncated != tc.truncated || f.NamesRepaired != tc.repaired {
				t.Errorf("skipped %d, truncated %v, repaired %d: %v; want %d, %v, %d", f.Skipped, f.Truncated, f.NamesRepaired, f.Defects, tc.skipped, tc.truncated, tc.repaired)
			}
			if tc.skipped > 0 && (len(f.Defects) == 0 || f.Defects[0].Offset <= 0 || f.Defects[0].End <= f.Defects[0].Offset) {
				t.Errorf("defects %v, want the byte offsets of the first", f.Defects)
			}
			var got []string
			for _, e := range c.pick("PP", "") {
				if e.Name != "fine(3): f" {
					got = append(got, e.Name)
				}
			}
			if strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("events %q, want %q", got, tc.want)
			}
		})
	}
}

func TestForeignFilesAreRefusedByName(t *testing.T) {
	for file, word := range map[string]string{
		"foreign_execution_trace.json": "execution trace", "foreign_memory_timeline.json": "memory timeline", "foreign_object.json": "without traceEvents",
		"foreign.pftrace": "Perfetto",
	} {
		srcs, err := torch.Files("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := torch.Import(t.Context(), nil, srcs, nil)
		var refused *kineto.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), word) || len(rep.Refused) != 1 {
			t.Errorf("%s: %v, want it refused with %q", file, err, word)
		}
		// Beside a trace it is reported and is not an error.
		good, _ := torch.Files("testdata/era_absolute_int.json")
		rep, err = torch.Import(t.Context(), nil, append(srcs, good...), nil)
		if err != nil || len(rep.Refused) != 1 || len(rep.Files) != 1 {
			t.Errorf("%s beside a trace: %v, want one file read and one refused", file, err)
		}
	}
}

func TestArrayRoot(t *testing.T) {
	src := torch.Source{Name: "trace.json", Open: fileOpener("testdata/era_array.json"), ModTime: time.Unix(1778000000, 0)}
	c := &capture{}
	rep, err := torch.Import(t.Context(), c, []torch.Source{src}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := rep.Files[0]; f.Era != kineto.EraProfilerClock || len(f.Guesses) == 0 {
		t.Errorf("era %v, guesses %v; want the clock of the profiler, with a guess", f.Era, f.Guesses)
	}
	if e := c.one(t, "PP", "aten::zeros"); e.TS < 1777999999_000000 || e.TS > 1778000000_000000 {
		t.Errorf("first event at %d µs, want within one second before 1778000000 s, the time of the file", e.TS)
	}
	c.one(t, "compute", "step")
}

func TestOverlapIsClampedAndCounted(t *testing.T) {
	c, rep := load(t, &torch.Options{PythonStacks: true}, "overlap.json")
	inner := c.one(t, "PP", "inner")
	if inner.Dur != 50 || num(t, inner, "clamped_us") != 10 || rep.Files[0].Clamped != 1 {
		t.Errorf("inner %+v, %d clamped; want 50 µs, 10 µs clamped, 1", inner, rep.Files[0].Clamped)
	}
	c.one(t, "PP", "f.py(1): g")
	if o := c.one(t, "PP", "Buffer Flush"); o.PID != 9 || o.TID < 900_000_000 {
		t.Errorf("overhead on lane %d/%d, want process 9, lane 900000000 or above", o.PID, o.TID)
	}
	_, rep = load(t, nil, "overlap.json")
	if rep.Files[0].PythonRows != 1 {
		t.Errorf("%d Python rows, want 1", rep.Files[0].PythonRows)
	}
}

func TestOptions(t *testing.T) {
	rank := int64(9)
	c, _ := load(t, &torch.Options{
		NoInference: true, Epoch: 2, Host: "here", Rank: &rank,
		Rules: []torch.Rule{{Pattern: "^aten::(add)mm$", Ops: true, Cat: "compute", Name: "gemm", Arg: "what"}},
	}, "era_torch19.json")
	if n := len(c.pick("dataloader", "")) + len(c.pick("compute", "backward")); n != 0 {
		t.Errorf("%d events that were switched off, want 0", n)
	}
	e := c.one(t, "compute", "gemm")
	if arg(e, "what") != "add" || num(t, e, "epoch") != 2 || num(t, e, "rank") != 9 {
		t.Errorf("event of an own rule %+v, want what add, epoch 2, rank 9", e)
	}
	if hh := c.one(t, "dftracer", "HH"); arg(hh, "name") != "here" {
		t.Errorf("host %+v, want here", hh)
	}
	if _, err := torch.Import(t.Context(), nil, nil, &torch.Options{Rules: []torch.Rule{{Pattern: "("}}}); err == nil {
		t.Error("got no error for an invalid pattern, want one")
	}
	if _, err := torch.Import(t.Context(), nil, nil, nil); err == nil {
		t.Error("got no error without input, want one")
	}
}
