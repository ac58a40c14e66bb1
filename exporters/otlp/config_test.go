package otlp_test

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
)

func TestFromEnv(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  []string
		on   bool
		err  string
		want func(c *otlp.Config) bool
	}{
		{name: "nothing"},
		{name: "asked for", env: []string{"OTEL_TRACES_EXPORTER=otlp"}, on: true,
			want: func(c *otlp.Config) bool { return c.TracesURL() == "http://localhost:4318/v1/traces" }},
		{name: "an endpoint", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:1"}, on: true},
		{name: "none", env: []string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h:1"}},
		{name: "disabled", env: []string{"OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h:1"}},
		{name: "the rest of the environment does not matter", env: []string{"RANK=nonsense", "TRAINSPAN_CONFIG=/none", "OTEL_TRACES_EXPORTER=otlp"}, on: true},
		{
			name: "everything", on: true,
			env: []string{
				"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc",
				"OTEL_EXPORTER_OTLP_ENDPOINT=https://h:1", "OTEL_EXPORTER_OTLP_HEADERS=a=b%20c",
				"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_TIMEOUT=2500",
				"OTEL_EXPORTER_OTLP_CERTIFICATE=ca.pem", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=c.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY=c.key",
				"OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=50", "OTEL_BSP_SCHEDULE_DELAY=7",
				"TRAINSPAN_OTLP_SPILL_DIR=/spill", "TRAINSPAN_OTLP_SPILL_BYTES=99",
			},
			want: func(c *otlp.Config) bool {
				return c.Protocol == config.OTLPGRPC && c.Endpoint == "https://h:1" && c.Headers["a"] == "b c" &&
					c.Compression == "gzip" && c.Timeout == 2500*time.Millisecond && c.Certificate == "ca.pem" &&
					c.ClientCertificate == "c.pem" && c.ClientKey == "c.key" &&
					c.QueueSize == 100 && c.BatchSize == 50 && c.BatchDelay == 7*time.Millisecond &&
					c.SpillDir == "/spill" && c.SpillBytes == 99
			},
		},
		{
			name: "values that count as not set", on: true,
			env:  []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_TIMEOUT=soon"},
			want: func(c *otlp.Config) bool { return c.Protocol == "" && c.Timeout == 0 },
		},
		{name: "bad headers", env: []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_HEADERS=a"}, err: "OTEL_EXPORTER_OTLP_HEADERS"},
		{name: "bad headers that are not sent", env: []string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_HEADERS=a"}},
		{name: "bad endpoint", env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost"}, err: "OTEL_EXPORTER_OTLP_ENDPOINT: otlp.endpoint: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, on, err := otlp.FromEnv(config.Environ(tc.env))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("FromEnv: %v, want an error of one line with %q", err, tc.err)
				}
				return
			}
			if err != nil || on != tc.on {
				t.Fatalf("FromEnv: on %v, error %v; want on %v", on, err, tc.on)
			}
			if tc.want != nil && !tc.want(&cfg) {
				t.Errorf("FromEnv: %+v is not as wanted", cfg)
			}
		})
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "not.pem")
	if err := os.WriteFile(file, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for _, tc := range []struct {
		name string
		cfg  otlp.Config
		want []string
	}{
		{"protocol", otlp.Config{OTLP: config.OTLP{Protocol: "udp"}}, []string{"otlp.protocol", "udp", "grpc"}},
		{"endpoint", otlp.Config{OTLP: config.OTLP{Endpoint: "localhost:4318"}}, []string{"otlp.endpoint", "http://localhost:4318"}},
		{"endpoint with a password", otlp.Config{OTLP: config.OTLP{Endpoint: "https://me:hunter2@host"}}, []string{"otlp.endpoint", "otlp.headers"}},
		{"traces endpoint", otlp.Config{OTLP: config.OTLP{TracesEndpoint: "://"}}, []string{"otlp.traces_endpoint"}},
		{"header name", otlp.Config{OTLP: config.OTLP{Headers: config.Headers{"a b": "hunter2"}}}, []string{"otlp.headers"}},
		{"header value", otlp.Config{OTLP: config.OTLP{Headers: config.Headers{"a": "hunter2\n"}}}, []string{"otlp.headers.a"}},
		{"certificate missing", otlp.Config{OTLP: config.OTLP{Endpoint: "https://h", Certificate: missing}}, []string{"otlp.certificate", missing}},
		{"certificate not one", otlp.Config{OTLP: config.OTLP{Endpoint: "https://h", Certificate: file}}, []string{"otlp.certificate", file, "PEM"}},
		{"client certificate", otlp.Config{OTLP: config.OTLP{Endpoint: "https://h", ClientCertificate: file, ClientKey: file}}, []string{"otlp.client_certificate"}},
		{"client key", otlp.Config{OTLP: config.OTLP{Endpoint: "https://h", ClientCertificate: file}}, []string{"otlp.client_key"}},
		{"TLS without TLS", otlp.Config{OTLP: config.OTLP{Endpoint: "http://h"}, TLS: &tls.Config{}}, []string{"otlp.tls", "https://"}},
		{"batch", otlp.Config{OTLP: config.OTLP{QueueSize: 1, BatchSize: 2}}, []string{"otlp.batch_size"}},
		{"spill", otlp.Config{OTLP: config.OTLP{SpillDir: file}}, []string{"spill", file}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := otlp.New(t.Context(), tc.cfg)
			if err == nil {
				_ = e.Shutdown(t.Context())
				t.Fatal("New with a wrong configuration: no error, want one")
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q, want one with %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line without the password", err)
			}
		})
	}
}

func TestNewWaitsForNobody(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		for _, address := range []string{closedPort(t), silentPort(t), "no-such-host.invalid:4317"} {
			r.url = "http://" + address
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // New must not keep the context
			e, err := otlp.New(ctx, quick(r))
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTLS(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	server := ca.issue("server")
	ca.issue("client")
	stranger.issue("client")
	files := func(a *authority, name string) (string, string) { return a.file(name + ".pem"), a.file(name + ".key") }
	for _, tc := range []struct {
		name string
		set  func(c *otlp.Config)
		ok   bool
	}{
		{"by files", func(c *otlp.Config) {
			c.Certificate = ca.file("ca.pem")
			c.ClientCertificate, c.ClientKey = files(ca, "client")
		}, true},
		{"by code", func(c *otlp.Config) {
			pair, err := tls.LoadX509KeyPair(files(ca, "client"))
			if err != nil {
				t.Fatal(err)
			}
			c.TLS = &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{pair}}
		}, true},
		{"bare address with grpc", func(c *otlp.Config) {
			c.Certificate = ca.file("ca.pem")
			c.ClientCertificate, c.ClientKey = files(ca, "client")
			if c.Protocol == config.OTLPGRPC {
				c.Endpoint = strings.TrimPrefix(c.Endpoint, "https://")
			}
		}, true},
		{"unknown authority", func(c *otlp.Config) { c.ClientCertificate, c.ClientKey = files(ca, "client") }, false},
		{"no client certificate", func(c *otlp.Config) { c.Certificate = ca.file("ca.pem") }, false},
		{"another's client certificate", func(c *otlp.Config) {
			c.Certificate = ca.file("ca.pem")
			c.ClientCertificate, c.ClientKey = files(stranger, "client")
		}, false},
		{"plain", func(c *otlp.Config) { c.Endpoint = "http://" + strings.TrimPrefix(c.Endpoint, "https://") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forProtocols(t, func(t *testing.T, r *receiver) {
				r.tls = &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert}
				r.start("")
				cfg := quick(r)
				cfg.RetryFor = -1
				tc.set(&cfg)
				p := newPipeline(t, cfg, nil)
				p.record(3)
				_ = p.ForceFlush(t.Context()) // the loss is checked below
				if err := p.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				s := p.p.Stats()
				if tc.ok {
					check(t, s, 3, 3, 0, delivery.TimedOut, 0)
				} else if s.Exported != 0 || s.DroppedTotal() != 3 || s.LastError == nil {
					t.Errorf("stats %+v, want 3 spans dropped and an error", s)
				}
			})
		})
	}
}

func TestInsecureByFlag(t *testing.T) {
	r := (&receiver{t: t, protocol: config.OTLPGRPC}).start("")
	cfg := quick(r)
	cfg.Endpoint, cfg.Insecure = r.address, config.Value(true)
	p := newPipeline(t, cfg, nil)
	p.record(1)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	check(t, p.p.Stats(), 1, 1, 0, 0, 0)
}
