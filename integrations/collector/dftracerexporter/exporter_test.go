package dftracerexporter

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// iteration returns a training iteration in the order in which its spans end.
func iteration(first byte, parent byte, start int64) []testSpan {
	return []testSpan{
		{id: first + 1, parent: first, name: "data_loading", start: start + 1, end: start + 10},
		{id: first + 2, parent: first, name: "model_forward", start: start + 10, end: start + 40},
		{id: first + 3, parent: first, name: "model_backward", start: start + 40, end: start + 90},
		{id: first, parent: parent, name: "training_single_iteration", start: start, end: start + 100, attrs: map[string]any{"step": "7", "epoch": 2.0}},
	}
}

func TestOneBatch(t *testing.T) {
	r := start(t, nil)
	r.send(batch(42, append(iteration(10, 2, 20),
		testSpan{id: 2, parent: 1, name: "training_loop", start: 10, end: 200},
		testSpan{id: 1, name: "application", start: 0, end: 300})...))
	ev, report := r.finished()
	wantParent(t, ev, "train", "ai_root")
	wantParent(t, ev, "train.iteration", "train")
	wantParent(t, ev, "fetch.iter", "train.iteration")
	wantParent(t, ev, "forward", "train.iteration")
	wantParent(t, ev, "backward", "train.iteration")
	if report.Lanes != 1 {
		t.Errorf("%d lanes for one thread, want 1", report.Lanes)
	}
	fw := ev["forward"]
	if fw.Cat != "compute" || fw.PID != 42 || fw.TID != 42 || fw.TS != base+30 || fw.Dur != 30 {
		t.Errorf("forward is %+v, want compute on process and thread 42, 30 µs, 30 µs after the start", fw)
	}
	for key, want := range map[string]int64{"epoch": 2, "step": 7} {
		if a, ok := ev["train.iteration"].Arg(key); !ok || tracefile.KindOf(a) != tracefile.KindInt || a.Int64() != want {
			t.Errorf("%s is %v, want the integer %d", key, a.Text(), want)
		}
	}
	if _, value := ev["CM:service.name"].Meta(); value != "charlm" {
		t.Errorf("the resource says %q, want \"charlm\"", value)
	}
	if got := filepath.Base(r.files()[0]); got != "trace-3-node7-42.pfw.gz" {
		t.Errorf("file is %s, want \"trace-3-node7-42.pfw.gz\"", got)
	}
	if ev["PR"] == nil {
		t.Error("there is no record of the rank")
	}
}

// TestParentsInLaterBatches checks long spans that end long after their
// children: the exporter writes every batch before the next one arrives.
func TestParentsInLaterBatches(t *testing.T) {
	r := start(t, nil)
	for i := range 20 {
		r.send(batch(42, iteration(byte(10+4*i), 2, int64(20+200*i))...))
		r.settle()
	}
	r.send(batch(42, testSpan{id: 2, parent: 1, name: "training_loop", start: 10, end: 5000}))
	r.settle()
	r.send(batch(42, testSpan{id: 1, name: "application", start: 0, end: 6000}))
	ev, report := r.finished()
	wantParent(t, ev, "train", "ai_root")
	wantParent(t, ev, "train.iteration", "train")
	wantParent(t, ev, "forward", "train.iteration")
	if report.Lanes != 1 || report.Orphans != 0 {
		t.Errorf("%d lanes, %d orphans; want 1, 0", report.Lanes, report.Orphans)
	}
	if report.Events != 20*4+2+2 {
		t.Errorf("%d events, want %d", report.Events, 20*4+2+2)
	}
}

// TestChildrenInLaterBatches checks the worst order: parents before children,
// each in a separate batch.
func TestChildrenInLaterBatches(t *testing.T) {
	r := start(t, nil)
	all := append(iteration(10, 2, 20),
		testSpan{id: 2, parent: 1, name: "training_loop", start: 10, end: 200},
		testSpan{id: 1, name: "application", start: 0, end: 300})
	for i := len(all) - 1; i >= 0; i-- {
		r.send(batch(42, all[i]))
		r.settle()
	}
	ev, _ := r.finished()
	wantParent(t, ev, "train", "ai_root")
	wantParent(t, ev, "train.iteration", "train")
	wantParent(t, ev, "forward", "train.iteration")
}

func TestChildThatOutlivesItsParent(t *testing.T) {
	for name, apart := range map[string]bool{"one batch": false, "parent first": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, nil)
			r.send(batch(42,
				testSpan{id: 3, parent: 2, name: "checkpoint_save_sync", start: 10, end: 50},
				testSpan{id: 1, name: "application", start: 0, end: 300}))
			if apart {
				r.settle()
			}
			r.send(batch(42, testSpan{id: 4, parent: 3, name: "upload", start: 20, end: 90}))
			if apart {
				r.settle()
			}
			r.send(batch(42, testSpan{id: 2, parent: 1, name: "training_loop", start: 5, end: 100}))
			ev, _ := r.finished()
			wantParent(t, ev, "capture", "train")
			wantParent(t, ev, "upload", "train") // the shortest span that contains it
		})
	}
}

func TestRemoteParentIsNoParent(t *testing.T) {
	r := start(t, nil)
	r.send(batch(42,
		testSpan{id: 3, parent: 99, name: "serve", start: 0, end: 9, remote: true},
		testSpan{id: 4, parent: 98, name: "handle", start: 10, end: 19}))
	ev, _ := r.finished()
	if ev["serve"].Parent != dftracer.NoParent {
		t.Errorf("serve has parent %d, want %d", ev["serve"].Parent, dftracer.NoParent)
	}
	wantParent(t, ev, "handle", "unfinished")
	if a, ok := ev["unfinished"].Arg("truncated"); !ok || a.Int64() != 1 {
		t.Error("the parent that never came is not marked")
	}
	if ev["handle"].Cat != "torch" {
		t.Errorf("category is %s, want the last word of the scope", ev["handle"].Cat)
	}
}

func TestRepeatedBatch(t *testing.T) {
	r := start(t, nil)
	r.send(batch(42, iteration(10, 0, 0)...))
	r.send(batch(42, iteration(10, 0, 0)...))
	r.settle()
	r.send(batch(42, iteration(10, 0, 0)...))
	_, report := r.finished()
	if report.Events != 4+2 {
		t.Errorf("%d events, want four spans once", report.Events)
	}
	if got := r.counter("otelcol_dftracer_duplicate_spans"); got != 8 {
		t.Errorf("%d duplicates are counted, want 8", got)
	}
	if got := r.counter("otelcol_dftracer_spans_written"); got != 4 {
		t.Errorf("%d spans are counted, want 4", got)
	}
}

func TestEverythingOfASpan(t *testing.T) {
	r := start(t, func(c *Config) { c.TraceIDs = true })
	td := batch(42, testSpan{id: 5, name: "custom", start: 0, end: 100, attrs: map[string]any{
		"i": 7, "f": 2.5, "s": `q"\` + "\n", "b": true, "list": []any{1, "x"}, "map": map[string]any{"k": 1.5}, "bytes": []byte{1, 2},
		"dftracer.cat": "io", "dftracer.name": "renamed",
	}})
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Status().SetMessage("out of memory")
	s.Attributes().PutDouble("nan", math.NaN())
	s.Attributes().PutEmpty("empty")
	s.SetDroppedAttributesCount(1)
	s.SetDroppedEventsCount(2)
	s.SetDroppedLinksCount(3)
	l := s.Links().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{0xaa, 15: 1})
	l.SetSpanID(idOf(8))
	l.Attributes().PutStr("why", "segment")
	e := s.Events().AppendEmpty()
	e.SetName("checked")
	e.SetTimestamp(at(50))
	e.Attributes().PutInt("n", 3)
	e.Attributes().PutStr("name", "mine")
	r.send(td)
	ev, _ := r.finished()
	got := ev["renamed"]
	if got.Cat != "io" {
		t.Errorf("category %s, want \"io\"", got.Cat)
	}
	for key, want := range map[string]string{
		"i": "7", "f": "2.5", "s": `q"\` + "\n", "b": "1", "list": `[1,"x"]`, "map": `{"k":1.5}`, "bytes": "AQI=", "nan": "NaN",
		"empty": "null", "otel.status_code": "ERROR", "otel.status_description": "out of memory",
		"otel.dropped_attributes_count": "1", "otel.dropped_events_count": "2", "otel.dropped_links_count": "3",
		"otel.links": `[{"trace_id":"aa000000000000000000000000000001","span_id":"0900000000000008","attributes":{"why":"segment"}}]`,
		"trace_id":   "01020300000000000000000000000000", "span_id": "0900000000000005",
	} {
		if a, ok := got.Arg(key); !ok || a.Text() != want {
			t.Errorf("%s is %q, want %q", key, a.Text(), want)
		}
	}
	for _, key := range []string{"dftracer.cat", "dftracer.name", "parent_span_id"} {
		if _, ok := got.Arg(key); ok {
			t.Errorf("%s is an argument, want it as a field only", key)
		}
	}
	checked := ev["CM:checked"]
	if checked.Parent != int64(got.ID) {
		t.Errorf("event record has parent %d, want %d", checked.Parent, got.ID)
	}
	for key, want := range map[string]string{"value": "1700000000000050", "n": "3", "event.name": "mine"} {
		if a, ok := checked.Arg(key); !ok || a.Text() != want {
			t.Errorf("event: %s is %q, want %q", key, a.Text(), want)
		}
	}
}

func TestOneFilePerProcess(t *testing.T) {
	r := start(t, nil)
	td := batch(42, testSpan{id: 1, name: "application", end: 10})
	batch(43, testSpan{id: 2, name: "application", end: 10}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	// A later process with the same id, and one without attributes.
	again := batch(42, testSpan{id: 3, name: "application", end: 10})
	again.ResourceSpans().At(0).Resource().Attributes().PutStr("service.instance.id", "second life")
	again.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	silent := batch(1, testSpan{id: 4, name: "application", end: 10})
	silent.ResourceSpans().At(0).Resource().Attributes().Clear()
	silent.ResourceSpans().At(0).Resource().Attributes().PutStr("host.name", "../../etc/passwd")
	silent.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	r.send(td)
	r.stop()
	files := r.files()
	if len(files) != 4 {
		t.Fatalf("files are %v, want 4", files)
	}
	for _, f := range files {
		if report := dftest.Check(t, f); report.Events != 3 {
			t.Errorf("%s has %d events, want 3", f, report.Events)
		}
	}
	names := strings.Join(files, " ")
	for _, want := range []string{"trace-3-node7-42.pfw.gz", "trace-3-node7-42.1.pfw.gz", "trace-3-node7-43.pfw.gz", "trace-0-_.._etc_passwd-1"} {
		if !strings.Contains(names, want) {
			t.Errorf("want %s in %s", want, names)
		}
	}
}

func TestDirectoryThatCannotBeMade(t *testing.T) {
	block := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, func(c *Config) { c.Directory = filepath.Join(block, "traces") })
	err := r.traces.ConsumeTraces(context.Background(), batch(42, testSpan{id: 1, name: "x", end: 1}))
	if err == nil || consumererror.IsPermanent(err) || !strings.Contains(err.Error(), block) {
		t.Fatalf("error is %v, want one that may pass and names the file", err)
	}
	if got := r.counter("otelcol_dftracer_file_outages"); got != 1 {
		t.Errorf("%d outages are counted, want 1", got)
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	r.send(batch(42, testSpan{id: 1, name: "x", end: 1}))
	r.stop()
	if len(r.files()) != 1 {
		t.Errorf("files are %v, want one", r.files())
	}
}
