package pfw_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestIdentityOfTelemetry checks that the identity from telemetry is in the trace and in its
// file name, and that values set by the program take precedence.
func TestIdentityOfTelemetry(t *testing.T) {
	rank, attempt := 5, 7
	id := outputs.Identity{Ranks: config.Ranks{Rank: config.Value(2), WorldSize: config.Value(8), Attempt: config.Value(3), Job: "4711"}, RankKnown: true, SessionTag: "tag", Host: "node-b", PID: 71}
	guessed := id
	guessed.RankKnown, guessed.Rank = false, config.Value(0)
	for name, c := range map[string]struct {
		id    outputs.Identity
		trace *dftracer.Options
		file  string
		want  map[string]string
	}{
		"known":   {id, nil, "trace-rank2.pfw", map[string]string{"rank": "2", "attempt": "3", "job_id": "4711", "session_tag": "tag", "host": "node-b", tracefile.KeyFlushInterval: "500000"}},
		"guessed": {guessed, nil, "trace.pfw", map[string]string{"rank": "0", "job_id": "4711"}},
		"its own": {id, &dftracer.Options{FlushInterval: 2 * time.Second, Process: dftracer.Process{Host: "here", Rank: &rank, Attempt: &attempt, JobID: "mine", SessionTag: "own"}},
			"trace-rank5.pfw", map[string]string{"rank": "5", "attempt": "7", "job_id": "mine", "session_tag": "own", "host": "here", tracefile.KeyFlushInterval: "2000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), &pfw.Options{Trace: c.trace, Cores: []int{3}})
			if _, err := e.Open(t.Context(), &outputs.Telemetry{Identity: c.id}); err != nil {
				t.Fatal(err)
			}
			path := e.Path()
			if err := e.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := filepath.Base(path); got != c.file {
				t.Errorf("the file is %s, want %s", got, c.file)
			}
			got := map[string]string{}
			for _, ev := range dftest.Events(t, path) {
				key, value := ev.Meta()
				switch {
				case ev.Name == tracefile.NameHostHash:
					got["host"] = key
				case ev.Name == tracefile.NameProcess, key == tracefile.KeyFlushInterval:
					got[key] = value
				case ev.Name == tracefile.NameStart:
					for i := range ev.Args {
						got[ev.Args[i].Key] = ev.Args[i].Text()
					}
				}
			}
			if got["core_affinity"] != "[3]" {
				t.Errorf("its cores are %q, want \"[3]\"", got["core_affinity"])
			}
			for key, want := range c.want {
				if got[key] != want {
					t.Errorf("%s is %q, want %q", key, got[key], want)
				}
			}
		})
	}
}

// TestNamesThatAreAlike checks that spans with one name but different scopes or name
// attributes are distinguished.
func TestNamesThatAreAlike(t *testing.T) {
	p, path := newTrace(t, &pfw.Options{NoBegin: true})
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	kinds := []struct{ scope, cat, event string }{{"x", "a", ""}, {"x", "b", ""}, {"x", "a", "other"}, {"x", "", ""}, {"y", "", ""}}
	const rounds = 3
	for range rounds {
		for _, k := range kinds {
			var attrs []attribute.KeyValue
			if k.cat != "" {
				attrs = append(attrs, attribute.String(spans.AttrCategory, k.cat))
			}
			if k.event != "" {
				attrs = append(attrs, attribute.String(spans.AttrName, k.event))
			}
			_, s := tp.Tracer(k.scope).Start(context.Background(), "item", trace.WithAttributes(attrs...), trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})}))
			s.End()
		}
	}
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, ev := range dftest.Events(t, path) {
		if ev.Cat == dftracer.CatDFTracer {
			continue
		}
		got[ev.Cat+"/"+ev.Name]++
		if _, some := ev.Arg("otel.dropped_links_count"); some {
			t.Errorf("%+v has dropped links, want none", ev)
		}
	}
	for _, want := range []string{"a/item", "b/item", "a/other", "x/item", "y/item"} {
		if got[want] != rounds {
			t.Errorf("%d spans %s, want %d: %v", got[want], want, rounds, got)
		}
	}
}

// TestAttachAgain checks that an exporter that is attached again, for example by a
// corrected builder, uses the new identity.
func TestAttachAgain(t *testing.T) {
	e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), nil)
	for rank := range 2 {
		if _, err := e.Open(t.Context(), &outputs.Telemetry{Identity: outputs.Identity{Ranks: config.Ranks{Rank: config.Value(rank), WorldSize: config.Value(8)}, RankKnown: true}}); err != nil {
			t.Fatal(err)
		}
		if got, want := filepath.Base(e.Path()), fmt.Sprintf("trace-rank%d.pfw", rank); got != want {
			t.Errorf("the file is %s, want %s", got, want)
		}
		if err := e.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAttachTwice checks that an exporter is not attached while it is open, and writes the
// file of the first telemetry on.
func TestAttachTwice(t *testing.T) {
	dir := t.TempDir()
	e := pfw.New(filepath.Join(dir, "trace.pfw"), nil)
	builder := func() *telemetry.TrainingTelemetryBuilder {
		return telemetry.NewTrainingTelemetryBuilder().WithLogger(slog.New(slog.DiscardHandler)).
			WithBaseConfig(config.Base{ApplicationName: "a", SessionTag: config.Value("s"), WorldSize: config.Value(1)})
	}
	tel, err := builder().WithExporter(e).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*telemetry.TrainingTelemetryBuilder{
		"another builder": builder().WithExporter(e),
		"twice":           builder().WithExporter(pfw.New(filepath.Join(dir, "other.pfw"), nil)).WithSpanExporter(e),
	} {
		if _, err := b.ConfigureProvider(t.Context()); err == nil || !strings.Contains(err.Error(), "already open") {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
	_, s := tel.StartSpan(t.Context(), "x")
	s.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := filepath.Base(e.Path()); got != "trace.pfw" {
		t.Errorf("the file is %s, want trace.pfw", got)
	}
	dftest.Check(t, e.Path())
	if byName(dftest.Events(t, e.Path()))["x"].Name == "" {
		t.Error("the span is not in the file of the first telemetry")
	}
	both := pfw.New(filepath.Join(dir, "both.pfw"), nil)
	if _, err := builder().WithExporter(both).WithSpanExporter(both).ConfigureProvider(t.Context()); err == nil {
		t.Error("an exporter was added to one builder twice without an error, want one")
	}
}
