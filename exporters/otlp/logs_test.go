package otlp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
)

var identity = outputs.Identity{
	Host: "node7", PID: 42, SessionTag: "tag", ApplicationName: "app",
	Ranks: config.Ranks{Rank: config.Value(3), LocalRank: config.Value(1), WorldSize: config.Value(8), Attempt: config.Value(2)},
}

// notes is a log that can be read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (s *signals) config() otlp.Config {
	return otlp.Config{
		OTLP:       config.OTLP{Protocol: s.protocol, Endpoint: s.url},
		RetryFirst: time.Millisecond, RetryMost: 20 * time.Millisecond,
	}
}

func startLogs(t *testing.T, cfg otlp.Config, log *notes) *otlp.Logs {
	t.Helper()
	l, err := otlp.NewLogs(t.Context(), cfg, &otlp.LogsOptions{
		PerfTags: []string{"a", "b"}, Resource: resource.NewSchemaless(attribute.String("team", "blue")),
		Logger: slog.New(slog.NewJSONHandler(log, nil)), ShutdownTimeout: plenty,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := attach(t.Context(), l, identity); err != nil {
		t.Fatal(err)
	}
	return l
}

// shut calls Shutdown with a deadline that no test should reach.
func shut(t *testing.T, l *otlp.Logs, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var err error
	within(t, func() { err = l.Shutdown(ctx) })
	return err
}

func event(span *outputs.SpanData, kind outputs.Kind, name string, attrs ...attributes.Attr) *outputs.Record {
	return &outputs.Record{Kind: kind, Span: span, Event: outputs.Event{Name: name, Time: 5e9, Attributes: attrs}}
}

func loop() *outputs.SpanData {
	return &outputs.SpanData{
		Name: spans.TrainingLoop, TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, ParentID: trace.SpanID{4}, Start: 5e9,
		Attributes: attrvalue.Extend(attrvalue.Int("train_iterations_start", 7)),
	}
}

func texts(attrs []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attrs {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_IntValue:
			out[a.GetKey()] = string(rune('0' + v.IntValue))
		default:
			out[a.GetKey()] = a.GetValue().GetStringValue()
		}
	}
	return out
}

func TestEventsOfOpenSpansArriveAsLogs(t *testing.T) {
	ca := newAuthority(t)
	server := ca.issue("server")
	forSignals(t, func(t *testing.T, s *signals) {
		s.start(t, &tls.Config{Certificates: []tls.Certificate{server}})
		cfg := s.config()
		cfg.Compression, cfg.Certificate, cfg.Headers = "gzip", ca.file("ca.pem"), config.Headers{"x-key": "hunter2"}
		log := &notes{}
		l := startLogs(t, cfg, log)
		span := loop()
		cut := *span
		cut.SpanID = cutSpan
		late := event(&cut, outputs.KindEvent, "late")
		for _, r := range []*outputs.Record{
			event(span, outputs.KindStart, "span_start"),
			event(span, outputs.KindEvent, "training_metrics_update", attrvalue.Int("step", 9), attrvalue.String("bad", "\xff")),
			event(span, outputs.KindError, "error", attrvalue.String(onelogger.ErrorMessage, "out of memory")),
			event(nil, outputs.KindDataError, "telemetry_data_error", attrvalue.String(onelogger.ErrorMessage, "a gap")),
			event(&outputs.SpanData{Name: spans.CheckpointSaveSync, TraceID: span.TraceID, SpanID: trace.SpanID{5}}, outputs.KindEvent, "save_checkpoint_success"),
			late,
			// Not sent: the span has these itself.
			event(span, outputs.KindStop, "span_stop"),
			event(&outputs.SpanData{Name: spans.CheckpointSaveSync}, outputs.KindStart, "span_start"),
			event(&outputs.SpanData{Name: "mine"}, outputs.KindStart, "span_start"),
			event(&outputs.SpanData{Name: "mine"}, outputs.KindStop, "span_stop"),
		} {
			if err := l.Write([]outputs.Record{*r}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.ForceFlush(t.Context()); err != nil { // nothing has ended yet
			t.Fatal(err)
		}
		records := s.taken()
		if len(records) != 6 {
			t.Fatalf("%d records arrived, want 6", len(records))
		}
		start, update, failure, gap := records[0], records[1], records[2], records[3]
		if start.GetEventName() != "span_start" || start.GetTimeUnixNano() != 5e9 || start.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_INFO ||
			hex.EncodeToString(start.GetTraceId()) != span.TraceID.String() || hex.EncodeToString(start.GetSpanId()) != span.SpanID.String() {
			t.Errorf("record of the start is %v, want span_start at 5 s in trace %s, span %s", start, span.TraceID, span.SpanID)
		}
		if a := texts(start.GetAttributes()); a["span.name"] != spans.TrainingLoop || a["parent_span_id"] != span.ParentID.String() || a["train_iterations_start"] != "7" {
			t.Errorf("attributes of the start are %v, want the name of the span, its parent and 7 as the first iteration", a)
		}
		if a := texts(update.GetAttributes()); a["step"] != "9" || a["bad"] != "�" || update.GetEventName() != "training_metrics_update" || a["train_iterations_start"] != "" {
			t.Errorf("update is %v, want step 9, the repaired value, and no attribute of the span", update)
		}
		if failure.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_ERROR || failure.GetBody().GetStringValue() != "out of memory" {
			t.Errorf(`error record is %v, want severity ERROR and "out of memory"`, failure)
		}
		if gap.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_WARN || len(gap.GetSpanId()) != 0 || gap.GetBody().GetStringValue() != "a gap" {
			t.Errorf(`data error is %v, want severity WARN, "a gap", and no span`, gap)
		}
		if in := records[5]; hex.EncodeToString(in.GetTraceId()) != lateSegment.TraceID().String() || hex.EncodeToString(in.GetSpanId()) != lateSegment.SpanID().String() ||
			texts(in.GetAttributes())["segment.of"] != cutSpan.String() {
			t.Errorf("event of a later segment is %v, want the trace and span of that segment, and segment.of", in)
		}
		a := texts(s.logs[0].GetResource().GetAttributes())
		if a["service.name"] != "app" || a["service.instance.id"] != "node7/42/3" || a["training.rank"] != "3" || a["training.attempt"] != "2" ||
			a["training.perf_tag"] != "a,b" || a["team"] != "blue" || a["training.local_rank"] != "1" {
			t.Errorf("resource is %v, want app, node7/42/3, rank 3, local rank 1, attempt 2, tag a,b, team blue", a)
		}
		if s.headers["x-key"] != "hunter2" || !s.gzip {
			t.Errorf("headers %v, gzip %v; want x-key: hunter2 and gzip", s.headers, s.gzip)
		}
		if err := shut(t, l, plenty); err != nil {
			t.Error(err)
		}
		if st := l.LogStats(); st.Recorded != 6 || st.Exported != 6 || st.Dropped != 0 || st.Pending != 0 {
			t.Errorf("stats %+v, want 6 recorded and exported", st)
		}
		if log.String() != "" {
			t.Errorf("log is %s, want it empty", log)
		}
	})
}

func TestAnswersToLogs(t *testing.T) {
	for _, tc := range []struct {
		name     string
		script   func(call, records int) reply
		exported int64
		cause    string
	}{
		{"busy, then fine", func(call, _ int) reply {
			if call < 3 {
				return busy
			}
			return accept
		}, 10, ""},
		{"connection lost, then fine", func(call, _ int) reply {
			if call == 1 {
				return disconnect
			}
			return accept
		}, 10, ""},
		{"partial success", func(int, int) reply { return reject2 }, 8, "refused by the backend"},
		{"refused", func(int, int) reply { return refuse }, 0, "refused by the backend"},
		{"too large", func(_, records int) reply {
			if records > 3 {
				return full
			}
			return accept
		}, 10, ""},
		{"busy for ever", func(int, int) reply { return busy }, 0, "not taken in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forSignals(t, func(t *testing.T, s *signals) {
				s.script = tc.script
				s.start(t, nil)
				cfg := s.config()
				cfg.Headers = config.Headers{"x-key": "hunter2"}
				if tc.cause == "not taken in time" {
					cfg.RetryFor = 100 * time.Millisecond
				}
				log := &notes{}
				l := startLogs(t, cfg, log)
				for range 10 {
					_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")}) // never fails
				}
				if err := l.ForceFlush(t.Context()); err != nil {
					t.Error(err)
				}
				st := l.LogStats()
				if st.Recorded != 10 || st.Exported != tc.exported || st.Dropped != 10-tc.exported || st.Pending != 0 || tc.cause != "" && st.Drops[tc.cause] != st.Dropped {
					t.Errorf("stats %+v, want 10 recorded, %d exported, the rest dropped for %q", st, tc.exported, tc.cause)
				}
				if st.Dropped > 0 && (st.LastError == nil || strings.Contains(st.LastError.Error(), "hunter2") || strings.Contains(st.LastError.Error(), "\n")) {
					t.Errorf("last error %v, want one line without the password", st.LastError)
				}
				if err := shut(t, l, plenty); err != nil {
					t.Error(err)
				}
				if n := int64(len(s.taken())); tc.cause == "" && n != 10 {
					t.Errorf("%d records arrived, want 10", n)
				}
				if lines := strings.Count(log.String(), "\n"); (lines == 1) != (tc.cause != "") || lines > 1 || strings.Contains(log.String(), "hunter2") {
					t.Errorf("log is %s, want one line for a loss, else none, without the password", log)
				}
			})
		})
	}
}

// The caller is never blocked, memory is bounded and every drop is counted,
// whatever the backend does; the shutdown keeps its deadline.
func TestLogsWithoutABackend(t *testing.T) {
	silent, closed := silentPort(t), closedPort(t)
	for _, place := range []struct{ name, address string }{{"silent", silent}, {"closed", closed}} {
		t.Run(place.name, func(t *testing.T) {
			forSignals(t, func(t *testing.T, s *signals) {
				s.url = "http://" + place.address
				cfg := s.config()
				cfg.QueueSize, cfg.BatchSize = 64, 16
				log := &notes{}
				l := startLogs(t, cfg, log)
				for range 1000 {
					_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")}) // never fails
				}
				if st := l.LogStats(); st.Pending > 64+16 || st.Recorded != 1000 || st.Dropped+st.Pending != 1000 {
					t.Errorf("stats %+v, want 1000 recorded, at most 80 pending, the rest dropped", st)
				}
				// Any limit works: there is no answer.
				if err := shut(t, l, 200*time.Millisecond); err == nil || !strings.Contains(err.Error(), "not sent before shutdown") {
					t.Errorf(`Shutdown() = %v, want "not sent before shutdown"`, err)
				}
				st := l.LogStats()
				if st.Exported != 0 || st.Pending != 0 || st.Dropped != 1000 || st.Drops["queue full"]+st.Drops["not sent before shutdown"] != 1000 || st.Drops["not sent before shutdown"] == 0 {
					t.Errorf("stats %+v, want 1000 dropped, some for a full queue, some at shutdown", st)
				}
				if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "further losses are counted") || !strings.Contains(log.String(), `"cause":"queue full"`) {
					t.Errorf("log has %d lines, want one about a full queue: %s", n, log)
				}
				if err := l.Shutdown(context.Background()); err == nil {
					t.Error("a second shutdown succeeds, want the error of the first")
				}
			})
		})
	}
}

// A shutdown ends at its own limit, or at that of a later call that joins it.
func TestShutdownOfLogsIsBounded(t *testing.T) {
	for _, cut := range []bool{false, true} {
		forSignals(t, func(t *testing.T, s *signals) { shutSilent(t, s, cut) })
	}
}

func shutSilent(t *testing.T, s *signals, cut bool) {
	t.Helper()
	limit := 10 * time.Millisecond // any limit works: there is no answer
	if cut {
		limit = time.Hour
	}
	s.script = func(int, int) reply { return hang }
	s.start(t, nil)
	l, err := otlp.NewLogs(t.Context(), s.config(), &otlp.LogsOptions{ShutdownTimeout: limit, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := attach(t.Context(), l, identity); err != nil {
		t.Fatal(err)
	}
	_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
	first := make(chan error, 1)
	go func() { first <- l.Shutdown(context.Background()) }()
	if cut {
		until.True(t, "the first one has begun to send", func() bool { return s.seen() > 0 })
		_ = shut(t, l, time.Millisecond)
	}
	if err := <-first; err == nil || !strings.Contains(err.Error(), "1 records") {
		t.Errorf("Shutdown() = %v, want an error about 1 record", err)
	}
	if st := l.LogStats(); st.Dropped != 1 || st.Pending != 0 {
		t.Errorf("stats %+v, want 1 dropped, none pending", st)
	}
}

// A shutdown without any time left still counts what was not sent, and ends the
// goroutines.
func TestShutdownOfLogsWithoutTime(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		s.script = func(int, int) reply { return hang }
		s.start(t, nil)
		cfg := s.config()
		cfg.BatchDelay = time.Hour
		l := startLogs(t, cfg, &notes{})
		_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
		if err := shut(t, l, 0); err == nil || !strings.Contains(err.Error(), "1 records") {
			t.Errorf("Shutdown() = %v, want an error about 1 record", err)
		}
		if st := l.LogStats(); st.Dropped != 1 || st.Pending != 0 {
			t.Errorf("stats %+v, want 1 dropped, none pending", st)
		}
	})
}

// The shutdown cuts a pause between two attempts short, and the backend that
// has come back gets everything.
func TestShutdownCutsThePause(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		var back sync.Map
		s.script = func(int, int) reply {
			if _, ok := back.Load("yes"); ok {
				return accept
			}
			return busy
		}
		s.start(t, nil)
		cfg := s.config()
		cfg.RetryFirst, cfg.RetryMost, cfg.RetryFor, cfg.BatchDelay = time.Hour, time.Hour, 10*time.Hour, time.Millisecond
		l := startLogs(t, cfg, &notes{})
		_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
		until.True(t, "an attempt that failed", func() bool { return l.LogStats().LastError != nil })
		back.Store("yes", true)
		if err := shut(t, l, plenty); err != nil {
			t.Error(err)
		}
		if st := l.LogStats(); st.Exported != 1 {
			t.Errorf("stats %+v, want 1 exported", st)
		}
	})
}

func TestLogsCanBeStartedAgain(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		s.start(t, nil)
		l := startLogs(t, s.config(), &notes{})
		if attach(t.Context(), l, identity) == nil {
			t.Error("a second start succeeds, want an error")
		}
		for range 2 {
			_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
			if err := shut(t, l, plenty); err != nil {
				t.Error(err)
			}
			_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "too late")})
			if err := attach(t.Context(), l, identity); err != nil { // a corrected builder
				t.Fatal(err)
			}
		}
		if err := shut(t, l, plenty); err != nil {
			t.Error(err)
		}
		if st := l.LogStats(); st.Exported != 2 || len(s.taken()) != 2 {
			t.Errorf("stats %+v, %d records arrived; want 2 exported, 2 arrived", st, len(s.taken()))
		}
	})
}

func TestLogsAreTalliedUnderConcurrency(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		s.start(t, nil)
		cfg := s.config()
		cfg.QueueSize, cfg.BatchSize, cfg.BatchDelay = 128, 32, time.Millisecond
		l := startLogs(t, cfg, &notes{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 500 {
					_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
					if i%100 == 0 {
						if err := l.ForceFlush(context.Background()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		_ = shut(t, l, plenty) // drops are expected
		st := l.LogStats()
		if st.Recorded != 2000 || st.Exported+st.Dropped != 2000 || int64(len(s.taken())) != st.Exported {
			t.Errorf("stats %+v, %d records arrived; want 2000 accounted for, all exported ones arrived", st, len(s.taken()))
		}
	})
}

func TestNilLogs(t *testing.T) {
	var l *otlp.Logs
	if attach(t.Context(), l, identity) != nil || l.Write([]outputs.Record{*event(nil, outputs.KindDataError, "e")}) != nil ||
		l.ForceFlush(t.Context()) != nil || l.Shutdown(t.Context()) != nil || l.LogStats().Recorded != 0 {
		t.Error("a nil exporter failed or recorded, want no effect")
	}
	closed, err := otlp.NewLogs(t.Context(), otlp.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if closed.Write([]outputs.Record{*event(nil, outputs.KindDataError, "e")}) != nil || closed.Shutdown(t.Context()) != nil || closed.ForceFlush(t.Context()) != nil {
		t.Error("an exporter that was not started did something")
	}
}

func TestNewLogsNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name string
		otlp config.OTLP
		want string
	}{
		{"no address", config.OTLP{TracesEndpoint: "http://h/x"}, "otlp.logs_endpoint"},
		{"password", config.OTLP{LogsEndpoint: "http://me:hunter2@h"}, "otlp.logs_endpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := otlp.NewLogs(t.Context(), otlp.Config{OTLP: tc.otlp}, nil); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("NewLogs: %v, want an error with %q and without the password", err, tc.want)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "key hunter2")
	_, err := otlp.NewLogs(t.Context(), otlp.Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_LOGS_HEADERS") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want one that names OTEL_EXPORTER_OTLP_LOGS_HEADERS, without the password", err)
	}
}

// attach opens the exporter. Events of the span from loop are in another
// segment if their name is late.
func attach(ctx context.Context, l *otlp.Logs, id outputs.Identity) error {
	_, err := l.Open(ctx, &outputs.Telemetry{Identity: id, Segment: func(of trace.SpanID) trace.SpanContext {
		if of == cutSpan {
			return lateSegment
		}
		return trace.SpanContext{}
	}})
	return err
}

// cutSpan is a span with segments, lateSegment its open segment.
var (
	cutSpan     = trace.SpanID{7, 7}
	lateSegment = trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{8}, SpanID: trace.SpanID{9}, TraceFlags: trace.FlagsSampled,
	})
)
