package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// prometheusServer lets a Prometheus server fetch the metrics. A nil one does
// nothing.
type prometheusServer struct {
	server *http.Server
	url    string
	done   chan struct{} // closed when Serve has returned
}

// listenPrometheus opens the port. The configuration has checked that only this
// machine can reach it, or that others may.
func listenPrometheus(ctx context.Context, c *config.Prometheus, id outputs.Identity) (*prometheusServer, sdkmetric.Reader, error) {
	address, err := addressOf(c.Address, id.LocalRank.Or(0))
	if err != nil {
		return nil, nil, err
	}
	registry := prom.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
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
	s := &prometheusServer{
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		},
		url:  "http://" + listener.Addr().String() + "/metrics",
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // ends with close
	}()
	return s, reader, nil
}

// visibleLabels keeps values of labels to what can be shown: people look at the
// page too.
func visibleLabels(from prom.Gatherer) prom.Gatherer {
	return prom.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				m.Label = slices.Clone(m.Label) // of a metric that does not change it is always the same
				for i, l := range m.Label {
					value := display.Text(l.GetValue())
					m.Label[i] = &dto.LabelPair{Name: l.Name, Value: &value}
				}
			}
		}
		return families, err
	})
}

// addressOf gives every rank of a machine a port of its own: the one that is
// configured, plus the local rank.
func addressOf(address string, localRank int) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	if port != 0 {
		port += localRank
	}
	if port > 65535 {
		return "", fmt.Errorf("port %s plus local rank %d is no port", text, localRank)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// close ends the server: requests may end until ctx is done.
func (s *prometheusServer) close(ctx context.Context) error {
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
