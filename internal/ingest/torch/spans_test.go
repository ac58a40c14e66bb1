package torch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func spansOf(t *testing.T, so torch.SpanOptions, files ...string) (tracetest.SpanStubs, *torch.Report) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	so.Exporter = exp
	_, rep := load(t, &torch.Options{Spans: &so}, files...)
	return exp.GetSpans(), rep
}

func byName(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q", name)
	return tracetest.SpanStub{}
}

func TestSpanLevels(t *testing.T) {
	for _, tc := range []struct {
		level torch.Level
		want  int
	}{
		{torch.LevelStep, 2},       // profile, step
		{torch.LevelPhase, 6},      // loader, optimizer, inferred forward and backward
		{"", 7},                    // the transfer
		{torch.LevelAnnotation, 7}, // the same
		{torch.LevelOp, 12},        // five operators
		{torch.LevelKernel, 17},    // three runtime calls, two kernels
	} {
		spans, rep := spansOf(t, torch.SpanOptions{Level: tc.level}, "era_relative_base_first.json")
		if len(spans) != tc.want || rep.Spans.Exported != int64(tc.want) {
			t.Errorf("level %s: %d spans, want %d (%+v)", tc.level, len(spans), tc.want, rep.Spans)
		}
	}
}

func TestSpanTree(t *testing.T) {
	spans, _ := spansOf(t, torch.SpanOptions{Level: torch.LevelKernel, Job: "j1"}, "era_relative_base_first.json")
	ids := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range spans {
		if _, dup := ids[s.SpanContext.SpanID()]; dup {
			t.Fatalf("two spans have the ID of %s, want different ones", s.Name)
		}
		ids[s.SpanContext.SpanID()] = s
	}
	step := byName(t, spans, "ProfilerStep#7")
	if step.Parent.IsValid() || step.StartTime.UnixNano() != stepStart*1000 {
		t.Errorf("step %+v, want a root at the start of the step", step)
	}
	for _, s := range spans {
		if !s.Parent.IsValid() {
			continue
		}
		up, ok := ids[s.Parent.SpanID()]
		if !ok || up.SpanContext.TraceID() != s.SpanContext.TraceID() {
			t.Errorf("%s has a parent that is not exported, or in another trace", s.Name)
		}
	}
	mm := byName(t, spans, "aten::mm")
	if up := ids[mm.Parent.SpanID()]; up.Name != "AddmmBackward0" {
		t.Errorf("aten::mm is under %q, want \"AddmmBackward0\"", up.Name)
	}
	k := byName(t, spans, "gemm_bw<float>")
	if len(k.Links) != 1 || ids[k.Links[0].SpanContext.SpanID()].Name != "cudaLaunchKernel" || k.Parent.SpanID() != step.SpanContext.SpanID() {
		t.Errorf("kernel %+v, want the step as parent and a link to cudaLaunchKernel", k)
	}
	got := map[attribute.Key]attribute.Value{}
	for _, a := range append(k.Attributes, k.Resource.Attributes()...) {
		got[a.Key] = a.Value
	}
	for key, want := range map[attribute.Key]string{
		"gpu.id": "0", "gpu.stream": "7", "step": "7", "training.rank": "3", "training.world_size": "4", "host.name": "node7", "process.pid": "100",
		"gpu.name": "Test GPU", "training.job": "j1", "service.name": "pytorch", "service.instance.id": "node7/100/3",
	} {
		if v := got[key]; v.String() != want {
			t.Errorf("%s = %q, want %q", key, v.String(), want)
		}
	}
	again, _ := spansOf(t, torch.SpanOptions{Level: torch.LevelKernel, Job: "j1"}, "era_relative_base_first.json")
	if byName(t, again, "aten::mm").SpanContext.SpanID() != mm.SpanContext.SpanID() {
		t.Error("a second import makes other ids")
	}
}

func TestSpanBudget(t *testing.T) {
	spans, rep := spansOf(t, torch.SpanOptions{Level: torch.LevelKernel, Budget: 12}, "era_relative_base_first.json")
	if len(spans) != 12 || rep.Spans.Used != torch.LevelOp || rep.Spans.LeftOut["kernel"] != 5 {
		t.Errorf("%d spans, %+v; want 12 up to operators, 5 kernels left out", len(spans), rep.Spans)
	}
	spans, rep = spansOf(t, torch.SpanOptions{Budget: 1}, "era_relative_base_first.json")
	if len(spans) != 1 || rep.Spans.LeftOut["over budget"] != 1 {
		t.Errorf("%d spans, %+v; want 1, 1 over budget", len(spans), rep.Spans)
	}
	exp := tracetest.NewInMemoryExporter()
	_, err := importBytes(t.Context(), nil, &torch.Options{Spans: &torch.SpanOptions{Exporter: exp, Level: torch.LevelKernel, Budget: -1}}, "x.json", generated(6000, 0))
	if n := len(exp.GetSpans()); err != nil || n != 3*6000+6+1 {
		t.Errorf("without a limit: %d spans, %v; want %d", n, err, 3*6000+6+1)
	}
}

func TestOneResourcePerProcess(t *testing.T) {
	spans, _ := spansOf(t, torch.SpanOptions{}, "ranks_0.json", "ranks_1.json")
	res := map[string]int{}
	for _, s := range spans {
		res[s.Resource.String()]++
	}
	if len(res) != 2 {
		t.Errorf("resources %v, want 2", res)
	}
}

type brokenExporter struct{}

func (brokenExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("no route")
}
func (brokenExporter) Shutdown(context.Context) error { return nil }

func TestExporterErrorIsReturned(t *testing.T) {
	c := &capture{}
	srcs, _ := torch.Files("testdata/era_absolute_int.json")
	rep, err := torch.Import(t.Context(), c, srcs, &torch.Options{Spans: &torch.SpanOptions{Exporter: brokenExporter{}}})
	if err == nil || rep.Spans.Exported != 0 || len(c.events) == 0 {
		t.Errorf("error %v, %d spans exported, %d events; want an error, 0, some events", err, rep.Spans.Exported, len(c.events))
	}
}
