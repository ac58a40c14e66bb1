package torch_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// compiled returns the dynamo events of a compile id in order.
func compiled(c *capture, id string) []dftracer.Event {
	var out []dftracer.Event
	for _, e := range c.pick("dynamo", "") {
		if arg(e, "compile_id") == id && arg(e, "source") == "kineto" {
			out = append(out, e)
		}
	}
	return out
}

func TestInductorRegion(t *testing.T) {
	c, rep := load(t, nil, "compile.json")
	got := names(compiled(c, "0/0"))
	want := []string{"region.0/0", "graph.fabc", "kernel.triton_poi_fused_add_mul_0", "function.mm", "function.mul"}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	k := c.one(t, "dynamo", "kernel.triton_poi_fused_add_mul_0")
	if arg(k, "fused") != "add_mul" || arg(k, "device_us") != "20" || arg(k, "cache_key") != "fabc" || arg(k, "kernel_hash") != "cxyz" {
		t.Errorf("kernel %+v, want add_mul, 20 µs, cache key fabc, hash cxyz", k)
	}
	mm := c.one(t, "dynamo", "function.mm")
	if arg(mm, "overload") != "unknown" || arg(mm, "extern") != "1" || arg(mm, "device_us") != "30" || arg(mm, "phase") != "forward" {
		t.Errorf("mm %+v, want an unknown overload, extern, 30 µs, forward", mm)
	}
	if _, ok := mm.Arg("grad_enabled"); ok {
		t.Error("got grad_enabled, want it absent")
	}
	if r := c.one(t, "dynamo", "region.0/0"); arg(r, "backend") != "inductor" {
		t.Errorf("region %+v, want backend inductor", r)
	}
	for _, phase := range []string{"compile._compile.compile_inner", "compile.inductor_compile"} {
		c.one(t, "dynamo", phase)
	}
	text := rep.String()
	for _, s := range []string{"1 of 3 compiled regions are Inductor graphs", "the overload of", "compilation inside the window: 80µs", "guard checks took 10µs"} {
		if !strings.Contains(text, s) {
			t.Errorf("want %q in the report\n%s", s, text)
		}
	}
}

func TestPerOpRegion(t *testing.T) {
	c, rep := load(t, nil, "compile.json")
	got := names(compiled(c, "1/0"))
	want := []string{"region.1/0", "CompiledFunction", "function.mul", "function.add", "function.mul", "function.sub.Tensor", "function.neg"}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	for _, e := range c.pick("dynamo", "function.mul") {
		if arg(e, "overload") != "unknown" {
			t.Errorf("event %+v, want overload unknown", e)
		}
	}
	if sub := c.one(t, "dynamo", "function.sub.Tensor"); arg(sub, "overload_from") != "trace" || arg(sub, "grad_enabled") != "1" || arg(sub, "inferred") != "1" {
		t.Errorf("sub %+v, want an inferred overload from the trace, with grad enabled", sub)
	}
	if neg := c.one(t, "dynamo", "function.neg"); arg(neg, "node") != "3" {
		t.Errorf("neg %+v, want node 3", neg)
	}
	back := c.one(t, "dynamo", "CompiledFunctionBackward")
	if arg(back, "phase") != "backward" {
		t.Errorf("backward %+v, want phase backward", back)
	}
	var inBack []string
	for _, e := range c.pick("dynamo", "") {
		if arg(e, "phase") == "backward" {
			inBack = append(inBack, e.Name)
		}
	}
	if !slices.Equal(inBack, []string{"CompiledFunctionBackward", "function.mul"}) {
		t.Errorf("backward has %q, want [CompiledFunctionBackward function.mul]: a collective of a hook is no graph node", inBack)
	}
	if !rep.Files[0].Compile.Backward {
		t.Error("the report has no backward, want one")
	}
}

func TestCUDAGraphIsOneLaunch(t *testing.T) {
	c, rep := load(t, nil, "compile_cudagraph.json")
	if got := names(c.pick("dynamo", "")); !slices.Equal(got, []string{"CompiledFunction", "graph"}) {
		t.Errorf("events %q, want [CompiledFunction graph]", got)
	}
	if g := c.one(t, "dynamo", "graph"); arg(g, "cuda_graph") != "1" || arg(g, "device_us") != "10" {
		t.Errorf("launch %+v, want a CUDA graph of 10 µs", g)
	}
	f := rep.Files[0]
	if f.DeviceUnlinked != 1 || !strings.Contains(rep.String(), "CUDA graphs, which hide the operators") {
		t.Errorf("%d rows without a launch, want 1 and a remark about CUDA graphs in\n%s", f.DeviceUnlinked, rep)
	}
	if k := c.one(t, "PP", "k3"); arg(k, "unlinked") != "1" {
		t.Errorf("k3 %+v, want unlinked", k)
	}
}

func TestCompileLogGivesOverloadsAndPhases(t *testing.T) {
	c, rep := load(t, nil, "compile.json", "dedicated_log_torch_trace_abc.log")
	// By cache key: mm has one overload after Inductor's passes.
	if mm := c.one(t, "dynamo", "function.mm.default"); arg(mm, "overload_from") != "compile log" {
		t.Errorf("mm %+v, want its overload from the compile log", mm)
	}
	if k := c.one(t, "dynamo", "kernel.triton_poi_fused_add_mul_0"); arg(k, "nodes") != "add,mul_7" {
		t.Errorf("kernel %+v, want nodes add,mul_7", k)
	}
	// By compile id and order: the graph has mul.Tensor before mul.Scalar.
	var muls []string
	for _, e := range compiled(c, "1/0") {
		if strings.HasPrefix(e.Name, "function.") {
			muls = append(muls, e.Name)
		}
	}
	want := []string{"function.mul.Tensor", "function.add.Scalar", "function.mul.Scalar", "function.sub.Tensor", "function.neg.default"}
	if !slices.Equal(muls, want) {
		t.Errorf("operators %q, want %q", muls, want)
	}
	d := c.one(t, "dynamo", "compile.dynamo")
	if d.TS != stepStart || d.Dur != 1500 || arg(d, "compile_id") != "0/0" || arg(d, "fail_type") != "Unsupported" || d.PID != 100 || d.Level != 1 {
		t.Errorf("phase %+v, want 1500 µs at the start of the step, 0/0, Unsupported, process 100, level 1", d)
	}
	if e := c.one(t, "dynamo", "compile.entire_frame_compile"); e.TS != stepStart+100 || e.Dur != 1000 || e.Level != 2 {
		t.Errorf("phase %+v, want 1000 µs, 100 µs after the start of the step, level 2", e)
	}
	if e := c.one(t, "dynamo", "compile.fx_graph_cache_miss"); arg(e, "instant") != "1" || e.Dur != 0 {
		t.Errorf("instant %+v, want instant 1 without a length", e)
	}
	l := rep.Logs[0]
	if l.Phases != 3 || l.Unmatched != 2 || l.Compilations != 2 || l.Skipped != 2 || l.Operators != 6 {
		t.Errorf("report of the log %+v, want 3 phases, 2 unmatched, 2 compilations, 2 skipped, 6 operators", l)
	}
}
