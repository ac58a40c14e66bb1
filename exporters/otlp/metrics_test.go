package otlp_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// newMeters returns a meter provider that sends only on request.
func newMeters(t *testing.T, cfg otlp.Config, log *notes) (*sdkmetric.MeterProvider, *otlp.MetricExporter) {
	t.Helper()
	e, err := otlp.NewMetricExporter(t.Context(), cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return sdkmetric.NewMeterProvider(
		sdkmetric.WithResource(resource.NewSchemaless(attribute.String("service.name", "app"))),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e, sdkmetric.WithInterval(time.Hour))),
	), e
}

func add(t *testing.T, p *sdkmetric.MeterProvider, n int64) {
	t.Helper()
	c, err := p.Meter("test").Int64Counter("c")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(context.Background(), n)
}

func TestMetricsArrive(t *testing.T) {
	ca := newAuthority(t)
	server := ca.issue("server")
	forSignals(t, func(t *testing.T, s *signals) {
		s.script = func(call, _ int) reply {
			if call == 2 {
				return busy
			}
			return accept
		}
		s.start(t, &tls.Config{Certificates: []tls.Certificate{server}})
		cfg := s.config()
		cfg.Compression, cfg.Certificate, cfg.Headers = "gzip", ca.file("ca.pem"), config.Headers{"x-key": "hunter2"}
		log := &notes{}
		p, e := newMeters(t, cfg, log)
		if err := p.ForceFlush(t.Context()); err != nil || s.seen() != 0 {
			t.Errorf("ForceFlush without a measurement = %v, %d requests; want none", err, s.seen())
		}
		add(t, p, 2)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, p, 3)
		if err := p.Shutdown(t.Context()); err != nil { // after a busy answer
			t.Fatal(err)
		}
		if len(s.metrics) != 2 || s.headers["x-key"] != "hunter2" || !s.gzip {
			t.Fatalf("%d exports, headers %v, gzip %v; want 2, x-key: hunter2, gzip", len(s.metrics), s.headers, s.gzip)
		}
		m := s.metrics[1].GetScopeMetrics()[0].GetMetrics()[0]
		if sum := m.GetSum(); m.GetName() != "c" || sum.GetDataPoints()[0].GetAsInt() != 5 ||
			sum.GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
			t.Errorf("metric is %v, want c with the cumulative sum 5", m)
		}
		if a := texts(s.metrics[0].GetResource().GetAttributes()); a["service.name"] != "app" {
			t.Errorf("resource is %v, want service app", a)
		}
		if st := e.Stats(); st.Exports != 2 || st.Failures != 0 || log.String() != "" {
			t.Errorf("stats %+v, log %s; want 2 exports, no failure, an empty log", st, log)
		}
	})
}

func TestMetricsThatFail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script func(call, records int) reply
		silent bool // and the time is over while the request is in progress
	}{
		{"refused", func(int, int) reply { return refuse }, false},
		{"too large", func(int, int) reply { return full }, false},
		{"silent", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forSignals(t, func(t *testing.T, s *signals) {
				s.script = tc.script
				s.start(t, nil)
				ctx := t.Context()
				if tc.silent {
					var address string
					address, ctx = silentServer(t)
					s.url = "http://" + address
				}
				cfg := s.config()
				cfg.Headers = config.Headers{"x-key": "hunter2"}
				log := &notes{}
				p, e := newMeters(t, cfg, log)
				add(t, p, 1)
				if !tc.silent {
					if err := p.ForceFlush(t.Context()); err == nil {
						t.Error("a flush that failed gave no error")
					}
				}
				within(t, func() {
					if err := p.Shutdown(ctx); err == nil {
						t.Error("a shutdown that failed gave no error")
					}
				})
				st := e.Stats()
				if st.Exports != 0 || st.Failures == 0 || st.LastError == nil {
					t.Errorf("stats %+v, want no export, some failures and their error", st)
				}
				if strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "hunter2") {
					t.Errorf("log is %s, want one line without the password", log)
				}
			})
		})
	}
}

func TestNewMetricExporterNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name string
		otlp config.OTLP
		want string
	}{
		{"no address", config.OTLP{TracesEndpoint: "http://h/x"}, "otlp.metrics_endpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := otlp.NewMetricExporter(t.Context(), otlp.Config{OTLP: tc.otlp}, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("NewMetricExporter: %v, want an error with %q", err, tc.want)
			}
		})
	}
}
