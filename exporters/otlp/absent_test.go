package otlp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// A backend that only takes spans, such as Jaeger, is reported by one line per
// signal and not tried again; nothing fails because of it.
func TestBackendWithoutLogsAndMetrics(t *testing.T) {
	var asked atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer backend.Close()
	cfg := otlp.Config{OTLP: config.OTLP{Endpoint: backend.URL}}
	told := &notes{}
	log := slog.New(slog.NewTextHandler(told, nil))

	e, err := otlp.NewMetricExporter(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e, sdkmetric.WithInterval(time.Hour))))
	for range 3 {
		add(t, p, 1)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("metrics were sent %d times, want 1", n)
	}
	if s := e.Stats(); s.Failures != 1 || s.LastError == nil {
		t.Errorf("stats %+v, want 1 failure and its error", s)
	}

	asked.Store(0)
	logs, err := otlp.NewLogs(t.Context(), cfg, &otlp.LogsOptions{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := attach(t.Context(), logs, outputs.Identity{Host: "h", PID: 1, Ranks: config.Ranks{Rank: config.Value(0)}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := logs.Write([]outputs.Record{{Kind: outputs.KindDataError, Event: outputs.Event{Name: "gap", Time: 1}}}); err != nil {
			t.Error(err)
		}
		_ = logs.ForceFlush(t.Context())
	}
	if err := logs.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("log records were sent %d times, want 1", n)
	}
	if s := logs.LogStats(); s.Dropped != 3 || s.Recorded != 3 {
		t.Errorf("stats %+v, want 3 records, all dropped", s)
	}
	if got := told.String(); !strings.Contains(got, "does not accept metrics") || !strings.Contains(got, "does not accept log records") {
		t.Errorf("log is\n%s\nwant that neither metrics nor log records are accepted", got)
	}
}
