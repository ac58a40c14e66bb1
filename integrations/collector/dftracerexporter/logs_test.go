package dftracerexporter

import (
	"context"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"go.opentelemetry.io/collector/pdata/plog"
)

func TestEventOfAnOpenSpan(t *testing.T) {
	r := start(t, nil)
	r.sendLogs(logsOf(42, func(list plog.LogRecordSlice) {
		addRecord(list, 2, "training_metrics_update", 30, map[string]any{"loss": 1.5})
		list.AppendEmpty().Body().SetStr("an ordinary log")
		lr := list.AppendEmpty() // belongs to the span, but is not an event
		lr.SetTraceID(traceID())
		lr.SetSpanID(idOf(2))
		lr.Body().SetStr("step 7")
	}))
	if got := r.counter("otelcol_dftracer_ignored_logs"); got != 2 {
		t.Errorf("%d logs are counted as ignored, want 2", got)
	}
	// The event is in the file at once, while the span is open.
	if err := r.only().Writer.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	live := named(t, r.files()[0])["CM:training_metrics_update"]
	if live == nil {
		t.Fatal("the event is not in the file")
	}
	// The span repeats the event and has another one.
	td := batch(42, testSpan{id: 2, name: "training_loop", start: 10, end: 100})
	span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	for us, name := range map[int64]string{30: "training_metrics_update", 40: "save_checkpoint_success"} {
		e := span.Events().AppendEmpty()
		e.SetName(name)
		e.SetTimestamp(at(us))
	}
	r.send(td)
	r.settle()
	// A log record may also arrive after the span.
	r.sendLogs(logsOf(42, func(list plog.LogRecordSlice) {
		addRecord(list, 2, "save_checkpoint_success", 40, nil)
		addRecord(list, 2, "late", 50, nil)
	}))
	ev, report := r.finished()
	if n := report.Counts["dftracer/CM/M"]; n != 3+4 {
		t.Errorf("%d CM records, want three events and the four facts of the resource", n)
	}
	for _, name := range []string{"CM:training_metrics_update", "CM:save_checkpoint_success", "CM:late"} {
		wantParent(t, ev, name, "train")
	}
	if a, _ := live.Arg("loss"); a.Float64() != 1.5 {
		t.Errorf("event has %v, want loss 1.5", live.Args)
	}
}

func TestStartOfASpan(t *testing.T) {
	begin := func(r *harness) {
		r.sendLogs(logsOf(42, func(list plog.LogRecordSlice) {
			addRecord(list, 1, "span_start", 0, map[string]any{"span.name": "application"})
			addRecord(list, 2, "span_start", 10, map[string]any{
				"span.name": "training_loop", "parent_span_id": idOf(1).String(), "train_iterations_target": 100,
			})
		}))
	}
	t.Run("the process goes on", func(t *testing.T) {
		r := start(t, nil)
		begin(r)
		r.send(batch(42, iteration(10, 2, 20)...))
		r.settle()
		r.send(batch(42, testSpan{id: 2, parent: 1, name: "training_loop", start: 10, end: 5000},
			testSpan{id: 1, name: "application", start: 0, end: 6000}))
		ev, report := r.finished()
		if report.Open != 0 || report.Counts["dftracer/CM/M"] != 4+2 {
			t.Errorf("%d open spans, counts %v; want 0 and 6 metadata records", report.Open, report.Counts)
		}
		wantParent(t, ev, "train", "ai_root")
		wantParent(t, ev, "train.iteration", "train")
	})
	t.Run("the process dies", func(t *testing.T) {
		r := start(t, nil)
		begin(r)
		r.send(batch(42, iteration(10, 2, 20)...))
		ev, report := r.finished()
		wantParent(t, ev, "train", "ai_root")
		wantParent(t, ev, "train.iteration", "train")
		if a, ok := ev["train"].Arg("truncated"); !ok || a.Int64() != 1 {
			t.Error("the span that did not end is not marked")
		}
		if report.Open != 0 {
			t.Errorf("%d spans are open, want 0", report.Open)
		}
	})
	t.Run("the Collector dies", func(t *testing.T) {
		r := start(t, nil)
		begin(r)
		r.send(batch(42, iteration(10, 2, 20)...))
		r.settle()
		if err := r.only().Writer.FlushContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		path := t.TempDir() + "/copy.pfw.gz"
		copyFile(t, r.files()[0], path)
		if _, err := recovery.File(path, nil); err != nil {
			t.Fatal(err)
		}
		dftest.Check(t, path)
		ev := named(t, path)
		wantParent(t, ev, "train.iteration", "train")
		wantParent(t, ev, "train", "ai_root")
	})
}

func TestLogsAfterShutdown(t *testing.T) {
	r := start(t, nil)
	r.stop()
	err := r.inner.pushLogs(context.Background(), logsOf(42, func(list plog.LogRecordSlice) { addRecord(list, 2, "x", 1, nil) }))
	if err == nil {
		t.Error("got no error for the record, want one")
	}
}
