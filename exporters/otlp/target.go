package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"google.golang.org/protobuf/proto"
)

// target is where requests go.
type target struct {
	url *url.URL    // with gRPC only the host is used
	tls *tls.Config // nil for a plain connection
}

// place returns the target for messages, without path and headers.
func (t *target) place() string { return t.url.Scheme + "://" + t.url.Host }

// signal is one of the three signals of telemetry, each with an address and settings.
type signal struct {
	of    func(*config.OTLP) config.OTLP
	url   func(*config.OTLP) string
	own   func(*config.OTLP) string // the address for this signal alone
	field string                    // the field with this address
}

var (
	traces  = signal{func(o *config.OTLP) config.OTLP { return *o }, (*config.OTLP).TracesURL, func(o *config.OTLP) string { return o.TracesEndpoint }, "traces_endpoint"}
	logs    = signal{(*config.OTLP).ForLogs, (*config.OTLP).LogsURL, func(o *config.OTLP) string { return o.LogsEndpoint }, "logs_endpoint"}
	metrics = signal{(*config.OTLP).ForMetrics, (*config.OTLP).MetricsURL, func(o *config.OTLP) string { return o.MetricsEndpoint }, "metrics_endpoint"}
)

func newTarget(c *Config, s signal) (target, error) {
	address := s.url(&c.OTLP)
	if address == "" {
		return target{}, fmt.Errorf("otlp: otlp.%s: field required: set it or otlp.endpoint", s.field)
	}
	grpc := c.Protocol == config.OTLPGRPC
	if grpc && !strings.Contains(address, "://") {
		scheme := "https://"
		if c.Insecure.Or(false) {
			scheme = "http://"
		}
		address = scheme + address
	}
	field := "otlp.endpoint"
	switch {
	case s.own(&c.OTLP) != "":
		field = "otlp." + s.field
	case c.Endpoint == "" && c.TracesEndpoint != "":
		field = "otlp.traces_endpoint"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" { // err has the URL, which may have a password
		return target{}, fmt.Errorf(`otlp: %s: is not a URL such as "http://localhost:4318"`, field)
	}
	if u.User != nil {
		return target{}, fmt.Errorf("otlp: %s: must not contain a user name or password: set the header authorization in otlp.headers", field)
	}
	if grpc && u.Scheme == "http" && u.Port() == "" {
		u.Host += ":4317"
	}
	t := target{url: u}
	if u.Scheme == "http" {
		// Certificates may be for another signal: one variable sets them for all.
		if c.TLS != nil {
			return target{}, fmt.Errorf("otlp: otlp.tls: certificates need TLS, but the endpoint %s uses http://: use https:// or remove the certificates", u.Host)
		}
		return t, nil
	}
	t.tls, err = newTLS(c)
	return t, err
}

// newTLS reads the certificates.
func newTLS(c *Config) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		out = c.TLS.Clone()
	}
	if c.Certificate != "" {
		pem, err := os.ReadFile(c.Certificate)
		if err != nil {
			return nil, fmt.Errorf("otlp: otlp.certificate: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("otlp: otlp.certificate: %s contains no PEM certificate", c.Certificate)
		}
		out.RootCAs = pool
	}
	if c.ClientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(c.ClientCertificate, c.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("otlp: otlp.client_certificate and otlp.client_key: %w", err)
		}
		out.Certificates = append(out.Certificates[:len(out.Certificates):len(out.Certificates)], pair)
	}
	return out, nil
}

// wire is what the clients of all signals share: how a request is made and how
// its failure is described.
type wire struct {
	cfg       *Config
	place     string          // for messages, without path and headers
	unit      string          // the name of the items sent
	transport *http.Transport // nil with gRPC
}

// attempt makes one request with call, within the configured timeout. The
// response is parsed into answer. absent reports that the backend does not
// support the signal.
func (w *wire) attempt(ctx context.Context, answer proto.Message, call func(context.Context) error) (f *delivery.Error, absent bool) {
	o := outcome{answer: answer}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	err := call(withOutcome(ctx, &o))
	return o.failure(ctx, err, w), o.absent
}

// retry returns the settings of pauses.
func (w *wire) retry() delivery.Options {
	return delivery.Options{RetryFor: w.cfg.RetryFor, RetryFirst: w.cfg.RetryFirst, RetryMost: w.cfg.RetryMost}
}

// closeIdle closes idle connections.
func (w *wire) closeIdle() {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
}

// errorf returns an error that names the place and has no header values.
func (w *wire) errorf(format string, args ...any) error {
	return errors.New("otlp: " + w.place + ": " + oneLine(fmt.Sprintf(format, args...), w.cfg.Headers))
}
