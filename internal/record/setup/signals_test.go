package setup_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// nothing is a span processor that does nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts a job with a training loop and three iterations.
func start(t *testing.T, cfg config.Config, o *setup.Options) (*telemetry.Provider, *callbacks.Callbacks, *setup.Outputs) {
	t.Helper()
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, o)
	must(t, err)
	tel, err := b.WithLogger(slog.New(slog.DiscardHandler)).ConfigureProvider(t.Context())
	must(t, err)
	cb := callbacks.New(tel)
	_, err = cb.OnAppStart(t.Context())
	must(t, err)
	_, err = cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	must(t, err)
	for range 3 {
		_, err = cb.OnTrainingSingleIterationStart(t.Context())
		must(t, err)
		must(t, cb.OnTrainingSingleIterationEnd(t.Context(), callbacks.IterationEnd{Loss: callbacks.Some(2.5)}))
	}
	return tel, cb, outputs
}

// runJob runs a whole job. It flushes the logs before the end.
func runJob(t *testing.T, cfg config.Config, o *setup.Options) *setup.Outputs {
	t.Helper()
	tel, cb, outputs := start(t, cfg, o)
	must(t, outputs.Logs.ForceFlush(t.Context()))
	must(t, cb.OnTrainEnd(t.Context()))
	_ = tel.Shutdown(context.Background()) // some tests expect refused spans
	return outputs
}

func quiet() *setup.Options { return &setup.Options{Logger: slog.New(slog.DiscardHandler)} }

func forBoth(t *testing.T, f func(t *testing.T, protocol string)) {
	t.Run("grpc", func(t *testing.T) { f(t, config.OTLPGRPC) })
	t.Run("http", func(t *testing.T) { f(t, config.OTLPHTTP) })
}

func described(r *resourcepb.Resource) map[string]string {
	out := map[string]string{}
	for _, a := range r.GetAttributes() {
		out[a.GetKey()] = a.GetValue().String()
	}
	return out
}

// TestSignals checks that events of the open loop and metrics arrive while it runs, that
// the last metrics include the delivery of spans and logs, and that all signals describe
// the process alike.
func TestSignals(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "from=env")
	t.Setenv("TRAINSPAN_ATTEMPT", "2")
	forBoth(t, func(t *testing.T, protocol string) {
		there := newCollector(t, protocol)
		cfg := there.job()
		cfg.OTel.ResourceAttributes = config.Pairs("team", "blue")
		tel, cb, outputs := start(t, cfg, &setup.Options{
			Resource: resource.NewSchemaless(attribute.String("mine", "yes")),
			Identity: telemetry.Identity{Host: "node7", PID: 42},
		})
		must(t, tel.ForceFlush(t.Context()))
		var names []string
		for _, r := range there.logs() {
			names = append(names, r.GetEventName())
		}
		for _, want := range []string{"span_start", "one_logger_initialization", "training_metrics_update"} {
			if !slices.Contains(names, want) {
				t.Errorf("event %s is missing in %v", want, names)
			}
		}
		if n := there.number("training.iterations"); n != 3 {
			t.Errorf("%v iterations while the loop is open, want 3", n)
		}
		c, err := outputs.Metrics.MeterProvider().Meter("mine").Int64Counter("mine", metric.WithUnit("1"))
		must(t, err)
		c.Add(t.Context(), 7)
		must(t, cb.OnTrainEnd(t.Context()))
		must(t, cb.OnAppEnd(t.Context()))
		must(t, tel.Shutdown(context.Background()))

		for name, want := range map[string]float64{
			"training.iterations": 3, "training.iteration.duration": 3, "training.samples": 12, "training.tokens": 96, "training.flops": 12000,
			"training.loss": 2.5, "otel.sdk.span.live": 0, "mine": 7,
			"otel.sdk.exporter.span.exported": float64(tel.Stats().ExportedSpans), "otel.sdk.exporter.log.exported": float64(outputs.Logs.LogStats().Exported),
		} {
			if got := there.number(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if tel.Stats().ExportedSpans == 0 || int(outputs.Logs.LogStats().Exported) != len(there.logs()) || outputs.Logs.LogStats().Dropped != 0 {
			t.Errorf("spans %+v, logs %+v, %d records arrived; want all exported, none dropped", tel.Stats(), outputs.Logs.LogStats(), len(there.logs()))
		}
		of := described(there.resources["traces"])
		for _, signal := range []string{"logs", "metrics"} {
			got := described(there.resources[signal])
			for key, v := range of {
				if got[key] != v {
					t.Errorf("%s of the %s is %s, want %s as of the traces", key, signal, got[key], v)
				}
			}
			if len(got) != len(of) {
				t.Errorf("the %s have %d attributes, want %d as the traces: %v", signal, len(got), len(of), got)
			}
		}
		for _, key := range []string{"team", "mine", "from", "training.attempt", "training.perf_tag", "training.local_rank"} {
			if of[key] == "" {
				t.Errorf("the resource has no %s: %v", key, of)
			}
		}
	})
}

func TestMetricsAtAnInterval(t *testing.T) {
	there := newCollector(t, config.OTLPHTTP)
	cfg := there.job()
	cfg.Outputs.OTLP.MetricsInterval = 5 * time.Millisecond
	tel, _, outputs := start(t, cfg, nil)
	until.True(t, "three exports of metrics", func() bool { return there.seen("metrics") >= 3 })
	must(t, tel.Shutdown(context.Background()))
	if s := outputs.Metrics.Delivery(); s.Sent < 3 || s.Failed != 0 {
		t.Errorf("delivery %+v, want 3 exports sent or more, none failed", s)
	}
}

func TestSwitches(t *testing.T) {
	for _, tc := range []struct {
		name          string
		env           []string
		set           func(c *config.Config, o *setup.Options)
		logs, metrics bool
	}{
		{name: "on by default", logs: true, metrics: true},
		{name: "logs off by configuration", set: func(c *config.Config, _ *setup.Options) { c.Outputs.OTLP.Logs = config.Value(false) }, metrics: true},
		{name: "metrics off by configuration", set: func(c *config.Config, _ *setup.Options) { c.Outputs.OTLP.Metrics = config.Value(false) }, logs: true},
		{name: "off by the environment", env: []string{"OTEL_LOGS_EXPORTER=none", "OTEL_METRICS_EXPORTER=none"}},
		{name: "off by code", set: func(_ *config.Config, o *setup.Options) {
			o.Logs, o.Metrics = config.Value(false), config.Value(false)
		}},
		{name: "code wins", env: []string{"OTEL_LOGS_EXPORTER=none"}, set: func(c *config.Config, o *setup.Options) {
			o.Logs, o.Metrics = config.Value(true), config.Value(false)
		}, logs: true},
		{name: "nobody knows where", set: func(c *config.Config, _ *setup.Options) {
			c.Outputs.OTLP.TracesEndpoint, c.Outputs.OTLP.Endpoint = c.Outputs.OTLP.Endpoint+"/v1/traces?x=1", ""
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			there := newCollector(t, config.OTLPHTTP)
			cfg, err := config.Load(config.LoadOptions{Code: there.job(), LookupEnv: config.Environ(tc.env)})
			must(t, err)
			o := quiet()
			if tc.set != nil {
				tc.set(&cfg, o)
			}
			outputs := runJob(t, cfg, o)
			if on := outputs.Logs != nil; on != tc.logs || on != (there.seen("logs") > 0) {
				t.Errorf("logs on: %v, %d requests; want %v", on, there.seen("logs"), tc.logs)
			}
			if on := outputs.Metrics != nil; on != tc.metrics || on != (there.seen("metrics") > 0) {
				t.Errorf("metrics on: %v, %d requests; want %v", on, there.seen("metrics"), tc.metrics)
			}
			if there.seen("traces") == 0 {
				t.Error("no spans arrived")
			}
		})
	}
}

// TestSilentReceiver checks that, with a receiver that never answers, the shutdown keeps
// its deadline, callbacks are not delayed, and every lost record is counted.
func TestSilentReceiver(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	forBoth(t, func(t *testing.T, protocol string) {
		cfg := (&collector{protocol: protocol, url: "http://" + listener.Addr().String()}).job()
		b, outputs, err := setup.NewBuilder(t.Context(), cfg, quiet())
		must(t, err)
		// The value of the timeout does not matter: the receiver never answers.
		tel, err := b.WithLogger(slog.New(slog.DiscardHandler)).WithShutdownTimeout(20 * time.Millisecond).ConfigureProvider(t.Context())
		must(t, err)
		cb := callbacks.New(tel)
		_, err = cb.OnAppStart(t.Context())
		must(t, err)
		end := tel.Shutdown
		if protocol == config.OTLPGRPC { // one protocol is enough to test the other way to end
			end = func(ctx context.Context) error {
				must(t, cb.OnAppEnd(ctx))
				return tel.Shutdown(ctx)
			}
		}
		if err := end(context.Background()); err == nil { // would hang without the default deadline
			t.Error("Shutdown returned no error, want one with the losses")
		}
		// The shutdown keeps its deadline even if the last loss is not counted yet.
		until.True(t, "all is counted", func() bool { return outputs.Logs.LogStats().Pending+tel.Stats().PendingSpans == 0 })
		if s := outputs.Logs.LogStats(); s.Recorded == 0 || s.Dropped != s.Recorded || s.Drops["not sent before shutdown"] != s.Dropped {
			t.Errorf("log stats %+v, want every record dropped at shutdown", s)
		}
		if s := tel.Stats(); s.DroppedSpans != s.EndedSpans || s.EndedSpans == 0 {
			t.Errorf("stats %+v, want every span dropped", s)
		}
		_ = outputs.Close(context.Background()) // is already shut down
	})
}

// TestTheEndOfTheApplicationLosesNoLogs checks that OnAppEnd, which closes the native
// exporters first, does not wait for the logs, and that no log record is lost.
func TestTheEndOfTheApplicationLosesNoLogs(t *testing.T) {
	there := newCollector(t, config.OTLPHTTP)
	tel, cb, outputs := start(t, there.job(), quiet())
	release, once := make(chan struct{}), sync.Once{}
	open := func() { once.Do(func() { close(release) }) }
	t.Cleanup(open)
	var pending int64
	there.script = func(signal string, _ int) bool {
		if signal == "logs" {
			<-release
			return true
		}
		pending = outputs.Logs.LogStats().Pending // the spans must not wait for the logs
		open()
		return true
	}
	must(t, cb.OnTrainEnd(t.Context()))
	must(t, cb.OnAppEnd(t.Context()))
	must(t, tel.Shutdown(context.Background())) // already done by OnAppEnd
	if s := outputs.Logs.LogStats(); pending == 0 || s.Dropped != 0 || s.Pending != 0 || s.Exported == 0 || int(s.Exported) != len(there.logs()) {
		t.Errorf("log stats %+v, %d arrived, %d were pending; want some pending, all exported, none dropped", s, len(there.logs()), pending)
	}
}

func fetch(t *testing.T, url string) (string, error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, want 200 OK", url, answer.Status)
	}
	return string(body), nil
}

func TestPrometheus(t *testing.T) {
	there := newCollector(t, config.OTLPHTTP)
	for _, withOTLP := range []bool{false, true} {
		cfg := there.job()
		if !withOTLP {
			cfg.Outputs.OTLP = config.OTLP{}
		}
		cfg.Outputs.Prometheus.Address = "127.0.0.1:0"
		cfg.OTel.ServiceName = "my-service"
		tel, _, outputs := start(t, cfg, quiet())
		url := outputs.Metrics.PrometheusURL()
		page, err := fetch(t, url)
		must(t, err)
		for _, want := range []string{"training_iterations_total{", "training_iteration_duration_seconds_bucket{", `target_info{`, `service_name="my-service"`, `training_rank="0"`} {
			if !strings.Contains(page, want) {
				t.Errorf("with OTLP %v, the page has no %s", withOTLP, want)
			}
		}
		if strings.Contains(page, "go_goroutines") {
			t.Error("the page shows the program's own registry")
		}
		must(t, tel.Shutdown(context.Background()))
		if _, err := fetch(t, url); err == nil {
			t.Error("the endpoint answers after the shutdown, want it closed")
		}
	}
}

// TestPrometheusWithInvalidText checks that an invalid byte in the job's description
// loses nothing, and that terminal control characters are not on the page.
func TestPrometheusWithInvalidText(t *testing.T) {
	cfg := job()
	cfg.Outputs = config.Outputs{Prometheus: config.Prometheus{Address: "127.0.0.1:0"}}
	cfg.ApplicationName, cfg.SessionTag = "a\xffb", config.Value("a\xffb")
	cfg.Training = &config.Training{PerfTag: config.Value("a\xffb"), GlobalBatchSize: config.Value(1)}
	cfg.OTel.ResourceAttributes = config.Pairs("team", "a\xffb", "role", "a\x1b]0;b\x07\u009b2J\u202e\r\nc")
	tel, _, outputs := start(t, cfg, quiet())
	page, err := fetch(t, outputs.Metrics.PrometheusURL())
	must(t, err)
	if !strings.Contains(page, "training_iterations_total{") || strings.Count(page, "a\uFFFDb") < 4 {
		t.Errorf("want the counter of iterations and 4 repaired labels on the page\n%s", page)
	}
	if strings.ContainsAny(page, "\x1b\x07\u009b\u202e\r") || !strings.Contains(page, `role="a·]0;b··2J···c"`) {
		t.Errorf("the page has control characters, want them replaced: %q", page)
	}
	must(t, tel.Shutdown(context.Background()))
}

func TestPrometheusAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for _, tc := range []struct {
		name       string
		prometheus config.Prometheus
		otlp       bool
		local      int
		want       string
	}{
		{name: "others can reach it", prometheus: config.Prometheus{Address: "0.0.0.0:0"}, want: "allow_remote"},
		{name: "taken", prometheus: config.Prometheus{Address: taken.Addr().String()}, otlp: true, want: "outputs.prometheus.address"},
		{name: "no port left", prometheus: config.Prometheus{Address: "127.0.0.1:65535"}, local: 1, want: "not a valid port"},
		{name: "allowed", prometheus: config.Prometheus{Address: "0.0.0.0:0", AllowRemote: config.Value(true)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := job()
			cfg.Outputs.Prometheus = tc.prometheus
			cfg.Ranks.LocalRank = config.Value(tc.local)
			if tc.otlp {
				cfg.Outputs.OTLP.Endpoint = "http://127.0.0.1:1"
			}
			_, outputs, err := setup.NewBuilder(t.Context(), cfg, quiet())
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) || tc.want == "" && err != nil {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			must(t, outputs.Close(t.Context()))
		})
	}
}

// TestRanksHavePortsOfTheirOwn checks that two ranks of a host with one configuration
// use different ports.
func TestRanksHavePortsOfTheirOwn(t *testing.T) {
	cfg := job()
	var outputs []*setup.Outputs
	for try := 0; len(outputs) < 2 && try < 20; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		cfg.Outputs.Prometheus.Address = l.Addr().String()
		l.Close()
		outputs = nil
		for rank := range 2 {
			cfg.Ranks = config.Ranks{Rank: config.Value(rank), LocalRank: config.Value(rank)}
			if _, o, err := setup.NewBuilder(t.Context(), cfg, quiet()); err == nil { // the next port may be taken
				outputs = append(outputs, o)
			}
		}
		if len(outputs) < 2 {
			for _, o := range outputs {
				must(t, o.Close(t.Context()))
			}
		}
	}
	if len(outputs) != 2 || outputs[0].Metrics.PrometheusURL() == outputs[1].Metrics.PrometheusURL() {
		t.Fatalf("%d outputs, want two on ports of their own", len(outputs))
	}
	for _, o := range outputs {
		must(t, o.Close(t.Context()))
	}
}

func TestNilMetrics(t *testing.T) {
	var m *setup.Metrics
	if m.MeterProvider() != nil || m.PrometheusURL() != "" || m.ForceFlush(t.Context()) != nil || m.Shutdown(t.Context()) != nil {
		t.Error("a nil Metrics returned values, want a no-op")
	}
}

func TestAConfigurationFunctionThatPanics(t *testing.T) {
	cfg := job()
	cfg.Outputs.OTLP.Endpoint = "http://127.0.0.1:1"
	cfg.SessionTag = config.Func(func() string { panic("not yet") })
	b := telemetry.NewTrainingTelemetryBuilder()
	if o, err := setup.Apply(t.Context(), b, cfg, quiet()); err == nil || o != nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf(`Apply() = %v, %v; want no outputs and the error "not yet"`, o, err)
	}
}
