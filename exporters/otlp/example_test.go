package otlp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

func Example() {
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		fmt.Println(q.Method, q.URL.Path, q.Header.Get("X-Tenant"))
	}))
	defer backend.Close()

	ctx := context.Background()
	exporter, err := otlp.New(ctx, otlp.Config{
		OTLP: config.OTLP{Endpoint: backend.URL, Headers: config.Headers{"X-Tenant": "blue"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm", SessionTag: config.Value("run-42"), WorldSize: config.Value(1)}).
		WithRanks(config.Ranks{Rank: config.Value(0)}).
		WithSpanExporter(exporter).
		ConfigureProvider(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, sp := tel.Tracer("mine").Start(ctx, "preprocess")
	sp.End()
	if err := tel.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(tel.Stats().ExportedSpans, "span delivered")
	// Output:
	// POST /v1/traces blue
	// 1 span delivered
}

func ExampleFromEnv() {
	cfg, on, err := otlp.FromEnv(config.Environ([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://collector:4317",
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=secret",
	}))
	fmt.Println(on, err, cfg.Protocol, cfg.TracesURL(), cfg.Headers)

	_, on, err = otlp.FromEnv(config.Environ([]string{"OTEL_TRACES_EXPORTER=none"}))
	fmt.Println(on, err)
	// Output:
	// true <nil> grpc https://collector:4317 {api-key=REDACTED}
	// false <nil>
}

// Log records and metrics use the same settings as the spans.
func ExampleNewLogs() {
	ctx := context.Background()
	settings := otlp.Config{OTLP: config.OTLP{Endpoint: "http://127.0.0.1:4318"}, RetryFor: -1}
	logs, err := otlp.NewLogs(ctx, settings, &otlp.LogsOptions{PerfTags: []string{"small"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	exporter, err := otlp.NewMetricExporter(ctx, settings, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	b := telemetry.NewTrainingTelemetryBuilder().WithExporter(logs).WithMeterProvider(meters)
	fmt.Println(b.Err(), logs.LogStats().Exported)
	fmt.Println(logs.Shutdown(ctx), meters.Shutdown(ctx))
	// Output:
	// <nil> 0
	// <nil> <nil>
}
