package dftracerexporter

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"sort"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter/internal/metadata"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// base is the start of the tests' spans, in microseconds.
const base = 1_700_000_000_000_000

// testSpan is a span with numbers as ids; times are microseconds after base.
type testSpan struct {
	id, parent byte
	name       string
	start, end int64
	attrs      map[string]any
	remote     bool
}

func traceID() pcommon.TraceID { return pcommon.TraceID{1, 2, 3} }

func idOf(n byte) pcommon.SpanID { return pcommon.SpanID{9, 7: n} }

func wideID(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)+1<<40)
	return id
}

func at(us int64) pcommon.Timestamp { return pcommon.Timestamp((base + us) * 1000) }

func resource(res pcommon.Resource, pid, rank int) {
	_ = res.Attributes().FromRaw(map[string]any{
		"service.name": "charlm", "host.name": "node7", "process.pid": pid, "training.rank": rank,
	})
}

func batch(pid int, list ...testSpan) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	resource(rs.Resource(), pid, 3)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("opentelemetry.instrumentation.torch")
	for _, s := range list {
		fill(ss.Spans().AppendEmpty(), s)
	}
	return td
}

func fill(dst ptrace.Span, s testSpan) {
	dst.SetTraceID(traceID())
	dst.SetSpanID(idOf(s.id))
	if s.parent != 0 {
		dst.SetParentSpanID(idOf(s.parent))
	}
	dst.SetName(s.name)
	dst.SetStartTimestamp(at(s.start))
	dst.SetEndTimestamp(at(s.end))
	_ = dst.Attributes().FromRaw(s.attrs)
	if s.remote {
		dst.SetFlags(flagKnowsRemote | flagRemote)
	}
}

func logsOf(pid int, fn func(plog.LogRecordSlice)) plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	resource(rl.Resource(), pid, 3)
	fn(rl.ScopeLogs().AppendEmpty().LogRecords())
	return ld
}

func addRecord(list plog.LogRecordSlice, span byte, name string, us int64, attrs map[string]any) {
	lr := list.AppendEmpty()
	lr.SetTraceID(traceID())
	lr.SetSpanID(idOf(span))
	lr.SetEventName(name)
	lr.SetTimestamp(at(us))
	_ = lr.Attributes().FromRaw(attrs)
}

// harness runs an exporter as the Collector does.
type harness struct {
	t      testing.TB
	dir    string
	traces exporter.Traces
	logs   exporter.Logs
	inner  *tracesExporter
	tel    *componenttest.Telemetry

	ahead   atomic.Int64 // offset of the clock, nanoseconds
	stopped bool         // by the test, which checks the error
}

func start(t testing.TB, change func(*Config)) *harness {
	t.Helper()
	f := NewFactory()
	cfg := f.CreateDefaultConfig().(*Config)
	cfg.Directory = filepath.Join(t.TempDir(), "traces")
	cfg.OrderWindow = 30 * time.Second // the tests set the time
	cfg.IdleTimeout = 0
	cfg.Retry.Enabled = false
	if change != nil {
		change(cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	tel := componenttest.NewTelemetry()
	set := exportertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	r := &harness{t: t, dir: cfg.Directory, tel: tel}
	// The factory's shared exporters, which the test inspects.
	own := &factory{shared: make(map[*Config]*shared)}
	var err error
	if r.traces, err = own.traces(context.Background(), set, cfg); err != nil {
		t.Fatal(err)
	}
	if r.logs, err = own.logs(context.Background(), set, cfg); err != nil {
		t.Fatal(err)
	}
	r.inner = own.shared[cfg].tracesExporter
	r.inner.now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	host := componenttest.NewNopHost()
	if err := r.traces.Start(context.Background(), host); err != nil {
		t.Fatal(err)
	}
	if err := r.logs.Start(context.Background(), host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop()
		_ = tel.Shutdown(context.Background())
	})
	return r
}

func (r *harness) send(td ptrace.Traces) {
	r.t.Helper()
	if err := r.traces.ConsumeTraces(context.Background(), td); err != nil {
		r.t.Fatal(err)
	}
}

func (r *harness) sendLogs(ld plog.Logs) {
	r.t.Helper()
	if err := r.logs.ConsumeLogs(context.Background(), ld); err != nil {
		r.t.Fatal(err)
	}
}

// settle writes the waiting spans, as at the end of the order window.
func (r *harness) settle() { r.inner.store.Tick(context.Background(), time.Now().Add(45*time.Second)) }

func (r *harness) stop() {
	r.t.Helper()
	if r.stopped {
		return
	}
	if err := r.traces.Shutdown(context.Background()); err != nil {
		r.t.Error(err)
	}
	if err := r.logs.Shutdown(context.Background()); err != nil {
		r.t.Error(err)
	}
}

func (r *harness) files() []string {
	r.t.Helper()
	list, err := filepath.Glob(filepath.Join(r.dir, "*.pfw*"))
	if err != nil {
		r.t.Fatal(err)
	}
	sort.Strings(list)
	return list
}

// finished stops the exporter and returns the spans of its only file by name.
func (r *harness) finished() (map[string]*dftracer.Event, dftracer.Report) {
	r.t.Helper()
	r.stop()
	files := r.files()
	if len(files) != 1 {
		r.t.Fatalf("files are %v, want one", files)
	}
	return named(r.t, files[0]), dftest.Check(r.t, files[0])
}

func named(t testing.TB, path string) map[string]*dftracer.Event {
	m := make(map[string]*dftracer.Event)
	events := dftest.Events(t, path)
	for i := range events {
		ev := &events[i]
		name := ev.Name
		if name == tracefile.NameCustom {
			key, _ := ev.Meta()
			name = "CM:" + key
		}
		m[name] = ev
	}
	return m
}

func wantParent(t testing.TB, ev map[string]*dftracer.Event, child, parent string) {
	t.Helper()
	c, p := ev[child], ev[parent]
	if c == nil || p == nil {
		t.Errorf("there is no %s, or no %s for its parent", child, parent)
	} else if c.Parent != int64(p.ID) {
		t.Errorf("%s has parent %d, want %s (ID %d)", child, c.Parent, parent, p.ID)
	}
}

func sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
