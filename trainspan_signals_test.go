package trainspan_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/trainspan/trainspan"
)

// Headers for one signal do not go to the receiver of another.
func TestHeadersOfOneSignal(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	receiver := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			got[name+r.URL.Path] = r.Header.Get("Api-Key")
			w.Header().Set("Content-Type", "application/x-protobuf")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver("vendor")+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=secret")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver("agent"))
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=metrics")
	t.Chdir(t.TempDir())
	tel, err := trainspan.Start(t.Context(), trainspan.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	_, s := tel.StartSpan(t.Context(), "span")
	s.AddEvent("event")
	s.End()
	if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]string{"vendor/v1/traces": "secret", "agent/v1/logs": "", "agent/v1/metrics": "metrics"}
	if !maps.Equal(got, want) {
		t.Errorf("the receivers got the keys %v, want %v", got, want)
	}
}
