package torch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// hostTrace returns a profile of host rows: "tid name start dur args".
func hostTrace(rows ...string) []byte {
	var out []string
	for _, r := range rows {
		f := strings.SplitN(r, " | ", 5)
		cat := "cpu_op"
		if strings.Contains(f[1], ".py(") {
			cat = "python_function"
		} else if strings.HasPrefix(f[1], "##") {
			cat = "user_annotation"
		}
		out = append(out, fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":%s,"ts":17780000000%05s,"dur":%s,"args":{%s}}`, cat, f[1], f[0], f[2], f[3], f[4]))
	}
	return []byte(`{"traceEvents":[` + strings.Join(out, ",\n") + `]}`)
}

const (
	fwd5 = `"Sequence number":5,"Fwd thread id":0`
	fwd6 = `"Sequence number":6,"Fwd thread id":0`
	bwd5 = `"Sequence number":5,"Fwd thread id":1`
	bwd6 = `"Sequence number":6,"Fwd thread id":1`
)

func importRows(t *testing.T, opts *torch.Options, rows ...string) (*capture, *torch.FileReport) {
	t.Helper()
	c := &capture{}
	rep, err := importBytes(t.Context(), c, opts, "x.json", hostTrace(rows...))
	if err != nil {
		t.Fatal(err)
	}
	return c, rep.Files[0]
}

// The backward pass comes first in this file, so that its events are written
// before those of the forward pass.
func TestBackwardNamesItsForward(t *testing.T) {
	c, rep := importRows(t, nil,
		"2 | autograd::engine::evaluate_function: AddmmBackward0 | 500 | 50 | "+bwd5,
		"2 | AddmmBackward0 | 510 | 30 | "+bwd5,
		"2 | aten::mm | 512 | 20 | ",
		"1 | aten::linear | 100 | 50 | "+fwd5,
		"1 | aten::addmm | 110 | 30 | "+fwd5,
		"1 | aten::relu | 200 | 10 | "+fwd6,
	)
	addmm := c.one(t, "PP", "aten::addmm")
	if num(t, addmm, "seq") != 5 {
		t.Errorf("forward %v, want seq 5", addmm.Args)
	}
	for _, name := range []string{"autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"} {
		e := c.one(t, "PP", name)
		if num(t, e, "seq") != 5 || num(t, e, "fwd_id") != int64(addmm.ID) || arg(e, "fwd_op") != "aten::addmm" {
			t.Errorf("%s %v, want seq 5 and forward aten::addmm with ID %d", name, e.Args, addmm.ID)
		}
	}
	for _, name := range []string{"aten::linear", "aten::relu", "aten::mm"} {
		if e := c.one(t, "PP", name); arg(e, "seq") != "" || arg(e, "fwd_id") != "" {
			t.Errorf("%s is part of a pair: %v, want neither seq nor fwd_id", name, e.Args)
		}
	}
	if rep.BackwardTied != 2 {
		t.Errorf("%d tied, want 2", rep.BackwardTied)
	}
	ids := map[uint64]bool{}
	for _, e := range c.events {
		if e.Phase == dftracer.PhaseComplete {
			if ids[e.ID] {
				t.Errorf("two events have ID %d, want different ones", e.ID)
			}
			ids[e.ID] = true
		}
	}
}

// Threads use the same numbers for their operators, so a number is no link if
// two threads ran forward passes.
func TestSequenceNumbersOfSeveralThreadsTieNothing(t *testing.T) {
	c, rep := importRows(t, nil,
		"1 | aten::addmm | 100 | 50 | "+fwd5,
		"2 | aten::mul | 120 | 50 | "+fwd5,
		"3 | AddmmBackward0 | 500 | 30 | "+bwd5,
		"3 | MulBackward0 | 600 | 30 | "+`"Sequence number":5,"Fwd thread id":2`,
	)
	for _, e := range c.events {
		if arg(e, "fwd_id") != "" {
			t.Errorf("%s: %v, want no fwd_id", e.Name, e.Args)
		}
	}
	if rep.BackwardTied != 0 || !strings.Contains(strings.Join(rep.Unknown, "\n"), "several threads ran forward") {
		t.Errorf(`%d tied, unknown %q; want 0 and "several threads ran forward"`, rep.BackwardTied, rep.Unknown)
	}
	// One thread ran the backward pass, but two forward operators have the number.
	_, rep = importRows(t, nil,
		"1 | aten::addmm | 100 | 50 | "+fwd5,
		"2 | aten::mul | 120 | 50 | "+fwd5,
		"3 | AddmmBackward0 | 500 | 30 | "+bwd5,
	)
	if rep.BackwardTied != 0 {
		t.Errorf("%d tied, want 0", rep.BackwardTied)
	}
}

func TestSpansOfBackwardLinkToForward(t *testing.T) {
	exp := tracetest.NewInMemoryExporter()
	importRows(t, &torch.Options{Spans: &torch.SpanOptions{Exporter: exp, Level: torch.LevelOp}},
		"1 | aten::addmm | 110 | 30 | "+fwd5,
		"2 | autograd::engine::evaluate_function: AddmmBackward0 | 500 | 50 | "+bwd5,
	)
	spans := map[string]tracetest.SpanStub{}
	for _, s := range exp.GetSpans() {
		spans[s.Name] = s
	}
	back, fwd := spans["autograd::engine::evaluate_function: AddmmBackward0"], spans["aten::addmm"]
	if len(back.Links) != 1 || !back.Links[0].SpanContext.Equal(fwd.SpanContext) || !fwd.SpanContext.IsValid() {
		t.Errorf("links %+v, want one to forward, %v", back.Links, fwd.SpanContext)
	}
	exp.Reset()
	importRows(t, &torch.Options{Spans: &torch.SpanOptions{Exporter: exp, Level: torch.LevelAnnotation}},
		"1 | aten::addmm | 110 | 30 | "+fwd5, "2 | ##back ## | 500 | 50 | "+bwd5)
	for _, s := range exp.GetSpans() {
		if len(s.Links) != 0 {
			t.Errorf("%s has a link to a span that is not exported, want none", s.Name)
		}
	}
}

// Activation checkpointing runs forward operators again inside the backward
// pass, where autograd records them with new numbers.
func TestRecomputeIsPartOfBackward(t *testing.T) {
	rows := []string{
		"1 | aten::mul | 100 | 50 | " + fwd5,
		"2 | autograd::engine::evaluate_function: MulBackward0 | 500 | 100 | " + bwd5,
		"2 | MulBackward0 | 505 | 90 | " + bwd5,
		"2 | ## forward ## | 508 | 42 | ",
		"2 | aten::linear | 510 | 40 | " + fwd6,
		"2 | aten::view | 515 | 10 | ",
		"2 | aten::mul | 560 | 10 | ",
	}
	c, rep := importRows(t, nil, rows...)
	for name, want := range map[string]string{"aten::linear": "11", "aten::view": "11", "MulBackward0": "", "autograd::engine::evaluate_function: MulBackward0": ""} {
		if e := c.one(t, "PP", name); arg(e, "recompute")+arg(e, "inferred") != want {
			t.Errorf("%s: %v, want recompute and inferred %q", name, e.Args, want)
		}
	}
	for _, e := range c.pick("PP", "aten::mul") {
		if arg(e, "recompute") != "" {
			t.Errorf("operator of backward itself: %v, want no recompute", e.Args)
		}
	}
	for _, e := range c.pick("compute", "forward") {
		if e.TS >= 1778000000000500 {
			t.Errorf("forward inside backward: %+v, want none", e)
		}
	}
	if back := c.one(t, "compute", "backward"); back.Dur != 100 || rep.Guesses == nil {
		t.Errorf("backward %+v, guesses %q; want 100 µs and a guess", back, rep.Guesses)
	}
	// With the checkpoint's own rows in the trace it is certain.
	rows[2] = "2 | CheckpointFunctionBackward | 505 | 90 | " + bwd5
	c, _ = importRows(t, nil, rows...)
	if e := c.one(t, "PP", "aten::linear"); arg(e, "recompute") != "1" || arg(e, "inferred") != "" {
		t.Errorf("operator below the node of the checkpoint: %v, want recompute, not inferred", e.Args)
	}
	rows[2], rows[3] = "2 | MulBackward0 | 505 | 90 | "+bwd5, "2 | torch/utils/checkpoint.py(1125): unpack_hook | 508 | 45 | "
	c, _ = importRows(t, &torch.Options{PythonStacks: true}, rows...)
	if e := c.one(t, "PP", "aten::linear"); arg(e, "recompute") != "1" || arg(e, "inferred") != "" {
		t.Errorf("operator below the frame of the checkpoint: %v, want recompute, not inferred", e.Args)
	}
}
