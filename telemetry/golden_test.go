package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestGolden replays recorded runs of one-logger through the public API and
// compares what is written, record for record. ONE_LOGGER_GOLDEN is a list of
// folders with scenarios, separated as in PATH; testdata/golden has some.
//
// A record may differ only if one of the rules in golden_rules_test.go allows
// it: each stands for a difference in docs/explain/differences.md, and defines
// which fields it changes and how.
func TestGolden(t *testing.T) {
	for _, dir := range scenarios(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) { golden(t, dir, nil) })
		t.Run(filepath.Base(dir)+" with a backend", func(t *testing.T) { golden(t, dir, kept{tracetest.NewInMemoryExporter()}) })
		t.Run(filepath.Base(dir)+" with a backend that fails to close", func(t *testing.T) {
			golden(t, dir, failsToClose{tracetest.NewInMemoryExporter()})
		})
	}
}

// scenarios returns the folders of the recorded runs.
func scenarios(t *testing.T) (dirs []string) {
	roots := []string{"testdata/golden"}
	if only := os.Getenv("ONE_LOGGER_ONLY"); only != "" {
		roots = []string{only}
	} else if shared := "../../shared/golden/one-logger"; exists(shared) {
		roots = append(roots, shared)
	} else {
		t.Logf("%s is absent: only the scenarios of testdata are replayed", shared)
	}
	for _, root := range filepath.SplitList(os.Getenv("ONE_LOGGER_GOLDEN")) {
		if !exists(root) && exists(filepath.Join("..", root)) {
			root = filepath.Join("..", root) // relative to the module, where go test is called
		}
		roots = append(roots, root)
	}
	seen := map[string]bool{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.Name() != "scenario.json" {
				return err
			}
			dir := filepath.Dir(path)
			abs, err := filepath.Abs(dir)
			if err == nil && !seen[abs] {
				seen[abs], dirs = true, append(dirs, dir)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
	if len(dirs) == 0 {
		t.Error("no scenario was found")
	}
	t.Logf("%d scenarios", len(dirs))
	return dirs
}

// failsToClose is an exporter that fails to close, which must never be the
// result of a callback.
type failsToClose struct{ *tracetest.InMemoryExporter }

func (failsToClose) Shutdown(context.Context) error { return errors.New("the connection is gone") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// golden replays one scenario. A backend that accepts all spans changes when
// the file is closed, but not its contents.
func golden(t *testing.T, dir string, backend sdktrace.SpanExporter) {
	s, want, err := loadScenario(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := newReplay(t, s)
	if backend != nil {
		r.builder.WithSpanExporter(backend)
	}
	r.run()
	c := &comparison{results: r.results, path: r.written()}
	if r.tel != nil {
		for _, h := range r.tel.Stats().Outputs {
			c.states = append(c.states, exporterState{
				NumErrors: int(h.Failures), AnyDataExportedSuccessfully: h.Delivered, ForceDisabled: h.GivenUp, TelemetryDataErrorReported: h.DataErrorReported,
			})
		}
		c.configured = true
	}
	c.compare(t, dir, s, want)
}

// compare compares a replay with its recording in a folder.
func (c *comparison) compare(t *testing.T, dir string, s *scenario, want *recording) {
	c.t, c.s, c.want, c.facts, c.used = t, s, want, factsOf(s, want), map[string]int{}
	c.steps()
	c.records(filepath.Join(dir, "golden.norm.jsonl"))
	c.final()
	for name, n := range c.used {
		t.Logf("difference %q explains %d deviations", name, n)
	}
}

// comparison compares a replay with its recording.
type comparison struct {
	results    []result
	path       string // of the written file
	states     []exporterState
	configured bool // there is something that has states

	t     *testing.T
	s     *scenario
	want  *recording
	facts facts
	used  map[string]int
}

// deviates reports a deviation unless a rule explains it.
func (c *comparison) deviates(d deviation) bool {
	c.t.Helper()
	for _, rule := range rules {
		if rule.applies(&c.facts, &d) {
			c.used[rule.name]++
			return true
		}
	}
	c.t.Errorf("%s", d)
	return false
}

// steps compares the results of the steps.
func (c *comparison) steps() {
	if len(c.want.Steps) != len(c.results) {
		c.t.Fatalf("%d steps were made, %d are recorded", len(c.results), len(c.want.Steps))
	}
	behind := 0 // lines that explained deviations added or removed so far
	for i, w := range c.want.Steps {
		got := c.results[i]
		if w.Call != got.call {
			c.t.Fatalf("step %d is %s, recorded is %s", i, got.call, w.Call)
		}
		d := deviation{step: i, outcome: &w, result: &got}
		if raised := w.Outcome == "raised"; raised != (got.err != nil) {
			d.field, d.want, d.got = "outcome", w.Outcome+" "+w.ErrorMessage, fmt.Sprint(got.err)
			c.deviates(d)
		}
		if returned, ok := w.Returned.(map[string]any); ok && returned["span"] != nil && got.err == nil {
			d.field, d.want, d.got = "returned span", fmt.Sprint(returned["span"], " under ", returned["parent"]), "none"
			if got.span != "" {
				d.got = got.span
			}
			if d.got != d.want {
				c.deviates(d)
			}
		}
		if got.lines-w.FileLinesAfter != behind {
			d.field, d.want, d.got = "lines in the file", fmt.Sprint(w.FileLinesAfter+behind), fmt.Sprint(got.lines)
			if c.deviates(d) {
				behind = got.lines - w.FileLinesAfter
			}
		}
	}
}

// final compares the state at the end.
func (c *comparison) final() {
	if c.want.Final.ExporterStates == nil || !c.configured {
		return
	}
	if len(c.states) != len(c.want.Final.ExporterStates) {
		c.deviates(deviation{field: "exporters", want: fmt.Sprint(len(c.want.Final.ExporterStates)), got: fmt.Sprint(len(c.states))})
		return
	}
	for i, w := range c.want.Final.ExporterStates {
		h := c.states[i]
		for _, f := range []struct{ name, want, got string }{
			{"num_errors", fmt.Sprint(w.NumErrors), fmt.Sprint(h.NumErrors)},
			{"any_data_exported_successfully", fmt.Sprint(w.AnyDataExportedSuccessfully), fmt.Sprint(h.AnyDataExportedSuccessfully)},
			{"force_disabled", fmt.Sprint(w.ForceDisabled), fmt.Sprint(h.ForceDisabled)},
			{"telemetry_data_error_reported", fmt.Sprint(w.TelemetryDataErrorReported), fmt.Sprint(h.TelemetryDataErrorReported)},
		} {
			if f.want != f.got {
				c.deviates(deviation{field: "exporter state " + f.name, want: f.want, got: f.got})
			}
		}
	}
}

// records compares the files.
func (c *comparison) records(path string) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		if got, _ := os.ReadFile(c.path); len(got) > 0 {
			for _, rec := range parseRecords(c.t, normalize(string(got))) {
				c.deviates(deviation{got: rec.text, actual: rec, field: "record"})
			}
		}
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	got, err := os.ReadFile(c.path)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	want := parseRecords(c.t, normalize(string(text)))
	have := parseRecords(c.t, normalize(string(got)))
	ids := map[string]string{}
	shift := 0
	for _, p := range align(want, have) {
		switch {
		case p.want == nil:
			shift++
			c.deviates(deviation{field: "record", got: p.got.text, actual: p.got})
		case p.got == nil:
			shift--
			c.deviates(deviation{field: "record", want: p.want.text, golden: p.want})
		default:
			c.fields(p.want, p.got, ids, shift)
		}
	}
}

// fields compares two records of the same kind, field by field in their order.
func (c *comparison) fields(want, got *record, ids map[string]string, shift int) {
	keys := map[string]string{}
	for _, f := range got.fields {
		keys[f.path] = f.text
	}
	var order []string
	for _, f := range want.fields {
		text, ok := keys[f.path]
		delete(keys, f.path)
		d := deviation{golden: want, actual: got, field: f.path, want: f.text, got: text}
		switch {
		case !ok:
			d.got = "absent"
			c.deviates(d)
			continue
		case f.path == "id" || f.path == "span_id":
			if known, ok := ids[f.text]; !ok {
				ids[f.text] = text
			} else if known != text {
				c.deviates(d)
			}
		case f.path == "count":
			if fmt.Sprint(want.count+shift) != text {
				c.deviates(d)
			}
		case f.text != text:
			c.deviates(d)
		}
		order = append(order, f.path)
	}
	var have []string
	for _, f := range got.fields {
		if text, extra := keys[f.path]; extra {
			c.deviates(deviation{golden: want, actual: got, field: f.path, want: "absent", got: text})
			continue
		}
		have = append(have, f.path)
	}
	if strings.Join(order, " ") != strings.Join(have, " ") {
		c.t.Errorf("fields in the order\n%s\nwant\n%s\nin %s", have, order, got.text)
	}
}

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	traces = regexp.MustCompile(`"exception_traceback":"(?:[^"\\]|\\.)*"`)
)

// normalize replaces span ids by the order of their appearance, and stacks.
func normalize(text string) string {
	names := map[string]string{}
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("span-%d", len(names)+1)
		}
		return names[id]
	})
	return traces.ReplaceAllString(text, `"exception_traceback":"<traceback>"`)
}
