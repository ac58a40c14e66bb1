package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// callOrder notes the order in which outputs are shut down.
type callOrder struct {
	mu    sync.Mutex
	lines []string
}

func (d *callOrder) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *callOrder) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, ", ")
}

// refusingExporter is a span exporter that refuses spans with some names.
type refusingExporter struct{ refuse map[string]bool }

func (p refusingExporter) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	for _, s := range batch {
		if p.refuse[s.Name()] {
			return errors.New("refused")
		}
	}
	return nil
}
func (refusingExporter) Shutdown(context.Context) error { return nil }

// sendingExporter is a native exporter that sends, and loses all events but the first.
type sendingExporter struct {
	memory
	callOrder *callOrder
	limit     int // how many it accepts
}

func (p *sendingExporter) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true, Remote: true}, nil
}

func (p *sendingExporter) Shutdown(context.Context) error {
	p.callOrder.note("sender finished")
	return nil
}

func (p *sendingExporter) Stats() outputs.Stats {
	n := int64(len(p.all()))
	lost := max(0, n-int64(p.limit))
	d := outputs.Delivery{What: outputs.DeliversLogs, Total: n, Sent: n - lost, Dropped: lost}
	if lost > 0 {
		d.Drops = map[string]int64{"queue full": lost}
	}
	return outputs.Stats{Delivery: d}
}

// local is a native exporter that writes a file.
type local struct {
	memory
	callOrder *callOrder
}

func (l *local) ForceFlush(context.Context) error { l.callOrder.note("file flushed"); return nil }

func (l *local) Shutdown(context.Context) error { l.callOrder.note("file closed"); return nil }

// traceFile is a trace file that gets reports of losses.
type traceFile struct {
	outputs.None
	callOrder *callOrder
	drops     map[string]int64
}

func (f *traceFile) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true, All: true}, nil
}
func (f *traceFile) Write(records []outputs.Record) error {
	for i := range records {
		if r := &records[i]; r.Kind == outputs.KindLosses {
			f.drops = map[string]int64{}
			for _, a := range r.Event.Attributes {
				f.drops[string(a.Key)] = a.Value.AsInt64()
			}
		}
	}
	return nil
}
func (f *traceFile) Shutdown(context.Context) error { f.callOrder.note("trace closed"); return nil }

// sentMeters are metrics whose last export fails.
type sentMeters struct {
	outputs.None
	noop.MeterProvider
	callOrder *callOrder
	lost      int64
}

func (m *sentMeters) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Remote: true, Metrics: true}, nil
}
func (m *sentMeters) Shutdown(context.Context) error {
	m.callOrder.note("metrics finished")
	return nil
}
func (m *sentMeters) Stats() outputs.Stats {
	return outputs.Stats{Delivery: outputs.Delivery{
		What: outputs.DeliversMetrics, Total: 3 + m.lost, Sent: 3, Dropped: m.lost, Failed: 1 + m.lost,
	}}
}

// lossy is a job with all outputs that can lose something.
type lossy struct {
	*job
	callOrder *callOrder
	sender    *sendingExporter
	file      *local
	trace     *traceFile
	log       *bytes.Buffer
}

func newLossy(t *testing.T, loses bool) *lossy {
	l := &lossy{callOrder: &callOrder{}, log: &bytes.Buffer{}}
	l.sender, l.file, l.trace = &sendingExporter{callOrder: l.callOrder, limit: 1}, &local{callOrder: l.callOrder}, &traceFile{callOrder: l.callOrder}
	meters := &sentMeters{callOrder: l.callOrder, lost: 2}
	exporter := refusingExporter{map[string]bool{"odd": true}}
	if !loses {
		l.sender.limit, meters.lost, exporter.refuse = 1000, 0, nil
	}
	l.job = newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		b.WithExporter(l.sender).WithExporter(l.file).WithExporter(l.trace).WithSpanExporter(exporter).WithMeterProvider(meters).
			WithLogger(slog.New(slog.NewJSONHandler(l.log, nil)))
	})
	return l
}

// ways returns the ways in which a job can end.
func (l *lossy) ways(t *testing.T) map[string]func() {
	return map[string]func(){
		"callback": func() { check(t, l.cb.OnAppEnd(l.ctx)) },
		"scope": func() {
			telemetry.FromContext(l.ctx).End()
			if strings.Contains(l.callOrder.String(), "closed") || !strings.Contains(l.callOrder.String(), "file flushed") {
				t.Errorf("at the end of the application the exporters got %s, want the file flushed and none closed", l.callOrder)
			}
			check(t, l.tel.Shutdown(l.ctx))
		},
		"shutdown": func() { check(t, l.tel.Shutdown(l.ctx)) },
		"disabled": func() {
			l.tel.ForceDisable()
			check(t, l.tel.Shutdown(l.ctx)) // waits for background work
		},
	}
}

// However a job ends, all its losses are in the trace, the native records, the
// log and the counts, with the same numbers.
func TestLossesAreReportedEverywhere(t *testing.T) {
	for _, way := range []string{"callback", "scope", "shutdown", "disabled"} {
		t.Run(way, func(t *testing.T) {
			l := newLossy(t, true)
			ctx, _ := l.tel.Start(l.ctx, spans.Application)
			for range 3 {
				_, s := l.tel.StartSpan(ctx, "odd")
				s.End()
			}
			_ = l.tel.ForceFlush(ctx) // returns that spans were lost
			_, s := l.tel.StartSpan(ctx, "odd")
			s.End()
			l.ctx = ctx
			l.ways(t)[way]()

			s1 := l.tel.Stats()
			if s1.DroppedSpans < 4 || s1.EndedSpans != s1.DroppedSpans+s1.ExportedSpans || s1.Drops["refused by the backend"] != s1.DroppedSpans {
				t.Errorf("spans %+v, want 4 or more dropped, refused by the backend, and all accounted for", s1)
			}
			if s1.DroppedLogRecords == 0 || s1.LogRecords != s1.ExportedLogRecords+s1.DroppedLogRecords || s1.LogDrops["queue full"] != s1.DroppedLogRecords {
				t.Errorf("log records %+v, want some dropped, queue full, and all accounted for", s1)
			}
			if s1.MetricExports != 3 || s1.FailedMetricExports != 3 || s1.LostMetricExports != 2 {
				t.Errorf("metrics %+v, want 3 exports, 3 failures, 2 lost", s1)
			}
			want := map[string]int64{
				"refused by the backend": s1.DroppedSpans, "logs queue full": s1.DroppedLogRecords, "metric exports": 2,
			}
			if !maps.Equal(l.trace.drops, want) {
				t.Errorf("the trace reports %v, want %v", l.trace.drops, want)
			}
			var reported int64
			errors := l.file.events(spans.EventTelemetryDataError)
			for _, r := range errors {
				n, err := strconv.ParseInt(attr(r, "lost_records"), 10, 64)
				check(t, err)
				reported += n
			}
			if reported != s1.DroppedSpans+s1.DroppedLogRecords || len(errors) != 2 {
				t.Errorf("the file reports %d losses in %d records, want %d in 2", reported, len(errors), s1.DroppedSpans+s1.DroppedLogRecords)
			}
			if all := l.file.all(); all[len(all)-1].Kind != outputs.KindDataError {
				t.Error("losses at the end were not reported last")
			}
			if n := len(l.sender.events(spans.EventTelemetryDataError)); n != 1 { // a second one would be lost, too
				t.Errorf("the sender got %d data errors, want 1", n)
			}
			reportedInLog(t, l.log, &s1)
			_, local, ok := strings.Cut(l.callOrder.String(), "sender finished, metrics finished, ")
			if !ok || strings.Count(local, "closed") != 2 || strings.Count(l.callOrder.String(), "closed") != 2 {
				t.Errorf("exporters were called in the order %s, want the sender and the metrics finished before the two files are closed", l.callOrder)
			}
		})
	}
}

// reportedInLog checks the line with the sums.
func reportedInLog(t *testing.T, log *bytes.Buffer, s *telemetry.Stats) {
	t.Helper()
	var found int
	for line := range strings.Lines(log.String()) {
		var got struct {
			Msg           string
			Spans, Of     int64
			Records       int64 `json:"log_records"`
			OfRecords     int64 `json:"of_log_records"`
			MetricExports int64 `json:"metric_exports"`
			Causes        map[string]int64
			LogCauses     map[string]int64 `json:"log_causes"`
		}
		check(t, json.Unmarshal([]byte(line), &got))
		if !strings.Contains(got.Msg, "could not deliver all data") {
			continue
		}
		found++
		if got.Spans != s.DroppedSpans || got.Of != s.EndedSpans || got.Records != s.DroppedLogRecords || got.OfRecords != s.LogRecords ||
			got.MetricExports != s.LostMetricExports || !maps.Equal(got.Causes, s.Drops) || !maps.Equal(got.LogCauses, s.LogDrops) {
			t.Errorf("the log line is %s, want the losses of %+v", line, s)
		}
	}
	if found != 1 {
		t.Errorf("%d lines with the sums, want 1:\n%s", found, log)
	}
}

// Without losses nothing is reported: the records are one-logger's.
func TestNoReportWithoutLosses(t *testing.T) {
	l := newLossy(t, false)
	l.ctx, _ = l.tel.Start(l.ctx, spans.Application)
	check(t, l.cb.OnAppEnd(l.ctx))
	if n := len(l.file.events(spans.EventTelemetryDataError)); n != 0 || l.trace.drops != nil || strings.Contains(l.log.String(), "lost") {
		t.Errorf("%d data errors, drops %v, log %s; want no report of losses", n, l.trace.drops, l.log)
	}
	if s := l.tel.Stats(); s.DataErrors != 0 || s.DroppedSpans+s.DroppedLogRecords+s.LostMetricExports != 0 {
		t.Errorf("stats %+v, want no data error and no loss", s)
	}
}

// A hanging sender costs only its part of the deadline: the files are closed in
// the rest. In synthetic time, because no machine guarantees that a tenth of a
// second is enough.
func TestASenderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		l := &local{callOrder: &callOrder{}}
		tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(base()).
			WithExporter(&hanging{sendingExporter: sendingExporter{callOrder: l.callOrder, limit: 1000}, release: release}).WithExporter(l).
			WithShutdownTimeout(time.Second).ConfigureProvider(context.Background())
		check(t, err)
		if err := tel.Shutdown(context.Background()); err == nil || !strings.Contains(err.Error(), "hanging did not shut down in time") {
			t.Errorf("Shutdown() = %v, want an error that names the hanging output", err)
		}
		if !strings.HasSuffix(l.callOrder.String(), "file closed") {
			t.Errorf("exporters were called in the order %s, want the file closed last", l.callOrder)
		}
	})
}

type hanging struct {
	sendingExporter
	release chan struct{}
}

func (h *hanging) Shutdown(context.Context) error { <-h.release; return nil }

// lossyMeters are meters that can be read, and whose exports fail.
type lossyMeters struct {
	outputs.None
	*metric.MeterProvider
	sent sentMeters
}

func (m *lossyMeters) Open(ctx context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	return m.sent.Open(ctx, t)
}
func (m *lossyMeters) ForceFlush(context.Context) error   { return nil }
func (m *lossyMeters) Shutdown(ctx context.Context) error { return m.sent.Shutdown(ctx) }
func (m *lossyMeters) Stats() outputs.Stats               { return m.sent.Stats() }

// Metrics count the losses, by cause.
func TestMetricsCountLosses(t *testing.T) {
	reader := metric.NewManualReader()
	d := &callOrder{}
	meters := &lossyMeters{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)), sent: sentMeters{callOrder: d, lost: 2}}
	sender := &sendingExporter{callOrder: d, limit: 1}
	j := newJob(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		b.WithExporter(sender).WithSpanExporter(refusingExporter{map[string]bool{"odd": true}}).WithMeterProvider(meters)
	})
	_, s := j.tel.StartSpan(j.ctx, "odd")
	s.End()
	_ = j.tel.ForceFlush(j.ctx) // returns that a span was lost
	got, s1 := numbers(t, reader), j.tel.Stats()
	for name, want := range map[string]int64{
		"otel.sdk.exporter.span.exported{refused}": 1, "otel.sdk.exporter.log.exported": 1,
		"otel.sdk.processor.log.processed{queue_full}": s1.DroppedLogRecords, "trainspan.otlp.metrics.failed": 3,
	} {
		if v, ok := got[name]; !ok || int64(v) != want || want == 0 {
			t.Errorf("%s is %v (there: %v), want %d", name, v, ok, want)
		}
	}
}

// losing is an output that keeps what reports its losses.
type losing struct {
	outputs.None
	lost func(what, cause string, n int64, err error)
}

func (o *losing) Open(_ context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	o.lost = t.Lost
	return outputs.Traits{}, nil
}

// A backend that refuses every batch does not fill the log.
func TestLossesDoNotFillTheLog(t *testing.T) {
	out := &losing{}
	_, log := logged(t, func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithExporter(out) })
	for range 1000 {
		out.lost("spans", "refused by the backend", 3, errGone)
	}
	out.lost("spans", "queue full", 1, nil)
	var times []string
	for line := range strings.Lines(log.String()) {
		_, n, _ := strings.Cut(line, "times=")
		times = append(times, strings.TrimSpace(n))
	}
	if got := strings.Join(times, " "); got != " 10 100 1000 " {
		t.Errorf("warnings of the losses %q, want the first of each kind, 10, 100 and 1000:\n%s", got, log)
	}
}
