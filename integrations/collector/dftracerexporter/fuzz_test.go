package dftracerexporter

import (
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// perByte is how many bytes the exporter may allocate per byte of a batch, and
// perFile how many for the first files.
const (
	perByte = 500
	perFile = 4 << 20
)

// FuzzBatches checks that whatever a sender sends, no file is corrupt, no span
// is missing, and the work is at most linear in the input. Run it with
// -fuzzminimizetime 1x, because the goroutines of the writer make coverage
// vary.
func FuzzBatches(f *testing.F) {
	enc := &ptrace.ProtoMarshaler{}
	logs := &plog.ProtoMarshaler{}
	for _, td := range []ptrace.Traces{job(0, 3), batch(42, iteration(10, 2, 20)...), batch(1)} {
		b, err := enc.MarshalTraces(td)
		if err != nil {
			f.Fatal(err)
		}
		l, err := logs.MarshalLogs(logsOf(42, func(list plog.LogRecordSlice) {
			addRecord(list, 2, "span_start", 0, map[string]any{"span.name": "training_loop", "parent_span_id": "00"})
			addRecord(list, 3, "x", 0, nil)
		}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b, l)
	}
	empty := batch(1)
	for range 20_000 {
		empty.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	}
	b, err := enc.MarshalTraces(empty)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		r := start(t, func(c *Config) {
			c.MaxParents, c.MaxWaitingSpans, c.MaxOpenFiles, c.MaxProcesses, c.MaxFilesPerHost = 5, 7, 4, 4, 1
		})
		var sent int64
		growth.Work(t, len(first)+len(second)+len(third)+perFile/perByte, perByte, func() {
			for _, b := range [][]byte{first, second} {
				td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
				if err != nil {
					continue
				}
				sent += int64(td.SpanCount())
				r.send(td)
				r.settle()
			}
			if ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(third); err == nil {
				r.sendLogs(ld)
			}
			r.stop()
		})
		for _, path := range r.files() {
			report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowOutliving: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
		}
		written, twice := r.counter("otelcol_dftracer_spans_written"), r.counter("otelcol_dftracer_duplicate_spans")
		if written+twice != sent {
			t.Errorf("%d spans written and %d duplicates left out, want %d together", written, twice, sent)
		}
	})
}
