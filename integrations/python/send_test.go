package python_test

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	oteltrace "go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// TestSendsCallbacks checks that one-logger's callbacks send over OTLP what
// those of a Go program send: standard names, without single iterations,
// nested, each once.
func TestSendsCallbacks(t *testing.T) {
	b := newBackend(t)
	st := drained(t, pyring.Options{Config: b.config(config.Export{})}, []string{"RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "TRAINSPAN_JOB=j"}, filepath.Join("testdata", "one_logger.py"))
	compare(t, b.paths(t), map[string]int{
		"application": 1, "application > model_initialization": 1, "application > training_loop": 1, "application > training_loop > custom": 5,
		"application > training_loop > checkpoint_save_sync": 1, "application > training_loop > validation_loop": 1,
	})
	for _, s := range b.all() {
		for key, want := range map[string]string{
			"service.name": "job", "training.rank": "1", "training.local_rank": "1", "training.world_size": "2", "training.session_tag": "tag", "training.perf_tag": "p",
		} {
			if s.resource[key] != want {
				t.Errorf("%s: %s is %q, want %q", s.GetName(), key, s.resource[key], want)
			}
		}
		if s.GetName() == "training_loop" && s.attrs["train_iterations_start"] != "10" || s.GetName() == "custom" && s.attrs["a"] != "1" {
			t.Errorf("%s has %v, want train_iterations_start 10 in the loop, a 1 in custom", s.GetName(), s.attrs)
		}
	}
	if b.requests["/v1/logs"] == 0 || b.requests["/v1/metrics"] == 0 {
		t.Errorf("requests %v, want logs and metrics", b.requests)
	}
	if st.Delivery.Sent != 10 || st.Delivery.Spans != 10 || st.Delivery.Lost != 0 || st.Calls == 0 {
		t.Errorf("stats %+v, want 10 spans sent, none lost, and some calls", st)
	}
}

// TestSendsAllOfCallbacks checks the same if everything is exported: the spans
// of the trace.
func TestSendsAllOfCallbacks(t *testing.T) {
	b, export := newBackend(t), config.Export{Mode: config.ExportAll}
	st := drained(t, pyring.Options{Config: b.config(export)}, nil, filepath.Join("testdata", "one_logger.py"))
	compare(t, b.paths(t), traced(t, traces0(st), export))
	if n := int64(len(b.all())); n == 0 || st.Delivery.Sent != n {
		t.Errorf("backend got %d spans, want as many as sent: %+v", n, st)
	}
}

// nested is a program with spans of every kind: of threads and tasks, switched
// off, failed, dropped, crossed, and with names that are sent under other
// names.
const nested = `
import threading
from trainspan.dftracer import ai, dft_fn
io = dft_fn("io")
def work(n):
    for i in range(n):
        with ai.compute.forward:
            with dft_fn("math", "matmul"):
                pass
@ai
def main():
    with ai.pipeline.train:
        for epoch in range(2):
            with dft_fn("pipeline", "epoch.block"):
                for step in range(80):
                    ai.update(epoch=epoch, step=step)
                    with dft_fn("pipeline", "train.iteration"):
                        work(1)
                        with ai.comm.all_reduce:
                            pass
                with ai.checkpoint.capture:
                    with dft_fn("io", "write"):
                        pass
        a, b = dft_fn("x", "a"), dft_fn("x", "b")
        a.__enter__(); b.__enter__()
        with dft_fn("telemetry", "mine"):
            pass
        b.__exit__(None, None, None); a.__exit__(None, None, None)
        try:
            with ai.data.preprocess:
                raise ValueError
        except ValueError:
            pass
    t = threading.Thread(target=work, args=(3,)); t.start(); t.join()
main()
`

// TestSendsWhatTheTraceHas checks that the sent spans are those of the trace,
// each below its nearest sent ancestor, for any customization.
func TestSendsWhatTheTraceHas(t *testing.T) {
	for name, c := range map[string]struct {
		export config.Export
		spans  int64
	}{
		"default":    {config.Export{}, 7},
		"everything": {config.Export{Mode: config.ExportAll}, 1 + 1 + 2*(1+80*4+2) + 3 + 1 + 6},
		"whitelist":  {config.Export{Mode: config.Whitelist, SpanNames: []string{"compute.forward", "training_loop", "math.matmul"}}, 1 + 2*163},
		"inner only": {config.Export{Mode: config.Whitelist, SpanNames: []string{"matmul", "write"}}, 163 + 2},
		"blacklist":  {config.Export{Mode: config.Blacklist, SpanNames: []string{"epoch", "x.b", "math.matmul"}}, 1 + 1 + 2*(80*3+2) + 2 + 1 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			st := drained(t, pyring.Options{Config: b.config(c.export)}, nil, nested)
			compare(t, b.paths(t), traced(t, st, c.export))
			if n := int64(len(b.all())); n != c.spans || st.Delivery.Sent != n || st.Delivery.Lost != 0 {
				t.Errorf("%d spans, want %d; %+v", n, c.spans, st)
			}
			if b.requests["/v1/metrics"] > 0 {
				t.Errorf("%d requests with metrics, want none with OTEL_METRICS_EXPORTER=none", b.requests["/v1/metrics"])
			}
			for _, s := range b.all() {
				switch failed := s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR; {
				case failed != (s.GetName() == "data.preprocess"):
					t.Errorf("%s has status %v, want an error only in data.preprocess", s.GetName(), s.GetStatus())
				case s.GetName() == "math.matmul" && (s.attrs["dftracer.cat"] != "math" || s.attrs["dftracer.name"] != "matmul"):
					t.Errorf("%s has %v, want the names of DFTracer: math, matmul", s.GetName(), s.attrs)
				case s.GetName() == "checkpoint_save_sync" && (s.attrs["step"] != "79" || s.attrs["epoch"] == ""):
					t.Errorf("%s has %v, want step 79 and an epoch", s.GetName(), s.attrs)
				}
			}
		})
	}
}

// TestSendsNothing checks that an unreachable backend loses only what would
// have been sent there: the files are the same as without it, and the counts
// have the loss. Without a configuration nothing is sent; an invalid
// configuration is reported and does not change the files.
func TestSendsNothing(t *testing.T) {
	b := newBackend(t)
	away := func(code config.Config) (config.Config, error) {
		code.Outputs.OTLP = config.OTLP{Endpoint: "http://127.0.0.1:1", Headers: config.Headers{"x-key": "hunter2"}}
		return code, nil
	}
	files := make(map[string][]string)
	for name, c := range map[string]struct {
		config func(config.Config) (config.Config, error)
		lost   int64
		log    string
	}{
		"without":   {nil, 0, ""},
		"no output": {func(code config.Config) (config.Config, error) { return code, nil }, 0, ""},
		"away":      {away, 10, ""},
		"unreadable": {func(config.Config) (config.Config, error) {
			return config.Config{}, fmt.Errorf("job.yaml: no such file")
		}, 0, "job.yaml: no such file"},
		"unfit list": {func(code config.Config) (config.Config, error) {
			code.Export.Mode, code.Outputs.OTLP.Endpoint = config.Whitelist, "http://127.0.0.1:1"
			return code, nil
		}, 0, "export.span_names"},
		"unfit": {func(code config.Config) (config.Config, error) {
			code.Outputs.OTLP = config.OTLP{Endpoint: "https://user:hunter2@x"}
			return code, nil
		}, 0, "must not contain a user name"},
	} {
		var log lockedLog
		st := drained(t, pyring.Options{Config: c.config, Log: slog.New(slog.NewTextHandler(&log, nil))}, nil, filepath.Join("testdata", "one_logger.py"))
		if st.Delivery.Lost != c.lost || st.Delivery.Sent != 0 || st.Spans == 0 {
			t.Errorf("%s: %+v, want %d lost, none sent", name, st, c.lost)
		}
		if text := log.String(); !strings.Contains(text, c.log) || c.log == "" && text != "" || strings.Contains(text, "hunter2") {
			t.Errorf("%s: the log is %q, want %q and no password", name, text, c.log)
		}
		for path, n := range traced(t, traces0(st), config.Export{Mode: config.ExportAll}) {
			files[name] = append(files[name], fmt.Sprint(n, " ", path))
		}
		lines, err := os.ReadFile(st.Files[1])
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			if !strings.Contains(line, "telemetry_data_error") { // it reports that something was not sent
				files[name] = append(files[name], line[:min(strings.Index(line, `"name"`)+30, len(line))])
			}
		}
		slices.Sort(files[name])
	}
	for name, list := range files {
		if len(list) == 0 || len(list) != len(files["without"]) {
			t.Errorf("%s: %d lines, want %d as without it:\n%s\n\n%s", name, len(list), len(files["without"]), strings.Join(list, "\n"), strings.Join(files["without"], "\n"))
		}
	}
	if len(b.requests) > 0 {
		t.Errorf("requests %v, want none", b.requests)
	}
}

// TestSendsBelowAParent checks that spans without a parent are children of the
// span that the job belongs to.
func TestSendsBelowAParent(t *testing.T) {
	parent := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{1}, SpanID: oteltrace.SpanID{2}, TraceFlags: 1, Remote: true})
	for _, program := range []string{nested, filepath.Join("testdata", "one_logger.py")} {
		b := newBackend(t)
		drained(t, pyring.Options{Config: b.config(config.Export{Mode: config.ExportAll}), Parent: parent}, nil, program)
		for path := range maps.Keys(b.paths(t)) {
			if !strings.HasPrefix(path, parent.SpanID().String()+" > ") {
				t.Errorf("path %s, want it below the given parent", path)
			}
		}
		for _, s := range b.all() {
			if hex.EncodeToString(s.GetTraceId()) != parent.TraceID().String() {
				t.Errorf("%s is in trace %x, want %s", s.GetName(), s.GetTraceId(), parent.TraceID())
			}
		}
		if len(b.all()) == 0 {
			t.Error("no span was sent, want some")
		}
	}
}
