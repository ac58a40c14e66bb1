package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(deathVariable); how != "" {
		dyingJob(how, os.Getenv(deathVariable+"_DIR"))
	}
	if os.Getenv(busyVariable) != "" {
		busy()
	}
	// If the tests share one busy core, spans come faster than they are sent.
	if err := os.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100000"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// memory keeps the records it gets.
type memory struct {
	outputs.None
	mu       sync.Mutex
	records  []outputs.Record
	segments []trace.SpanContext // of the span of each record, if it has segments
	segment  func(trace.SpanID) trace.SpanContext
	started  int
	shutdown int
	fail     error // returned by every Export if it is set
	startErr error
}

func (m *memory) Open(_ context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	m.segment = t.Segment
	m.started++
	return outputs.Traits{Ordered: true, Inline: true}, m.startErr
}

func (m *memory) Write(records []outputs.Record) error {
	r := &records[0]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if r.Kind != outputs.KindUpdate {
		var in trace.SpanContext
		if m.segment != nil && r.Span != nil {
			in = m.segment(r.Span.SpanID)
		}
		m.records, m.segments = append(m.records, *r), append(m.segments, in)
	}
	return nil
}

func (m *memory) Shutdown(context.Context) error {
	m.shutdown++
	return nil
}

func (m *memory) all() []outputs.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.records)
}

// events returns the records of events with that name.
func (m *memory) events(name string) (out []outputs.Record) {
	for _, r := range m.all() {
		if r.Event.Name == name {
			out = append(out, r)
		}
	}
	return out
}

// kinds returns the records as "kind span" or "kind event".
func (m *memory) kinds() (out []string) {
	for _, r := range m.all() {
		switch r.Kind {
		case outputs.KindStart, outputs.KindStop:
			out = append(out, r.Kind.String()+" "+r.Span.Name)
		default:
			out = append(out, r.Kind.String()+" "+r.Event.Name)
		}
	}
	return out
}

// attr returns the text of an attribute of a record's event.
func attr(r outputs.Record, key string) string { return attrIn(r.Event.Attributes, key) }

func attrIn(attrs []attributes.Attr, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			if a.Exact != nil {
				return fmt.Sprint(a.Exact)
			}
			return fmt.Sprint(a.Value.AsInterface())
		}
	}
	return ""
}

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_760_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// job is a provider with a memory exporter and a clock set by hand.
type job struct {
	tel   *telemetry.Provider
	cb    *callbacks.Callbacks
	mem   *memory
	clock *clock
	spans *tracetest.InMemoryExporter
	ctx   context.Context
}

func training() *config.Training {
	return &config.Training{
		PerfTag: config.Value("p"), GlobalBatchSize: config.Value(64), SeqLength: config.Value(2048),
		FlopsPerSample: config.Value(1250000000000), IsLogThroughputEnabled: config.Value(true),
		TrainIterationsTarget: config.Value(100), TrainSamplesTarget: config.Value(6400),
		LogEveryNTrainIterations: config.Value(2),
	}
}

func base() config.Base {
	return config.Base{
		ApplicationName: "app", SessionTag: config.Value("s"), WorldSize: config.Value(8), Training: training(),
	}
}

// kept is an exporter whose spans stay available after its shutdown.
type kept struct{ *tracetest.InMemoryExporter }

func (kept) Shutdown(context.Context) error { return nil }

func newJob(t *testing.T, change ...func(*config.Base, *telemetry.TrainingTelemetryBuilder)) *job {
	t.Helper()
	j := &job{mem: &memory{}, clock: newClock(), spans: tracetest.NewInMemoryExporter(), ctx: context.Background()}
	cfg := base()
	b := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithClock(j.clock.Now).
		WithExporter(j.mem).
		WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(kept{j.spans}))
	for _, c := range change {
		c(&cfg, b)
	}
	tel, err := b.WithBaseConfig(cfg).ConfigureProvider(j.ctx)
	if err != nil {
		t.Fatal(err)
	}
	j.tel, j.cb = tel, callbacks.New(tel)
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return j
}

func exportAll(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
	b.WithExportCustomization(config.Export{Mode: config.ExportAll})
}

// check fails the test if a callback returns an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func started(t *testing.T) func(context.Context, error) context.Context {
	return func(ctx context.Context, err error) context.Context {
		t.Helper()
		check(t, err)
		return ctx
	}
}

// iteration runs one training iteration of the given length.
func (j *job) iteration(t *testing.T, d time.Duration, end ...callbacks.IterationEnd) {
	t.Helper()
	started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
	j.clock.pass(d)
	check(t, j.cb.OnTrainingSingleIterationEnd(j.ctx, end...))
}

// stub returns the finished OpenTelemetry span with that name.
func (j *job) stub(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range j.spans.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %s was finished", name)
	return tracetest.SpanStub{}
}

func keyed(kvs []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range kvs {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// label returns the value of a data point's attribute in braces.
func label(kvs []attribute.KeyValue) string {
	for _, kv := range kvs {
		if !strings.HasPrefix(string(kv.Key), "otel.component.") { // on every standard metric
			return "{" + kv.Value.String() + "}"
		}
	}
	return ""
}
