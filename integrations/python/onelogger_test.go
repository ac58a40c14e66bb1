package python_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// configured is the start of a program with one-logger's API; the text between
// the marks goes into its configuration.
const configured = `
import logging
from trainspan.onelogger import *
logging.disable()
provider = TrainingTelemetryProvider.instance()
provider.with_base_config(OneLoggerConfig(application_name="a", session_tag_or_fn=lambda: "tag", world_size_or_fn=1,
    telemetry_config=TrainingTelemetryConfig(perf_tag_or_fn="p", log_every_n_train_iterations=2, global_batch_size_or_fn=BATCH)))
`

// line is a record of the JSON lines.
type line struct {
	Type       string         `json:"type"`
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
	Event      struct {
		Name       string         `json:"name"`
		Attributes map[string]any `json:"attributes"`
	} `json:"event"`
}

// oneLogger runs a program, and returns its JSON lines and the records of its
// trace.
func oneLogger(t *testing.T, batch, program string) (lines []line, trace []record) {
	t.Helper()
	rings := t.TempDir()
	cmd := pyrun.Command(t, rings, strings.Replace(configured, "BATCH", batch, 1)+program)
	cmd.Dir = t.TempDir()
	pyrun.Output(t, cmd)
	st, traces := importRings(t, pyring.Options{Trace: &dftracer.Options{Compression: dftracer.CompressNone}, Attempt: -1}, rings)
	for _, f := range st.Files {
		if !strings.HasSuffix(f, ".jsonl") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			var r line
			if err := json.Unmarshal([]byte(l), &r); err != nil {
				t.Fatalf("line %s is not JSON: %v", l, err)
			}
			lines = append(lines, r)
		}
	}
	data, err := os.ReadFile(traces[0])
	if err != nil {
		t.Fatal(err)
	}
	trace, _ = parse(t, data)
	return lines, trace
}

// ended returns the end records of spans with a name.
func ended(lines []line, name string) (found []line) {
	for _, l := range lines {
		if l.Name == name && (l.Type == "stop" || l.Type == "complete") {
			found = append(found, l)
		}
	}
	return found
}

func happened(lines []line, name string) (found []line) {
	for _, l := range lines {
		if l.Event.Name == name {
			found = append(found, l)
		}
	}
	return found
}

// TestOneLoggerLongConfiguration checks that a configuration that is too long
// for the ring buffer is shortened, not lost.
func TestOneLoggerLongConfiguration(t *testing.T) {
	for _, metadata := range []string{`{"config": "x" * 100_000}`, `{"config": "\u00fc" * 100_000, "scale": float("inf")}`, `{"k%d" % i: "\u00fc" * 1000 for i in range(1000)}`} {
		lines, _ := oneLogger(t, "8", `
base = provider._base.model_copy({"custom_metadata": `+metadata+`})
provider._base = base
provider.configure_provider()
with application(), training_loop(train_iterations_start=0):
    for _ in range(4):
        with training_iteration():
            pass
`)
		if u := happened(lines, "training_metrics_update"); len(u) == 0 {
			t.Errorf("%s: no metrics of the training", metadata)
		}
		if i := happened(lines, "one_logger_initialization"); len(i) != 1 || len(fmt.Sprint(i[0].Event.Attributes["custom_metadata"])) < 1000 {
			t.Errorf("%s: events %.200v, want one with metadata", metadata, i)
		}
	}
}

// TestOneLoggerFork checks that a process that was forked after the
// configuration has its own metrics.
func TestOneLoggerFork(t *testing.T) {
	lines, _ := oneLogger(t, "lambda: 8", `
import os
provider.configure_provider()
on_app_start()
if os.fork() == 0:
    on_train_start(train_iterations_start=0)
    for _ in range(4):
        with training_iteration():
            pass
    on_train_end()
    os._exit(0)
os.wait()
on_app_end()
`)
	u := happened(lines, "training_metrics_update")
	if len(u) == 0 || u[len(u)-1].Event.Attributes["num_train_samples"] != 32.0 {
		t.Errorf("metrics %v, want those of 32 samples", u)
	}
	if l := ended(lines, "training_loop"); len(l) != 1 {
		t.Errorf("records of training_loop %v, want one", l)
	}
}

// TestOneLoggerSpans checks that the spans of a program are in the JSON lines,
// and their attributes in the trace.
func TestOneLoggerSpans(t *testing.T) {
	lines, trace := oneLogger(t, "8", `
provider.configure_provider()
with application() as app, training_loop(train_iterations_start=5) as loop:
    loop.add_attribute("late", [1, 2])
    with training_iteration() as it:
        it.add_attribute("loss", 0.5)
        with timed_span("own", Attributes({"k": "v", "big": 1 << 70}), {"why": "cold"}) as own:
            own.add_attribute("late", True)
            provider.recorder.event(own, Event.create("happened", Attributes({"n": 1})))
    span = provider.recorder.start("by_hand", parent_span=app)
    provider.recorder.error(span, "bad", ValueError("no"))
    provider.recorder.stop(span, Attributes({"rows": 3}))
    try:
        with training_iteration():
            raise KeyError("x")
    except KeyError:
        pass
    with training_iteration():
        pass
`)
	own := ended(lines, "own")
	if len(own) != 1 || own[0].Attributes["k"] != "v" || own[0].Attributes["late"] != true || own[0].Attributes["big"] != float64(1<<70) {
		t.Errorf("own records %v, want one with k, late and big", own)
	}
	if l := ended(lines, "training_loop"); len(l) != 1 || len(l[0].Attributes["late"].([]any)) != 2 {
		t.Errorf("records of training_loop %v, want one with a list of two in late", l)
	}
	if e := happened(lines, "happened"); len(e) != 1 || e[0].Event.Attributes["n"] != 1.0 {
		t.Errorf("events %v, want one with n 1", e)
	}
	errors := happened(lines, "error")
	if i := slices.IndexFunc(errors, func(l line) bool { return l.Event.Attributes["error_message"] == "bad" }); i < 0 ||
		errors[i].Event.Attributes["exception_type"] != "ValueError" || !strings.Contains(errors[i].Event.Attributes["exception_traceback"].(string), "ValueError: no") {
		t.Errorf(`errors %v, want "bad" with ValueError and its traceback`, errors)
	}
	if u := happened(lines, "training_metrics_update"); len(u) == 0 || u[0].Event.Attributes["current_iteration"] != 5.0 || u[0].Event.Attributes["failed_iterations"] != nil {
		t.Errorf("update after iteration 5 is %v, want current_iteration 5 and no failed_iterations", u)
	}
	want := map[string]func(map[string]any) bool{
		"own":             func(a map[string]any) bool { return a["late"] != nil },
		"train":           func(a map[string]any) bool { return a["late"] != nil },
		"train.iteration": func(a map[string]any) bool { return a["loss"] == 0.5 && a["step"] == 5.0 },
	}
	for name, holds := range want {
		if !slices.ContainsFunc(trace, func(r record) bool { return r.Name == name && holds(r.Args) }) {
			t.Errorf("the trace has no %s with its attributes", name)
		}
	}
}

// TestOneLoggerSecrets checks that no output has a secret of an exception's
// text.
func TestOneLoggerSecrets(t *testing.T) {
	rings := t.TempDir()
	cmd := pyrun.Command(t, rings, strings.Replace(configured, "BATCH", "8", 1)+`
provider.configure_provider()
def fails(context):
    try:
        with context:
            raise RuntimeError("no answer of https://u:hunter2@host")
    except RuntimeError:
        pass
with application() as app, training_loop(train_iterations_start=0):
    fails(training_iteration())
    fails(checkpoint_save(global_step=1))
    fails(timed_span("own"))
    span = provider.recorder.start("by_hand", parent_span=app)
    provider.recorder.error(span, "bad", ValueError("password=hunter2"))
    provider.recorder.stop(span)
`)
	cmd.Dir = t.TempDir()
	pyrun.Output(t, cmd)
	st, _ := importRings(t, pyring.Options{Trace: &dftracer.Options{Compression: dftracer.CompressNone}, Attempt: -1}, rings)
	for _, f := range st.Files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "no answer of") {
			t.Errorf("%s has no text of the exceptions", filepath.Base(f))
		}
		for l := range strings.Lines(string(text)) {
			if strings.Contains(l, "hunter2") {
				t.Errorf("%s has a secret: %s", filepath.Base(f), l)
			}
		}
	}
}

// TestOneLoggerFunctions checks that functions of the configuration are called
// when their value is needed, and that their result is recorded.
func TestOneLoggerFunctions(t *testing.T) {
	lines, _ := oneLogger(t, "lambda: globals().get('size', 8)", `
provider.configure_provider()
with application(), training_loop(train_iterations_start=0):
    for size in (8, 8, 16, 32):
        with training_iteration():
            pass
`)
	var samples []any
	for _, u := range happened(lines, "training_metrics_update") {
		samples = append(samples, u.Event.Attributes["num_train_samples"])
	}
	if !slices.Equal(samples, []any{16.0, 64.0}) {
		t.Errorf("samples %v, want [16.0 64.0]", samples)
	}
	if i := happened(lines, "one_logger_initialization"); len(i) != 1 || i[0].Event.Attributes["session_tag"] != "tag" {
		t.Errorf("events %v, want one with session_tag tag", i)
	}
}

// TestOneLoggerCustomization checks that the program's export customization
// applies to the JSON lines.
func TestOneLoggerCustomization(t *testing.T) {
	body := `
with application(), training_loop(train_iterations_start=0):
    for _ in range(4):
        with training_iteration(), timed_span("own"):
            pass
`
	for how, want := range map[string][]string{
		"provider.configure_provider()": {"application", "own", "training_loop", "training_single_iteration"},
		"provider.with_export_customization(ExportCustomizationMode.WHITELIST_SPANS, ['own', 'application']).configure_provider()": {"application", "own"},
		"provider.with_export_customization(ExportCustomizationMode.BLACKLIST_SPANS, ['own']).configure_provider()": {
			"application", "training_loop", "training_single_iteration",
		},
		"provider.with_export_customization(ExportCustomizationMode.BLACKLIST_SPANS, None).configure_provider()": {"application", "own", "training_loop"},
	} {
		lines, trace := oneLogger(t, "8", how+body)
		seen := map[string]bool{}
		for _, l := range lines {
			if l.Name != "" {
				seen[l.Name] = true
			}
		}
		var got []string
		for name := range seen {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", how, got, want)
		}
		iterations := 0
		for _, r := range trace {
			if r.Name == "train.iteration" {
				iterations++
			}
		}
		if iterations != 4 {
			t.Errorf("%s: %d iterations in the trace, which has all, want 4", how, iterations)
		}
	}
}

// TestOneLoggerCustomizationSends checks that it applies to sent data, too.
func TestOneLoggerCustomizationSends(t *testing.T) {
	b := newBackend(t)
	program := filepath.Join(t.TempDir(), "p.py")
	text := strings.Replace(configured, "BATCH", "8", 1) + `
provider.with_export_customization(ExportCustomizationMode.WHITELIST_SPANS, ["own", "application"]).configure_provider()
with application(), training_loop(train_iterations_start=0), timed_span("own"):
    pass
`
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	drained(t, pyring.Options{Config: b.config(config.Export{})}, nil, program)
	compare(t, b.paths(t), map[string]int{"application": 1, "application > own": 1})
}

// TestOneLoggerGuides checks that the programs of the getting-started guide
// run, and that the first number is in its range.
func TestOneLoggerGuides(t *testing.T) {
	for _, name := range []string{"onelogger_contexts.py", "onelogger_callbacks.py"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "guides", name))
			if err != nil {
				t.Skip(err)
			}
			rings := t.TempDir()
			cmd := pyrun.Command(t, rings, strings.ReplaceAll(string(text), "from one_logger.", "from trainspan.onelogger."))
			cmd.Dir = t.TempDir()
			if out := pyrun.Output(t, cmd); !strings.HasPrefix(out, "done ") || out == "done 0\n" {
				t.Errorf("program printed %q, want done and a number above 0", out)
			}
			_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
			set, err := job.Open(traces...)
			if err != nil {
				t.Fatal(err)
			}
			accounts, err := account.Collect(set)
			if err != nil || len(accounts) != 1 {
				t.Fatalf("%d jobs, want 1: %v", len(accounts), err)
			}
			rep := accounts[0].Ledger.Report(account.Query{})
			if rep.Iterations.Kept != 30 {
				t.Errorf("%d iterations, want 30", rep.Iterations.Kept)
			}
		})
	}
}
