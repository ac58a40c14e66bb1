package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/test/e2e/servers"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// job returns the configuration of a job of one rank that exports every span.
func job(service string) config.Config {
	cfg := config.Config{
		Base: config.Base{
			ApplicationName: service, SessionTag: config.Value("e2e"), WorldSize: config.Value(1),
			Training: &config.Training{
				PerfTag: config.Value("small"), GlobalBatchSize: config.Value(8), SeqLength: config.Value(16),
				LogEveryNTrainIterations: config.Value(5), SaveCheckpointStrategy: config.CheckpointSync,
			},
		},
		Export: config.Export{Mode: config.ExportAll},
	}
	cfg.Ranks.Rank = config.Value(0)
	return cfg
}

// newBuilder returns a builder for that job without exporters.
func newBuilder(service string) *telemetry.TrainingTelemetryBuilder {
	cfg := job(service)
	return telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg.Base).WithRanks(cfg.Ranks).WithExportCustomization(cfg.Export)
}

// send returns the configuration of an exporter to an address.
func send(protocol string, url string) otlp.Config {
	return otlp.Config{OTLP: config.OTLP{
		Protocol: protocol, Endpoint: url, Timeout: 5 * time.Second, BatchDelay: 100 * time.Millisecond,
	}}
}

// configure returns a provider that sends according to cfg.
func configure(t *testing.T, b *telemetry.TrainingTelemetryBuilder, cfg otlp.Config) *telemetry.Provider {
	t.Helper()
	exporter, err := otlp.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.WithSpanExporter(exporter).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) }) // does nothing after the test's own call
	return tel
}

var errOddBatch = errors.New("the batch is odd")

const demoSteps = 10

// demo is a complete small job: callbacks around its phases and most of its
// loop, scopes in the validation and the test, a plain OpenTelemetry span, and
// one iteration that fails.
func demo(ctx context.Context, tel *telemetry.Provider) error {
	cb := callbacks.New(tel)
	cb.OnAppStart(ctx)
	cb.OnDistributedInitStart(ctx)
	cb.OnDistributedInitEnd(ctx)
	cb.OnDataLoaderInitStart(ctx)
	cb.OnDataLoaderInitEnd(ctx)
	cb.OnModelInitStart(ctx)
	net := newNetwork(16, 8, 8)
	cb.OnModelInitEnd(ctx)
	cb.OnOptimizerInitStart(ctx)
	cb.OnOptimizerInitEnd(ctx)
	cb.OnLoadCheckpointStart(ctx)
	cb.OnLoadCheckpointEnd(ctx)
	cb.OnTrainStart(ctx, callbacks.TrainStart{})
	cb.OnEpochStart(ctx, 0)
	l := &loop{net: net, cb: cb}
	for range demoSteps {
		l.step(ctx)
	}
	failing, _ := cb.OnTrainingSingleIterationStart(ctx)
	_, transfer := tel.Tracer("demo/device").Start(failing, "transfer")
	transfer.SetAttributes(attribute.Int64("bytes", 4096), attribute.StringSlice("to", []string{"cuda:0", "cuda:1"}))
	transfer.End()
	cb.OnTrainingSingleIterationEnd(ctx, callbacks.IterationEnd{Err: errOddBatch})
	cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{GlobalStep: demoSteps})
	cb.OnSaveCheckpointSuccess(ctx, callbacks.SaveSuccess{GlobalStep: demoSteps, Size: callbacks.Some[int64](1 << 20), Directory: "checkpoints"})
	cb.OnSaveCheckpointEnd(ctx)
	evaluate := func(context.Context) error { net.load(); net.forward(); return nil }
	err := tel.Run(ctx, spans.ValidationLoop, func(ctx context.Context) error {
		return errors.Join(tel.Run(ctx, spans.ValidationIteration, evaluate), tel.Run(ctx, spans.ValidationIteration, evaluate))
	})
	cb.OnEpochEnd(ctx)
	cb.OnTrainEnd(ctx)
	err = errors.Join(err, tel.Run(ctx, spans.TestingLoop, func(ctx context.Context) error { return tel.Run(ctx, spans.TestingIteration, evaluate) }))
	cb.OnAppEnd(ctx)
	return err
}

// spanKeeper is a span processor that keeps every span.
type spanKeeper struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (w *spanKeeper) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (w *spanKeeper) OnEnd(s sdktrace.ReadOnlySpan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spans = append(w.spans, s)
}
func (w *spanKeeper) Shutdown(context.Context) error   { return nil }
func (w *spanKeeper) ForceFlush(context.Context) error { return nil }

// TestDemo runs a complete job and compares the spans in Jaeger with those that
// ended in the process, field by field.
func TestDemo(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	for _, protocol := range []string{config.OTLPGRPC, config.OTLPHTTP} {
		t.Run(strings.ReplaceAll(string(protocol), "/", "-"), func(t *testing.T) {
			url := "http://" + j.GRPC
			if protocol == config.OTLPHTTP {
				url = "http://" + j.HTTP
			}
			name, w := service(t), &spanKeeper{}
			tel := configure(t, newBuilder(name).WithSpanProcessor(w), send(protocol, url))
			if err := demo(t.Context(), tel); err != nil {
				t.Fatal(err)
			}
			if s := tel.Stats(); s.EndedSpans != int64(len(w.spans)) || s.ExportedSpans != s.EndedSpans || s.PendingSpans != 0 {
				t.Errorf("%d spans ended, want them all exported: %+v", len(w.spans), s)
			}
			found := spansOf(t, j.Query, name, len(w.spans))
			compare(t, found, w.spans)
			checkDemo(t, found)
			trace, err := j.Query.Trace(t.Context(), found[0].TraceID)
			if err != nil || len(trace) != len(found) {
				t.Errorf("the trace has %d spans, want %d: %v", len(trace), len(found), err)
			}
		})
	}
}

// compare compares Jaeger's spans with those of the process.
func compare(t *testing.T, found []servers.Span, want []sdktrace.ReadOnlySpan) {
	t.Helper()
	ids := byID(found)
	for _, w := range want {
		s, ok := ids[w.SpanContext().SpanID().String()]
		if !ok {
			t.Errorf("%s did not arrive", w.Name())
			continue
		}
		parent := ""
		if w.Parent().SpanID().IsValid() {
			parent = w.Parent().SpanID().String()
		}
		var events []servers.Event
		for _, e := range w.Events() {
			events = append(events, servers.Event{Name: e.Name, Time: e.Time.UnixNano(), Attributes: plain(e.Attributes)})
		}
		for _, c := range []struct {
			what      string
			got, want any
		}{
			{"name", s.Name, w.Name()},
			{"trace", s.TraceID, w.SpanContext().TraceID().String()},
			{"parent", s.ParentID, parent},
			{"start", s.Start, w.StartTime().UnixNano()},
			{"end", s.End, w.EndTime().UnixNano()},
			{"attributes", s.Attributes, plain(w.Attributes())},
			{"resource", s.Resource, plain(w.Resource().Attributes())},
			{"scope", s.Scope, w.InstrumentationScope().Name},
			{"events", s.Events, events},
			{"status", s.Status, w.Status().Description},
			{"links", len(s.Links), len(w.Links())},
		} {
			if got, want := text(c.got), text(c.want); got != want {
				t.Errorf("%s: %s is %s, want %s", w.Name(), c.what, got, want)
			}
		}
	}
}

// plain returns attributes in the form of a query result.
func plain(attrs []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(attrs))
	for _, a := range attrs {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// text returns the JSON text, in which maps are sorted.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// checkDemo checks the properties that follow from the job.
func checkDemo(t *testing.T, found []servers.Span) {
	t.Helper()
	ids := byID(found)
	counts := map[string]int{
		spans.Application: 1, spans.DistributedInit: 1, spans.DataLoaderInit: 1, spans.ModelInit: 1,
		spans.OptimizerInit: 1, spans.CheckpointLoad: 1, spans.TrainingLoop: 1, spans.Epoch: 1,
		spans.TrainingIteration: demoSteps + 1, spans.DataLoading: demoSteps, spans.ModelForward: demoSteps,
		spans.ZeroGrad: demoSteps, spans.ModelBackward: demoSteps, spans.OptimizerUpdate: demoSteps,
		"transfer": 1, spans.CheckpointSaveSync: 1, spans.ValidationLoop: 1, spans.ValidationIteration: 2,
		spans.TestingLoop: 1, spans.TestingIteration: 1,
	}
	for _, s := range found {
		counts[s.Name]--
		parents := []string{""}
		if info, ok := spans.Lookup(s.Name); ok {
			parents[0] = info.Parent
			if info.Parent == spans.TrainingLoop { // or below the epoch in it
				parents = append(parents, spans.Epoch)
			}
		} else {
			parents[0] = spans.TrainingIteration
		}
		if got := ids[s.ParentID].Name; !slices.Contains(parents, got) {
			t.Errorf("%s is below %q, want one of %q", s.Name, got, parents)
		}
		if s.TraceID != found[0].TraceID {
			t.Errorf("%s is in another trace, want one for the job", s.Name)
		}
		if parent, ok := ids[s.ParentID]; ok && (s.Start < parent.Start || s.End > parent.End) {
			t.Errorf("%s is not inside its parent", s.Name)
		}
	}
	for name, n := range counts {
		if n != 0 {
			t.Errorf("%s: %d too few, want 0", name, n)
		}
	}
	resource := found[0].Resource
	for _, key := range []string{"service.name", "service.instance.id", "host.name", "process.pid", "training.rank", "training.world_size", "training.session_tag", "training.perf_tag", "training.attempt"} {
		if resource[key] == nil {
			t.Errorf("the resource has no %s", key)
		}
	}
	for _, e := range []struct {
		span, event, key string
		want             any
	}{
		{spans.Application, spans.EventOneLoggerInitialization, onelogger.SessionTag, "e2e"},
		{spans.TrainingLoop, spans.EventTrainingMetricsUpdate, onelogger.NumTrainSamples, nil},
		{spans.CheckpointSaveSync, spans.EventSaveCheckpointSuccess, onelogger.CheckpointSize, int64(1 << 20)},
		{spans.CheckpointSaveSync, spans.EventSaveCheckpointSuccess, onelogger.CheckpointDirectory, "checkpoints"},
	} {
		if err := hasEvent(named(found, e.span), e.event, e.key, e.want); err != nil {
			t.Error(err)
		}
	}
	failed := 0
	for _, s := range named(found, spans.TrainingIteration) {
		if s.Failed {
			failed++
			if err := hasEvent([]servers.Span{s}, spans.EventError, onelogger.ErrorMessage, nil); err != nil || !strings.Contains(s.Status, errOddBatch.Error()) {
				t.Errorf("failed iteration has %q, want the error of the batch: %v", s.Status, err)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d iterations failed, want 1", failed)
	}
}

// hasEvent looks for an event with an attribute of a value, or any value if
// want is nil.
func hasEvent(all []servers.Span, event, key string, want any) error {
	for _, s := range all {
		for _, e := range s.Events {
			if got := e.Attributes[key]; e.Name == event && got != nil && (want == nil || got == want) {
				return nil
			}
		}
	}
	return fmt.Errorf("no event %s with %s = %v", event, key, want)
}
