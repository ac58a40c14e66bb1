package telemetry_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
)

// counting generates the same ids in every run.
type counting struct{ n atomic.Uint64 }

func (c *counting) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], c.n.Add(1))
	return id
}

func (c *counting) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	return trace.TraceID{1}, c.NewSpanID(ctx, trace.TraceID{})
}

// ticking is a clock that advances by a millisecond per span.
type ticking struct{ clock }

// everyKind runs a job with spans of every kind: callbacks, scopes, the
// OpenTelemetry API, scopes of package ai, events, errors.
func everyKind(t *testing.T, tel *telemetry.Provider, tick func()) {
	t.Helper()
	ctx, cb, tree := context.Background(), callbacks.New(tel), ai.NewTree(tel)
	started(t)(cb.OnAppStart(ctx))
	tick()
	started(t)(cb.OnTrainStart(ctx, callbacks.TrainStart{}))
	for epoch := range 2 {
		tick()
		ectx, e := tel.Start(ctx, spans.Epoch, telemetry.Epoch(epoch))
		for i := range 2 {
			ictx, err := cb.OnTrainingSingleIterationStart(ectx)
			check(t, err)
			tick()
			started(t)(cb.OnModelForwardStart(ictx))
			fctx, f := tree.Compute.Forward.StartContext(ictx, attribute.Int("i", i))
			tick()
			_, plain := tel.Tracer("lib/nccl").Start(fctx, "all_reduce", trace.WithAttributes(attribute.Int("bytes", 1024)))
			plain.AddEvent("chunk", trace.WithAttributes(attribute.Int("n", 1)))
			tick()
			plain.End()
			f.End()
			check(t, cb.OnModelForwardEnd(ictx))
			tick()
			err = tel.TimedSpan(ictx, "flaky", func(ctx context.Context) error {
				tick()
				trace.SpanFromContext(ctx).AddEvent("retry")
				return errors.New("lost")
			})
			if err == nil {
				t.Error("got no error, want the function's error")
			}
			tick()
			check(t, cb.OnTrainingSingleIterationEnd(ictx))
		}
		for range tree.Pipeline.Epoch.Range(ectx, 2) {
			tick()
			tree.Compute.Step.Start(ectx).End()
		}
		tick()
		e.End()
	}
	check(t, cb.OnTrainEnd(ctx))
	tick()
	check(t, cb.OnAppEnd(ctx))
	check(t, tel.Shutdown(ctx))
}

// decorated runs the job with the outputs that build adds.
func decorated(t *testing.T, build func(*telemetry.TrainingTelemetryBuilder)) {
	t.Helper()
	c := &ticking{clock{now: time.Unix(1_760_000_000, 0)}}
	cfg := base()
	cfg.WorldSize = config.Value(1)
	b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(quietLog()).WithClock(c.Now).
		WithIDGenerator(&counting{}).WithIdentity(telemetry.Identity{Host: "node", PID: 7}).WithRanks(config.Ranks{Rank: config.Value(0)})
	build(b)
	tel, err := b.ConfigureProvider(context.Background())
	check(t, err)
	everyKind(t, tel, func() { c.pass(time.Millisecond) })
}

// A decorator that embeds an output loses nothing, and neither does one that
// only exposes the span processor of a trace file.
func TestDecoratorsLoseNothing(t *testing.T) {
	options := &pfw.Options{NoBegin: true, Trace: &dftracer.Options{Heartbeat: -1}}
	wrap := func(out outputs.Output) outputs.Output { return struct{ outputs.Output }{out} }
	same := func(out outputs.Output) outputs.Output { return out }

	t.Run("trace", func(t *testing.T) {
		run := func(attach func(b *telemetry.TrainingTelemetryBuilder, path string)) []string {
			path := filepath.Join(t.TempDir(), "trace.pfw")
			decorated(t, func(b *telemetry.TrainingTelemetryBuilder) { attach(b, path) })
			dftest.Check(t, path)
			return traceLines(t, path)
		}
		want := run(func(b *telemetry.TrainingTelemetryBuilder, path string) { b.WithExporter(pfw.New(path, options)) })
		for _, name := range []string{"/train.iteration", "/forward", "/all_reduce", "/epoch.block", "name=chunk", "step=1"} {
			if !strings.Contains(strings.Join(want, "\n"), name) {
				t.Fatalf("the trace has no %s:\n%s", name, strings.Join(want, "\n"))
			}
		}
		for name, attach := range map[string]func(b *telemetry.TrainingTelemetryBuilder, path string){
			"WithExporter, decorated": func(b *telemetry.TrainingTelemetryBuilder, path string) {
				b.WithExporter(wrap(pfw.New(path, options)))
			},
			"WithSpanExporter": func(b *telemetry.TrainingTelemetryBuilder, path string) { b.WithSpanExporter(pfw.New(path, options)) },
			"WithSpanExporter, decorated": func(b *telemetry.TrainingTelemetryBuilder, path string) {
				b.WithSpanExporter(struct{ *pfw.Exporter }{pfw.New(path, options)})
			},
			"WithSpanProcessor": func(b *telemetry.TrainingTelemetryBuilder, path string) {
				p, err := pfw.Create(path, options)
				check(t, err)
				b.WithSpanProcessor(p)
			},
			"WithSpanProcessor, decorated": func(b *telemetry.TrainingTelemetryBuilder, path string) {
				p, err := pfw.Create(path, options)
				check(t, err)
				b.WithSpanProcessor(struct{ sdktrace.SpanProcessor }{p})
			},
		} {
			if got := run(attach); !slices.Equal(got, want) {
				t.Errorf("%s: the trace differs:\n%s", name, difference(want, got))
			}
		}
	})

	t.Run("JSON lines", func(t *testing.T) {
		for _, compat := range []bool{false, true} {
			var texts [2]string
			for i, wrap := range []func(outputs.Output) outputs.Output{same, wrap} {
				path := filepath.Join(t.TempDir(), "records.jsonl")
				decorated(t, func(b *telemetry.TrainingTelemetryBuilder) {
					b.WithExporter(wrap(file.New(path, &file.Options{Compat: compat, Heartbeat: -1})))
				})
				data, err := os.ReadFile(path)
				check(t, err)
				texts[i] = string(data)
			}
			if texts[0] == "" || texts[0] != texts[1] {
				t.Errorf("compat %v: the traces differ or are empty:\n%s", compat, difference(strings.Split(texts[0], "\n"), strings.Split(texts[1], "\n")))
			}
		}
	})

	t.Run("OTLP logs", func(t *testing.T) {
		var texts [2][]string
		for i, wrap := range []func(outputs.Output) outputs.Output{same, wrap} {
			texts[i] = logRecords(t, wrap)
		}
		if len(texts[0]) == 0 || !slices.Equal(texts[0], texts[1]) {
			t.Errorf("traces are empty or differ:\n%s", difference(texts[0], texts[1]))
		}
	})

	t.Run("metrics", func(t *testing.T) {
		for _, decorate := range []bool{false, true} {
			m := &closingMeters{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
			decorated(t, func(b *telemetry.TrainingTelemetryBuilder) {
				b.WithExporter(&memory{})
				if decorate {
					b.WithMeterProvider(struct{ *closingMeters }{m})
				} else {
					b.WithMeterProvider(m)
				}
			})
			if m.ended != 1 {
				t.Errorf("decorated %v: ended %d times, want 1", decorate, m.ended)
			}
		}
	})
}

// closingMeters is a meter provider that telemetry shuts down.
type closingMeters struct {
	outputs.None
	*sdkmetric.MeterProvider
	ended int
}

func (m *closingMeters) Open(ctx context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Remote: true, Metrics: true}, nil
}
func (m *closingMeters) ForceFlush(ctx context.Context) error { return m.MeterProvider.ForceFlush(ctx) }
func (m *closingMeters) Shutdown(ctx context.Context) error {
	m.ended++
	return m.MeterProvider.Shutdown(ctx)
}

// traceLines returns the events of a trace without ids and lanes, below the
// names of their parents, sorted.
func traceLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	events := dftest.Events(t, path)
	names := map[int64]string{}
	for _, e := range events {
		if e.Phase == dftracer.PhaseComplete {
			names[int64(e.ID)] = fmt.Sprint(e.Name, " ", e.TS)
		}
	}
	for _, e := range events {
		if e.Phase == dftracer.PhaseMetadata && e.Name != tracefile.NameCustom || e.Cat == dftracer.CatDFTracer && e.Phase == dftracer.PhaseComplete {
			continue // framing: known when the file is made
		}
		line := fmt.Sprintf("%d %s/%s at %d for %d, level %d, below %q:", e.Phase, e.Cat, e.Name, e.TS, e.Dur, e.Level, names[e.Parent])
		if name, value := e.Meta(); e.Phase == dftracer.PhaseMetadata && names[e.Parent] == "" && !strings.Contains(value, "chunk") {
			_ = name
			continue // about the process
		}
		var args []string
		for _, a := range e.Args {
			text := a.Text()
			if a.Key == "exception_traceback" {
				continue
			}
			if a.Key == "span" {
				text = names[a.Int64()]
			}
			args = append(args, a.Key+"="+text)
		}
		slices.Sort(args)
		lines = append(lines, line+" "+strings.Join(args, " "))
	}
	slices.Sort(lines)
	return lines
}

// difference returns the lines that only one of both has.
func difference(want, got []string) string {
	var b strings.Builder
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintln(&b, "missing:", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintln(&b, "surplus:", l)
		}
	}
	return b.String()
}

// logRecords returns the records that a backend gets as OTLP logs.
func logRecords(t *testing.T, wrap func(outputs.Output) outputs.Output) (lines []string) {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var request logscollector.ExportLogsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		for _, rl := range request.GetResourceLogs() {
			for _, sl := range rl.GetScopeLogs() {
				for _, r := range sl.GetLogRecords() {
					r.ObservedTimeUnixNano = 0
					lines = append(lines, fmt.Sprintf("%s %d %x %v", r.GetEventName(), r.GetTimeUnixNano(), r.GetSpanId(), len(r.GetAttributes())))
				}
			}
		}
	}))
	defer server.Close()
	logs, err := otlp.NewLogs(context.Background(), otlp.Config{OTLP: config.OTLP{
		Endpoint: server.URL, Protocol: config.OTLPHTTP, Compression: "none",
	}}, &otlp.LogsOptions{Logger: quietLog()})
	check(t, err)
	decorated(t, func(b *telemetry.TrainingTelemetryBuilder) { b.WithExporter(wrap(logs)) })
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(lines)
	return lines
}
