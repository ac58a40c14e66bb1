package telemetry_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const (
	aboveTrace = "0af7651916cd43dd8448eb211c80319c"
	aboveSpan  = "b7ad6b7169203331"
)

// The value of TRACEPARENT, and whether spans become children of it.
func TestParentVariable(t *testing.T) {
	for name, c := range map[string]struct {
		text, state string
		good        bool
	}{
		"none":              {"", "", false},
		"blank":             {"  ", "", false},
		"sampled":           {"00-" + aboveTrace + "-" + aboveSpan + "-01", "", true},
		"not sampled":       {"00-" + aboveTrace + "-" + aboveSpan + "-00", "", true},
		"with a state":      {"00-" + aboveTrace + "-" + aboveSpan + "-01", "vendor=x", true},
		"with a bad state":  {"00-" + aboveTrace + "-" + aboveSpan + "-01", "=,,=", true},
		"of a later time":   {"01-" + aboveTrace + "-" + aboveSpan + "-01-more", "", true},
		"words":             {"see the dashboard", "", false},
		"capitals":          {"00-" + strings.ToUpper(aboveTrace) + "-" + aboveSpan + "-01", "", false},
		"no trace":          {"00-00000000000000000000000000000000-" + aboveSpan + "-01", "", false},
		"no span":           {"00-" + aboveTrace + "-0000000000000000-01", "", false},
		"cut off":           {"00-" + aboveTrace + "-b7ad", "", false},
		"a forbidden flaw":  {"ff-" + aboveTrace + "-" + aboveSpan + "-01", "", false},
		"lines of a prompt": {"x\n\x1b[2Jy" + strings.Repeat("z", 1000), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(settings.ParentVariable, c.text)
			t.Setenv("TRACESTATE", c.state)
			j, log := logged(t, exportAll)
			started(t)(j.cb.OnAppStart(j.ctx))
			check(t, j.cb.OnAppEnd(j.ctx))
			app := j.stub(t, "application")
			switch {
			case c.good && (app.Parent.SpanID().String() != aboveSpan || app.SpanContext.TraceID().String() != aboveTrace || !app.Parent.IsRemote()):
				t.Errorf("application is %v below %v, want below %s of trace %s, a remote parent", app.SpanContext, app.Parent, aboveSpan, aboveTrace)
			case !c.good && app.Parent.IsValid():
				t.Errorf("application has parent %v, want none", app.Parent)
			}
			if c.state == "vendor=x" && app.Parent.TraceState().Get("vendor") != "x" {
				t.Errorf("trace state is %q, want vendor=x", app.Parent.TraceState())
			}
			lines := strings.Count(log.String(), "TRACEPARENT is ignored")
			if wrong := !c.good && strings.TrimSpace(c.text) != ""; (lines == 1) != wrong || lines > 1 || len(log.String()) > 500 || strings.Contains(log.String(), "\x1b") {
				t.Errorf("log is %q, want one short line for a wrong value, none otherwise", log)
			}
		})
	}
}

// However a span is started, it is a child of the environment's span unless it
// has another parent; the same holds for what an exporter gets if spans are
// left out. The trace file has the same roots as without the variable.
func TestAllSpansAreBelowTheVariable(t *testing.T) {
	t.Setenv(settings.ParentVariable, "00-"+aboveTrace+"-"+aboveSpan+"-01")
	sent := tracetest.NewInMemoryExporter()
	path := filepath.Join(t.TempDir(), "trace.pfw")
	j := newJob(t, exportAll, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanExporter(kept{sent}, config.Export{Mode: config.Blacklist, SpanNames: []string{"application"}}).
			WithExporter(pfw.New(path, nil))
	})
	_, alone := j.tel.StartSpan(j.ctx, "alone")
	alone.End()
	_, plain := j.tel.Tracer("x").Start(j.ctx, "plain")
	plain.End()
	_, root := j.tel.Tracer("x").Start(j.ctx, "root", trace.WithNewRoot())
	root.End()
	ai.NewTree(j.tel).Compute.Forward.Start(j.ctx).End()
	other := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1, Remote: true})
	_, request := j.tel.StartSpan(trace.ContextWithRemoteSpanContext(j.ctx, other), "request")
	request.End()
	started(t)(j.cb.OnAppStart(j.ctx))
	started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	check(t, j.tel.Shutdown(context.Background()))
	dftest.Check(t, path)
	above := map[string]string{}
	for _, s := range sent.GetSpans() {
		above[s.Name] = s.Parent.SpanID().String()
		if own := s.SpanContext.TraceID().String() == aboveTrace; own != (s.Name != "root" && s.Name != "request") {
			t.Errorf("%s is in trace %s, want %s except for root and request", s.Name, s.SpanContext.TraceID(), aboveTrace)
		}
	}
	const none = "0000000000000000"
	for name, want := range map[string]string{
		"alone": aboveSpan, "plain": aboveSpan, "root": none, "request": other.SpanID().String(), "compute.forward": aboveSpan,
		"training_loop": aboveSpan, // the application is left out
	} {
		if above[name] != want {
			t.Errorf("%s hangs under %q, want %s", name, above[name], want)
		}
	}
}

// The builder's parent takes precedence over the variable, even if it is
// invalid.
func TestWithParent(t *testing.T) {
	t.Setenv(settings.ParentVariable, "nonsense")
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{3}, SpanID: trace.SpanID{4}})
	for _, sc := range []trace.SpanContext{own, {}} {
		j, log := logged(t, exportAll, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithParent(sc) })
		started(t)(j.cb.OnAppStart(j.ctx))
		check(t, j.cb.OnAppEnd(j.ctx))
		if got := j.stub(t, "application").Parent.SpanID(); got != sc.SpanID() || strings.Contains(log.String(), "TRACEPARENT") {
			t.Errorf("it hangs under %v, want %v; the log is %q", got, sc.SpanID(), log)
		}
	}
}

// After a callback below a span of another process, callbacks without a context are below
// what is open again.
func TestCallbacksAfterARequest(t *testing.T) {
	j := newJob(t, exportAll)
	started(t)(j.cb.OnAppStart(j.ctx))
	loop := started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1, Remote: true})
	_, custom := j.tel.StartSpan(j.ctx, "custom") // open, but callbacks are not below it
	for range 2 {
		request := trace.ContextWithRemoteSpanContext(j.ctx, remote)
		started(t)(j.cb.OnTrainingSingleIterationStart(request))
		if got := j.tel.Recorder().Current(); got.Name() != spans.TrainingIteration {
			t.Errorf("the current span is %q, want the iteration", got.Name())
		}
		j.clock.pass(time.Second)
		check(t, j.cb.OnTrainingSingleIterationEnd(request))
		if got := j.tel.Recorder().Current(); got != telemetry.FromContext(loop) {
			t.Errorf("the current span is %q, want the loop", got.Name())
		}
	}
	custom.End()
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
}
