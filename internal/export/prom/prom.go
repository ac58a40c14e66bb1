// Package prom serves metrics to a Prometheus server.
package prom

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/trainspan/trainspan/internal/platform/display"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// Server answers GET /metrics on one address. A nil Server does nothing. It is safe for
// concurrent use.
type Server struct {
	server *http.Server
	url    string
	done   chan struct{} // closed when Serve has returned
}

// Listen serves the metrics of a reader, which belongs to a meter provider, on
// address (host:port; port 0 takes a free one). The caller must have checked
// who can reach the address.
func Listen(ctx context.Context, address string, options ...prometheus.Option) (*Server, sdkmetric.Reader, error) {
	registry := prom.NewRegistry()
	reader, err := prometheus.New(append(options, prometheus.WithRegisterer(registry))...)
	if err != nil {
		return nil, nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(visibleLabels(registry), promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	s := &Server{
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		},
		url:  "http://" + listener.Addr().String() + "/metrics",
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // ends with Close
	}()
	return s, reader, nil
}

// URL returns the address of the metrics.
func (s *Server) URL() string {
	if s == nil {
		return ""
	}
	return s.url
}

// visibleLabels sanitizes the values of labels, because people read the page
// too.
func visibleLabels(from prom.Gatherer) prom.Gatherer {
	return prom.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				m.Label = slices.Clone(m.Label) // a metric that does not change is always the same
				for i, l := range m.Label {
					value := display.Text(l.GetValue())
					m.Label[i] = &dto.LabelPair{Name: l.Name, Value: &value}
				}
			}
		}
		return families, err
	})
}

// Close ends the server. It waits for requests until ctx is done.
func (s *Server) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	<-s.done
	return err
}
