package dftracerexporter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// turn returns the batch of a process in one round: an iteration of a loop that
// stays open, and in the last round the loop.
func turn(pid, round int, last bool) ptrace.Traces {
	list := iteration(byte(10+4*round), 2, int64(20+200*round))
	if last {
		list = []testSpan{{id: 2, parent: 1, name: "training_loop", start: 10, end: 9000}, {id: 1, name: "application", end: 9999}}
	}
	return batch(pid, list...)
}

// takeTurns lets processes send in turns, and checks that each has one complete
// file at the end.
func takeTurns(t *testing.T, r *harness, processes, rounds int) {
	t.Helper()
	for round := range rounds {
		for p := range processes {
			r.ahead.Add(int64(5*time.Second) / int64(processes)) // each sends every five seconds
			r.send(turn(1000+p, round, round == rounds-1))
		}
		if n := r.open(); n > r.inner.cfg.MaxOpenFiles {
			t.Fatalf("%d files are open, want at most %d", n, r.inner.cfg.MaxOpenFiles)
		}
	}
	r.stop()
	files := r.files()
	if len(files) != processes {
		t.Fatalf("%d files, want %d, one of each process", len(files), processes)
	}
	for _, f := range files {
		report := dftest.Check(t, f)
		if report.Events != 4*(rounds-1)+2+2 || report.Orphans != 0 || report.Counts["otel/unfinished/X"] != 0 || report.Lanes != 1 {
			t.Fatalf("%s has %d events, %d orphans, %d lanes: %v; want %d, 0, 1 and no open span", f, report.Events, report.Orphans, report.Lanes, report.Counts, 4*(rounds-1)+2+2)
		}
	}
	for name, want := range map[string]int64{"files_created": int64(processes), "open_files": 0, "unfinished_spans": 0, "lost_lines": 0, "duplicate_spans": 0} {
		if got := r.counter("otelcol_dftracer_" + name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// TestProcessesTakeTurns has one process more than files may be open: each
// keeps its file, and most of them stay open.
func TestProcessesTakeTurns(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 16 })
	const rounds = 20
	takeTurns(t, r, 17, rounds)
	if n := r.counter("otelcol_dftracer_files_resumed"); n > 17*rounds/2 {
		t.Errorf("files were reopened %d times for %d batches, want half as often at most", n, 17*rounds)
	}
}

// TestSilentProcessMakesRoom checks that the exporter completes the file of a
// silent process first.
func TestSilentProcessMakesRoom(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 8 })
	for p := range 8 {
		r.send(turn(1000+p, 0, false))
	}
	r.ahead.Add(int64(2 * time.Minute))
	for p := range 7 {
		r.send(turn(1000+p, 1, false))
	}
	r.send(turn(2000, 0, false))
	for _, f := range r.inner.store.Files() {
		if open := f.Key.PID != 1007; f.Open() != open {
			t.Errorf("process %d: file open is %v, want %v", f.Key.PID, !open, open)
		}
	}
}

func TestFleet(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles, c.CompressionLevel = 64, 1 })
	takeTurns(t, r, 1024, 4)
}

// TestTooManyProcesses has more processes than the exporter knows at once: it
// completes the file of the one that sent nothing for longest.
func TestTooManyProcesses(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles, c.MaxProcesses = 2, 5 })
	for p := range 20 {
		r.send(turn(1000+p, 0, false))
		r.ahead.Add(int64(time.Minute))
	}
	if n := len(r.inner.store.Files()); n != 5 {
		t.Errorf("%d processes are known, want 5", n)
	}
	r.stop()
	if files := r.files(); len(files) != 20 {
		t.Errorf("%d files, want 20", len(files))
	}
	for _, f := range r.files() {
		dftest.Check(t, f)
	}
}

// TestResourceThatChangesWithEachBatch checks that a resource that changes with
// each batch gets as many files as a host may have, and one more, in which each
// span names its process.
func TestResourceThatChangesWithEachBatch(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxFilesPerHost, c.IdleTimeout = 8, 10*time.Minute })
	const batches = 500
	for i := range batches {
		td := turn(1000, 0, false)
		td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.instance.id", strconv.Itoa(i))
		for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			s.SetTraceID(pcommon.TraceID{byte(i), byte(i >> 8), 1})
		}
		r.send(td)
		r.ahead.Add(int64(5 * time.Second))
	}
	r.stop()
	files := r.files()
	if len(files) != 9 {
		t.Fatalf("%d files, want 9", len(files))
	}
	spans := 0
	for _, f := range files {
		spans += dftest.Check(t, f).Counts["pipeline/train.iteration/X"]
		if !strings.Contains(f, "shared") {
			continue
		}
		ev := named(t, f)["train.iteration"]
		if host, _ := ev.Arg("resource.host"); host.Text() != "node7" {
			t.Errorf("the host is %s, want \"node7\"", host.Text())
		}
		if rank, _ := ev.Arg("resource.rank"); rank.Int64() != 3 {
			t.Errorf("the rank is %d, want 3", rank.Int64())
		}
	}
	if spans != batches {
		t.Errorf("%d spans, want %d", spans, batches)
	}
	if n := r.counter("otelcol_dftracer_shared_file_spans"); n != 4*(batches-8) {
		t.Errorf("%d spans are in the shared file, want %d", n, 4*(batches-8))
	}
}

// TestKilledWithFilesPutAside checks that files that are not open when the
// Collector is killed can be recovered.
func TestKilledWithFilesPutAside(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 1 })
	r.send(turn(1, 0, false))
	r.send(turn(2, 0, false))
	files := r.files()
	out := filepath.Join(t.TempDir(), "recovered.pfw.gz")
	if _, err := recovery.File(files[0], &recovery.Options{Output: out}); err != nil {
		t.Fatal(err)
	}
	if report := dftest.Check(t, out); report.Orphans != 0 || report.Counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("%d orphans, counts %v; want 0 and 1 iteration", report.Orphans, report.Counts)
	}
}

// TestShutdownInTime checks that Shutdown returns when its context ends, and
// names the incomplete files.
func TestShutdownInTime(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 1 })
	for p := range 5 {
		r.send(turn(1000+p, 0, false))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.inner.Shutdown(ctx)
	if err == nil || !strings.Contains(err.Error(), "4 files were left without their end") {
		t.Fatalf(`error %v, want "4 files were left without their end"`, err)
	}
	if n := r.counter("otelcol_dftracer_open_files"); n != 0 {
		t.Errorf("%d files are open, want 0", n)
	}
	for _, f := range r.files() {
		if _, err := recovery.File(f, nil); err != nil {
			t.Errorf("recover %s: %v", f, err)
		}
		dftest.Check(t, f)
	}
	r.stopped = true
}

// TestLostLinesAreCountedAtOnce checks that lost lines are counted at the loss,
// not at the end of the file.
func TestLostLinesAreCountedAtOnce(t *testing.T) {
	r := start(t, func(c *Config) { c.OrderWindow = 0 })
	if _, err := r.tel.GetMetric("otelcol_dftracer_lost_lines"); err != nil {
		t.Error("an alert on lost lines has no series before the first one is lost")
	}
	r.send(turn(1, 0, false))
	if err := r.only().Writer.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := r.counter("otelcol_dftracer_lost_lines"); n != 0 {
		t.Fatalf("%d lines are counted too early, want 0", n)
	}
	if err := os.Remove(r.files()[0]); err != nil {
		t.Fatal(err)
	}
	until.True(t, "lost lines are counted", func() bool {
		_ = r.only().Writer.FlushContext(context.Background()) // detects the loss
		r.settle()
		return r.counter("otelcol_dftracer_lost_lines") > 0
	})
	r.stopped = true
	_ = r.inner.Shutdown(context.Background()) // returns the loss, too
}

// TestNoFileCanBePutAside checks that while the file of one process cannot be
// written, the exporter refuses other processes instead of using memory without
// a limit, and loses nothing.
func TestNoFileCanBePutAside(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles, c.OrderWindow = 1, 0 })
	r.send(turn(1, 0, false))
	if err := r.only().Writer.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	moved := r.dir + ".moved"
	if err := errors.Join(os.Rename(r.dir, moved), os.WriteFile(r.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := r.traces.ConsumeTraces(context.Background(), turn(2, 0, false))
		if err == nil || consumererror.IsPermanent(err) || !strings.Contains(err.Error(), "none can be put aside") {
			t.Fatalf("error is %v, want one that may pass", err)
		}
	}
	r.send(turn(1, 1, false)) // it waits in memory
	if err := errors.Join(os.Remove(r.dir), os.Rename(moved, r.dir)); err != nil {
		t.Fatal(err)
	}
	// The writer retries.
	until.Nil(t, func() error { return r.traces.ConsumeTraces(context.Background(), turn(2, 0, false)) })
	r.send(turn(1, 2, true))
	r.send(turn(2, 2, true))
	r.stop()
	if n := r.counter("otelcol_dftracer_lost_lines"); n != 0 || len(r.files()) != 2 {
		t.Errorf("%d lines are lost, files %v; want 0 and two files", n, r.files())
	}
	for _, f := range r.files() {
		if report := dftest.Check(t, f); report.Counts["otel/unfinished/X"] != 0 || report.Counts["pipeline/train/X"] != 1 {
			t.Errorf("%s has %v, want 1 train and no open span", f, report.Counts)
		}
	}
}

// TestTimesOfTheJob checks that the trace lasts as long as the job, at whatever
// time the Collector wrote it.
func TestTimesOfTheJob(t *testing.T) {
	r := start(t, nil)
	r.send(turn(1, 0, false))
	r.settle()
	r.send(turn(1, 0, true))
	r.stop()
	var start, end int64
	for _, ev := range dftest.Events(t, r.files()[0]) {
		switch {
		case ev.Cat != dftracer.CatDFTracer:
		case ev.Name == tracefile.NameStart:
			start = ev.TS
		case ev.Name == tracefile.NameEnd:
			end = ev.TS
		}
	}
	// The start is the earliest known when the file was created.
	if start != base+20 || end != base+9999 {
		t.Errorf("trace lasts from %d to %d, want 20 to 9999", start-base, end-base)
	}
}

// TestAcknowledgeWritten checks that with acknowledge: written an accepted span
// is in the file.
func TestAcknowledgeWritten(t *testing.T) {
	r := start(t, func(c *Config) { c.Acknowledge, c.FlushInterval = "written", time.Hour })
	r.send(turn(1, 0, false))
	path := r.files()[0]
	report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowUnfinished: true})
	if err != nil || report.Counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("counts %v, %v; want 1 iteration", report.Counts, err)
	}
	r.send(turn(1, 0, false)) // as a queue sends after a restart
	r.send(turn(1, 0, true))
	if _, report := r.finished(); report.Events != 6+2 || report.Counts["otel/unfinished/X"] != 0 {
		t.Errorf("%d events, counts %v; want 8 and no open span", report.Events, report.Counts)
	}
}

// TestStartEventKnowsTheAttempt checks that the start event has the attempt if
// the resource is that of a trainspan job.
func TestStartEventKnowsTheAttempt(t *testing.T) {
	r := start(t, nil)
	td := turn(1, 0, false)
	td.ResourceSpans().At(0).Resource().Attributes().PutInt("training.attempt", 2)
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("training.session_tag", "nightly")
	r.send(td)
	ev, _ := r.finished()
	for key, want := range map[string]string{"attempt": "2", "session_tag": "nightly"} {
		if a, _ := ev["start"].Arg(key); a.Text() != want {
			t.Errorf("%s is %q, want %q", key, a.Text(), want)
		}
	}
}

// oneLogger makes the spans of one-logger's exporter: each with its events, and
// a span of zero length for each event.
func oneLogger(rs ptrace.ResourceSpans, s testSpan, extra ...string) {
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("one_logger")
	spans := ss.Spans()
	real := ptrace.NewSpan()
	fill(real, s)
	stand := byte(100)
	event := func(name string, us int64, failed bool) {
		stand++
		fake := spans.AppendEmpty()
		fill(fake, testSpan{id: stand + 10*s.id, parent: s.id, name: name + "_event_for_" + s.name, start: us, end: us,
			attrs: map[string]any{"timestamp_msec": us / 1000}})
		e := real.Events().AppendEmpty()
		e.SetName(name)
		e.SetTimestamp(at(us))
		e.Attributes().PutInt("timestamp_msec", us/1000)
		if failed {
			fake.SetName("error_for_" + s.name)
			fake.Status().SetCode(ptrace.StatusCodeError)
			real.Status().SetCode(ptrace.StatusCodeError)
		}
	}
	event("span_start", s.start, false)
	for i, name := range extra {
		event(name, s.start+int64(i)+1, name == "error")
	}
	event("span_stop", s.end, false)
	real.CopyTo(spans.AppendEmpty())
}

func TestOneLoggerEventsAreFolded(t *testing.T) {
	job := func() ptrace.Traces {
		td := batch(1)
		rs := td.ResourceSpans().At(0)
		oneLogger(rs, testSpan{id: 3, parent: 2, name: "checkpoint_save_sync", start: 100, end: 200}, "save_checkpoint_success", "error")
		oneLogger(rs, testSpan{id: 2, name: "training_loop", start: 50, end: 900}, "training_metrics_update")
		return td
	}
	t.Run("folded", func(t *testing.T) {
		r := start(t, nil)
		r.send(job())
		ev, report := r.finished()
		if report.Events != 2+2 {
			t.Errorf("%d events, want two spans: %v", report.Events, report.Counts)
		}
		wantParent(t, ev, "capture", "train")
		wantParent(t, ev, "CM:save_checkpoint_success", "capture")
		wantParent(t, ev, "CM:error", "capture")
		wantParent(t, ev, "CM:training_metrics_update", "train")
		if got := r.counter("otelcol_dftracer_events_written"); got != 4+3 {
			t.Errorf("%d events are written, want each once", got)
		}
		if got := r.counter("otelcol_dftracer_folded_spans"); got != 4+3 {
			t.Errorf("%d spans are folded, want %d", got, 4+3)
		}
	})
	t.Run("events first", func(t *testing.T) { // the span is open and its events are in the file
		r := start(t, nil)
		td := job()
		whole := ptrace.NewTraces()
		td.CopyTo(whole)
		for _, ss := range td.ResourceSpans().At(0).ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return !strings.Contains(s.Name(), "_for_") })
		}
		r.send(td)
		if err := r.only().Writer.FlushContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		live := named(t, r.files()[0])
		if _, name := live["CM:span.begin"].Meta(); live["CM:error"] == nil || name != "capture" && name != "train" {
			t.Errorf("file has no error record, or the begin of %q instead of capture or train", name)
		}
		for _, ss := range whole.ResourceSpans().At(0).ScopeSpans().All() {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool { return strings.Contains(s.Name(), "_for_") })
		}
		r.send(whole)
		ev, report := r.finished()
		if report.Events != 2+2 || report.Open != 0 {
			t.Errorf("%d events, %d open: %v; want 4, 0", report.Events, report.Open, report.Counts)
		}
		wantParent(t, ev, "capture", "train")
		if got := r.counter("otelcol_dftracer_events_written"); got != 4+3 {
			t.Errorf("%d events are written, want each once", got)
		}
	})
	t.Run("switched off", func(t *testing.T) {
		r := start(t, func(c *Config) { c.FoldOneLogger = false })
		r.send(job())
		if _, report := r.finished(); report.Events != 2+4+3+2 {
			t.Errorf("%d events, want %d", report.Events, 2+4+3+2)
		}
	})
	t.Run("only its own", func(t *testing.T) {
		for _, c := range []struct {
			name, scope string
			parent      byte
			length      int64
		}{
			{"wait_event_for_gpu", "torch", 2, 0},                       // from another tracer
			{"wait_event_for_gpu", "one_logger", 2, 5},                  // it has a length
			{"telemetry_data_error_event_for_none", "one_logger", 0, 0}, // of no span
			{"error_for_training_loop", "one_logger", 2, 0},             // its span did not fail
			{"_event_for_training_loop", "one_logger", 2, 0},            // no event
			{"span_for_telemetry_data_error", "one_logger", 0, 0},       // a span itself, not an event
		} {
			s := ptrace.NewSpan()
			fill(s, testSpan{id: 9, parent: c.parent, name: c.name, start: 10, end: 10 + c.length})
			if c.parent == 0 {
				s.SetParentSpanID(pcommon.SpanID{})
			}
			if _, ok := foldable(s, c.scope); ok {
				t.Errorf("%s of %s is folded, want it kept as a record of its own", c.name, c.scope)
			}
		}
	})
}
