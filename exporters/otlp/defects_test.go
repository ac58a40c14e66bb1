package otlp_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// A server that answers 200 and is not a receiver took nothing.
func TestOnlyAnAnswerOfOTLPCountsAsTaken(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body string
		taken                   bool
	}{
		{"nothing", "application/x-protobuf", "", true},
		{"nothing of no type", "", "", true},
		{"an empty object", "application/json", "{}", true},
		{"an empty object of another type", "text/plain", "{}", true},
		{"a field of a later version", "application/json; charset=utf-8", `{"newField": 1}`, true},
		{"a portal", "text/html; charset=utf-8", "<html><body>Please log in</body></html>", false},
		{"a text", "text/plain", "OK", false},
		{"broken protobuf", "application/x-protobuf", "\xff\xff\xff", false},
		{"broken JSON", "application/json", `{"partialSuccess`, false},
		{"other JSON", "application/json", `"ok"`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.contentType)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer s.Close()
			r := &receiver{t: t, protocol: config.OTLPHTTP, url: s.URL}
			p := newPipeline(t, quick(r), nil)
			p.record(10)
			if err := p.ForceFlush(t.Context()); (err == nil) != tc.taken {
				t.Errorf("ForceFlush() = %v, want success %v", err, tc.taken)
			} else if err != nil && !strings.Contains(err.Error(), "200 OK, but the response is not OTLP") {
				t.Errorf(`ForceFlush() = %v, want "200 OK, but the response is not OTLP"`, err)
			}
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			exported := int64(0)
			if tc.taken {
				exported = 10
			}
			check(t, p.p.Stats(), 10, exported, 0, delivery.Refused, 10-exported)
		})
	}
}

// A receiver that asks for a pause of an hour gets it, from all signals.
func TestRetryAfterHoldsBackEverything(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	quiet := slog.New(slog.DiscardHandler)

	r := &receiver{t: t, protocol: config.OTLPHTTP, url: s.URL}
	cfg := quick(r)
	cfg.QueueSize, cfg.BatchSize = 20, 10
	p := newPipeline(t, cfg, nil)
	p.record(10)
	until.True(t, "a request", func() bool { return calls.Load() > 0 })
	p.record(100)
	stats := p.p.Stats()
	if n := calls.Load(); n != 1 || stats.Dropped[delivery.QueueFull] == 0 || stats.DroppedTotal()+stats.Pending != 110 {
		t.Errorf("%d requests, stats %+v; want 1 request, queue full, 110 spans accounted for", n, stats)
	}
	within(t, func() {
		if err := p.Shutdown(t.Context()); err == nil {
			t.Error("no report of the spans that were not sent")
		}
	})
	// At the end there is no later attempt, so one more is made, unless the answer
	// to the first came only then; package delivery tests that one.
	if n := calls.Load(); n > 2 {
		t.Errorf("%d requests, want at most 2", n)
	}

	calls.Store(0)
	e, err := otlp.NewMetricExporter(t.Context(), otlp.Config{OTLP: config.OTLP{Endpoint: s.URL}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	reader := sdkmetric.NewPeriodicReader(e)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	counter, _ := provider.Meter("m").Int64Counter("c")
	counter.Add(t.Context(), 1)
	for range 5 {
		_ = provider.ForceFlush(t.Context()) // reports the failure
	}
	_ = provider.Shutdown(t.Context())
	if n := calls.Load(); n != 1 || e.Stats().Failures != 6 {
		t.Errorf("%d requests with metrics, stats %+v; want 1 request, 6 failures", n, e.Stats())
	}
}

// If everything is too large for a receiver, it is not asked span by span.
func TestEverythingIsTooLarge(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.script = func(int, []*tracepb.Span) reply { return full }
		r.start("")
		cfg := quick(r)
		cfg.QueueSize = 5000
		p := newPipeline(t, cfg, nil)
		p.record(5000)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		check(t, p.p.Stats(), 5000, 0, 0, delivery.Refused, 5000)
		if n := r.seen(); n > 40 {
			t.Errorf("%d requests, want at most 40", n)
		}
	})
}

const bad = "a\xffb"

// One invalid byte in the resource, which every request has, loses nothing.
func TestInvalidTextInTheResource(t *testing.T) {
	id := identity
	id.ApplicationName, id.SessionTag = bad, bad
	res, err := settings.Resource(t.Context(), id, []string{bad}, resource.NewWithAttributes(bad, attribute.String("own"+bad, bad)))
	if err != nil {
		t.Fatal(err)
	}
	forSignals(t, func(t *testing.T, s *signals) {
		s.start(t, nil)
		log := &notes{}
		l, err := otlp.NewLogs(t.Context(), s.config(), &otlp.LogsOptions{
			PerfTags: []string{bad}, Resource: res, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := attach(t.Context(), l, id); err != nil {
			t.Fatal(err)
		}
		_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, bad)}) // never fails
		if err := l.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if st := l.LogStats(); st.Exported != 1 || st.Dropped != 0 {
			t.Errorf("log stats %+v, want 1 exported, none dropped", st)
		}

		e, err := otlp.NewMetricExporter(t.Context(), s.config(), slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e)))
		measure(t, provider.Meter(bad, metric.WithInstrumentationVersion(bad)))
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if st := e.Stats(); st.Exports != 1 || st.Failures != 0 {
			t.Errorf("metric stats %+v, want 1 export, no failures", st)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.logs) != 1 || len(s.metrics) != 1 {
			t.Fatalf("%d requests with logs, %d with metrics; want 1 each: %s", len(s.logs), len(s.metrics), log)
		}
		for _, m := range []proto.Message{s.logs[0], s.metrics[0]} {
			text := prototext.Format(m)
			if n := strings.Count(text, "a\uFFFDb"); !utf8.ValidString(text) || n < 5 {
				t.Errorf("%d repaired texts, want 5 or more, all valid UTF-8, in %s", n, text)
			}
		}
	})
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		e, err := otlp.New(t.Context(), quick(r))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.ExportSpans(t.Context(), oddSpans(res)); err != nil {
			t.Error(err)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(r.names()) != 1 || !strings.Contains(prototext.Format(r.taken[0]), "a\uFFFDb") {
			t.Errorf("receiver got %v, want one span with the repaired text", r.taken)
		}
	})
}

// measure records one data point of each kind, with an invalid attribute.
func measure(t *testing.T, m metric.Meter) {
	t.Helper()
	with := metric.WithAttributes(attribute.String("k"+bad, bad))
	ints, _ := m.Int64Counter("ints", metric.WithDescription(bad))
	floats, _ := m.Float64Counter("floats")
	gauge, _ := m.Int64Gauge("gauge")
	gaugeOf, _ := m.Float64Gauge("gauge.of")
	histogram, _ := m.Float64Histogram("histogram")
	counts, _ := m.Int64Histogram("counts")
	ints.Add(t.Context(), 1, with)
	floats.Add(t.Context(), 1, with)
	gauge.Record(t.Context(), 1, with)
	gaugeOf.Record(t.Context(), 1, with)
	histogram.Record(t.Context(), 1, with)
	counts.Record(t.Context(), 1, with)
}

func oddSpans(res *resource.Resource) []sdktrace.ReadOnlySpan {
	return tracetest.SpanStubs{{
		Name: bad, Resource: res,
		Attributes:           []attribute.KeyValue{attribute.String(bad, bad), attribute.StringSlice("list", []string{bad})},
		Events:               []sdktrace.Event{{Name: bad, Attributes: []attribute.KeyValue{attribute.String(bad, bad)}}},
		Links:                []sdktrace.Link{{Attributes: []attribute.KeyValue{attribute.String(bad, bad)}}},
		Status:               sdktrace.Status{Description: bad},
		InstrumentationScope: instrumentation.Scope{Name: bad, Version: bad, SchemaURL: bad, Attributes: attribute.NewSet(attribute.String(bad, bad))},
	}}.Snapshots()
}
