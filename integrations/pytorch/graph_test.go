package pytorch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/trainspan/trainspan/integrations/pytorch"
)

func TestNodeNames(t *testing.T) {
	for _, tc := range []struct{ kind, target, module, want string }{
		{"call_function", "convolution.default", "", "function.convolution.default"},
		{"call_function", "getitem", "", "function.getitem"},
		{"call_module", "layers.0.conv", "Conv2d", "layers.0.conv.Conv2d_layers_0_conv"},
		{"call_module", "fc", "Linear", "fc.Linear_fc"},
		{"call_method", "view", "", "method.view"},
		{"call_method", "a.b", "", "method.a_b"},
		{"placeholder", "x", "", "placeholder.x"},
		{"get_attr", "w", "", "get_attr.w"},
		{"output", "output", "", "output.output"},
		{"strange", "y", "", "strange.y"},
	} {
		c := &capture{}
		(&pytorch.Ops{Sink: c}).Node(pytorch.NodeKind(tc.kind), tc.target, tc.module).Start().End()
		if got := names(c.events); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.kind, tc.target, got, tc.want)
		}
	}
}

func TestOpsRecord(t *testing.T) {
	c := &capture{}
	now := time.Unix(1778000000, 500)
	ops := &pytorch.Ops{Sink: c, PID: 7, TID: 3, GradEnabled: true, Epoch: 1, Step: 2, CompileID: "0/0", Now: func() time.Time { return now }}
	sc := ops.Node(pytorch.CallModule, "fc", "Linear").Start()
	now = now.Add(1500 * time.Microsecond)
	sc.End()
	e := c.one(t, "dynamo", "fc.Linear_fc")
	if e.TS != 1778000000_000000 || e.Dur != 1500 || e.PID != 7 || e.TID != 3 {
		t.Errorf("event %+v", e)
	}
	if arg(e, "grad_enabled") != "1" || arg(e, "epoch") != "1" || arg(e, "step") != "2" || arg(e, "compile_id") != "0/0" {
		t.Errorf("args %+v", e.Args)
	}
}

func TestOpsOffAndAllocations(t *testing.T) {
	var none *pytorch.Ops
	none.Node(pytorch.CallFunction, "relu", "").Start().End()
	(&pytorch.Ops{}).Node(pytorch.CallFunction, "relu", "").Start().End()
	ops := &pytorch.Ops{Sink: &nullSink{}, GradEnabled: true, Step: 1}
	n := ops.Node(pytorch.CallFunction, "relu.default", "")
	if got := testing.AllocsPerRun(1000, func() { n.Start().End() }); got > 0 {
		t.Errorf("%v allocations per operator", got)
	}
}

func ExampleOps() {
	sink := &capture{}
	ops := &pytorch.Ops{Sink: sink, GradEnabled: true}
	relu := ops.Node(pytorch.CallFunction, "relu.default", "")
	sc := relu.Start()
	// ... run the operator ...
	sc.End()
	fmt.Println(sink.events[0].Cat, sink.events[0].Name)
	// Output: dynamo function.relu.default
}

func TestOpsHaveTIDLevelAndAttributes(t *testing.T) {
	c := &capture{}
	ops := &pytorch.Ops{Sink: c, PID: 7, Level: 3, ImageIndex: 4, ImageSize: 4096, Name: "encoder"}
	outer := ops.Node(pytorch.CallModule, "fc", "Linear").Start()
	ops.Node(pytorch.CallFunction, "mm.default", "").Start().End()
	outer.End()
	ops.Node(pytorch.CallFunction, "relu.default", "").Start().End()
	for name, level := range map[string]int{"fc.Linear_fc": 4, "function.mm.default": 5, "function.relu.default": 4} {
		e := c.one(t, "dynamo", name)
		if e.Level != level || e.TID != 7 || arg(e, "image_idx") != "4" || arg(e, "image_size") != "4096" || arg(e, "name") != "encoder" {
			t.Errorf("%s: level %d, tid %d, %v", name, e.Level, e.TID, e.Args)
		}
	}
	ops.Disabled = true
	ops.Node(pytorch.CallFunction, "sin.default", "").Start().End()
	if len(c.events) != 3 {
		t.Error("a disabled graph records")
	}
	c = &capture{}
	(&pytorch.Ops{Sink: c}).Node(pytorch.CallFunction, "sin.default", "").Start().End()
	if e := c.events[0]; e.TID <= 0 {
		t.Errorf("no tid: %+v", e)
	}
}
