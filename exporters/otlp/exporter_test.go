package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// pipeline is an SDK provider over a processor over an exporter.
type pipeline struct {
	*sdktrace.TracerProvider
	p *delivery.Processor
}

func newPipeline(t *testing.T, cfg otlp.Config, o *delivery.Options) *pipeline {
	t.Helper()
	e, err := otlp.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		o = &delivery.Options{}
	}
	o.ShutdownTimeout = plenty
	p := delivery.New(e, o)
	return &pipeline{sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(p),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "test"))),
	), p}
}

// record ends n spans s0, s1, …
func (p *pipeline) record(n int) {
	tracer := p.Tracer("test", otelVersion)
	for _, name := range sequence(n) {
		_, s := tracer.Start(context.Background(), name)
		s.SetAttributes(attribute.String("k", "v"))
		s.End()
	}
}

// plenty is a deadline that no test should reach.
const plenty = 5 * time.Minute

// quick retries without delay.
func quick(r *receiver) otlp.Config {
	return otlp.Config{
		OTLP:       config.OTLP{Protocol: r.protocol, Endpoint: r.url},
		RetryFirst: time.Millisecond, RetryMost: 50 * time.Millisecond,
	}
}

func forProtocols(t *testing.T, f func(t *testing.T, r *receiver)) {
	for _, protocol := range protocols {
		t.Run(strings.ReplaceAll(string(protocol), "/", " "), func(t *testing.T) {
			f(t, &receiver{t: t, protocol: protocol})
		})
	}
}

// check compares the counts with the expected ones.
func check(t *testing.T, s delivery.Stats, ended, exported, spilled int64, cause delivery.Cause, dropped int64) {
	t.Helper()
	var want [delivery.Causes]int64
	want[cause] = dropped
	if s.Ended != ended || s.Exported != exported || s.Spilled != spilled || s.Dropped != want || s.Pending != 0 {
		t.Errorf("stats %+v, want %d ended, %d exported, %d spilled, %v dropped, none pending", s, ended, exported, spilled, want)
	}
}

func TestSpansArrive(t *testing.T) {
	certificate := newAuthority(t).file("ca.pem")
	forProtocols(t, func(t *testing.T, r *receiver) {
		for _, compression := range []string{"", "none", "gzip"} {
			r := (&receiver{t: t, protocol: r.protocol}).start("")
			// A setting of the environment must not replace one in code.
			t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", map[string]string{"": "gzip", "none": "gzip", "gzip": "none"}[compression])
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-env=1")
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:1")
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
			t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate)
			cfg := quick(r)
			cfg.Compression = compression
			cfg.Headers = config.Headers{"x-key": "secret value", "x-tenant": "a"}
			p := newPipeline(t, cfg, &delivery.Options{MaxBatch: 32})
			p.record(100)
			within(t, func() {
				if err := p.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			check(t, p.p.Stats(), 100, 100, 0, 0, 0)
			if got := r.names(); !slices.Equal(got, sequence(100)) {
				t.Errorf("receiver got %d spans %v, want 100 in order", len(got), got)
			}
			if r.headers["x-key"] != "secret value" || r.headers["x-tenant"] != "a" || r.headers["x-env"] != "" {
				t.Errorf("headers %v, want x-key, x-tenant a, and no x-env", slices.Sorted(maps.Keys(r.headers)))
			}
			if r.gzip != (compression == "gzip") {
				t.Errorf("compression %q: gzip %v, want %v", compression, r.gzip, compression == "gzip")
			}
			if a := r.taken[0].GetResource().GetAttributes()[0]; a.GetKey() != "service.name" {
				t.Errorf("first resource attribute is %v, want service.name", a)
			}
		}
	})
}

func TestHTTPPath(t *testing.T) {
	for _, tc := range []struct{ endpoint, traces, want string }{
		{"", "", "/v1/traces"},
		{"/tenant/", "", "/tenant/v1/traces"},
		{"", "/custom?token=a%20b", "/custom?token=a%20b"},
	} {
		r := (&receiver{t: t, protocol: config.OTLPHTTP}).start("")
		cfg := quick(r)
		cfg.Endpoint = r.url + tc.endpoint
		if tc.traces != "" {
			cfg.TracesEndpoint = r.url + tc.traces
		}
		p := newPipeline(t, cfg, nil)
		p.record(1)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if r.path != tc.want {
			t.Errorf("path %q, want %q", r.path, tc.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		script   func(call int, spans []*tracepb.Span) reply
		retryFor time.Duration
		exported int64
		cause    delivery.Cause
		dropped  int64
		calls    int // 0 means any number
	}{
		{
			name: "busy twice",
			script: func(call int, _ []*tracepb.Span) reply {
				if call <= 2 {
					return busy
				}
				return accept
			},
			exported: 10, calls: 3,
		},
		{
			name: "disconnected twice",
			script: func(call int, _ []*tracepb.Span) reply {
				if call <= 2 {
					return disconnect
				}
				return accept
			},
			exported: 10,
		},
		{
			name:     "busy for ever",
			script:   func(int, []*tracepb.Span) reply { return busy },
			retryFor: 200 * time.Millisecond,
			cause:    delivery.TimedOut, dropped: 10,
		},
		{
			name:   "refused",
			script: func(int, []*tracepb.Span) reply { return refuse },
			cause:  delivery.Refused, dropped: 10, calls: 1,
		},
		{
			name:     "partial success",
			script:   func(int, []*tracepb.Span) reply { return reject2 },
			exported: 8, cause: delivery.Refused, dropped: 2, calls: 1,
		},
		{
			name: "too large until there are three",
			script: func(_ int, spans []*tracepb.Span) reply {
				if len(spans) > 3 {
					return full
				}
				return accept
			},
			exported: 10, calls: 7,
		},
		{
			name: "no answer to the first",
			script: func(call int, _ []*tracepb.Span) reply {
				if call == 1 {
					return hang
				}
				return accept
			},
			exported: 10, // in two calls, unless the machine is too busy for the second
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forProtocols(t, func(t *testing.T, r *receiver) {
				r.script = tc.script
				r.start("")
				cfg := quick(r)
				cfg.Headers = config.Headers{"x-key": "hunter2hunter2"}
				cfg.RetryFor = tc.retryFor
				cfg.Timeout = 20 * time.Second
				if tc.name == "no answer to the first" {
					cfg.Timeout = 300 * time.Millisecond
				}
				var told int64
				p := newPipeline(t, cfg, &delivery.Options{OnLoss: func(_ delivery.Cause, n int64, err error) {
					told += n
					if err == nil || strings.Contains(err.Error(), "hunter2") || strings.ContainsAny(err.Error(), "\n\r") {
						t.Errorf("reason %v, want one line without the password", err)
					}
				}})
				p.record(10)
				within(t, func() {
					if err := p.ForceFlush(t.Context()); (err != nil) != (tc.dropped > 0) {
						t.Errorf("ForceFlush() = %v, want an error: %v", err, tc.dropped > 0)
					}
					if err := p.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				})
				check(t, p.p.Stats(), 10, tc.exported, 0, tc.cause, tc.dropped)
				if told != tc.dropped {
					t.Errorf("reported %d dropped spans, want %d", told, tc.dropped)
				}
				if calls := r.seen(); tc.calls != 0 && calls != tc.calls {
					t.Errorf("%d calls, want %d", calls, tc.calls)
				}
			})
		})
	}
}

func TestBackendAway(t *testing.T) {
	for name, address := range map[string]func(*testing.T) string{"closed": closedPort, "silent": silentPort} {
		t.Run(name, func(t *testing.T) {
			forProtocols(t, func(t *testing.T, r *receiver) {
				t.Parallel()
				for _, dir := range []string{"", t.TempDir()} {
					r.url = "http://" + address(t)
					cfg := quick(r)
					cfg.SpillDir = dir
					cfg.Timeout = 100 * time.Millisecond // any limit works: there is no answer
					p := newPipeline(t, cfg, nil)
					p.record(200)
					within(t, func() {
						err := p.Shutdown(t.Context())
						if (err == nil) != (dir != "") {
							t.Errorf("Shutdown() = %v, want an error: %v", err, dir != "")
						}
					})
					if dir == "" {
						check(t, p.p.Stats(), 200, 0, 0, delivery.Shutdown, 200)
					} else {
						check(t, p.p.Stats(), 200, 0, 200, 0, 0)
					}
				}
			})
		})
	}
}

func TestBackendDiesHalfWay(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		cfg := quick(r)
		p := newPipeline(t, cfg, &delivery.Options{MaxBatch: 10})
		p.record(50)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.stop()
		before := p.p.Stats().Attempts
		p.record(70)
		over, ended := make(chan struct{}), make(chan error, 1)
		// Called on the processor, because the provider does not shut processors down
		// after the deadline.
		go func() { ended <- p.p.Shutdown(deadline{context.Background(), over}) }()
		until.True(t, "two attempts that fail", func() bool { return p.p.Stats().Attempts >= before+2 })
		close(over)
		if err := <-ended; err == nil {
			t.Error("Shutdown returned no error, want one for the lost spans")
		}
		check(t, p.p.Stats(), 120, 50, 0, delivery.Shutdown, 70)
		if got := r.names(); !slices.Equal(got, sequence(50)) {
			t.Errorf("receiver got spans %v, want the first 50", got)
		}
	})
}

func TestBackendComesBack(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		p := newPipeline(t, quick(r), &delivery.Options{MaxBatch: 10})
		p.record(20)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.stop()
		p.record(30)
		until.True(t, "two retries", func() bool { return p.p.Stats().Retries >= 2 })
		again := (&receiver{t: t, protocol: r.protocol}).start(r.address)
		within(t, func() {
			if err := errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context())); err != nil {
				t.Error(err)
			}
		})
		check(t, p.p.Stats(), 50, 50, 0, 0, 0)
		if got := len(r.names()) + len(again.names()); got != 50 {
			t.Errorf("%d spans arrived, want 50", got)
		}
	})
}

func TestOddValuesLoseNothing(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		p := newPipeline(t, quick(r), nil)
		tracer := p.Tracer("bad\xffscope")
		_, s := tracer.Start(t.Context(), "bad\xffname")
		s.SetAttributes(attribute.String("bad\xffkey", "bad\xffvalue"), attribute.StringSlice("list", []string{"ok", "\xc3\x28"}))
		s.AddEvent("bad\xffevent")
		s.End()
		_, s = tracer.Start(t.Context(), "large")
		s.SetAttributes(attribute.String("large", strings.Repeat("x", 10<<20)))
		s.End()
		p.record(50)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		check(t, p.p.Stats(), 52, 52, 0, 0, 0)
		if got := r.names(); len(got) != 52 || got[0] != "bad�name" || got[1] != "large" {
			t.Errorf("receiver got spans %v, want 52, first the repaired name, then large", got)
		}
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	r := (&receiver{t: t, protocol: config.OTLPHTTP}).start("")
	there := redirecting(t, r.url)
	cfg := quick(r)
	cfg.Endpoint = there
	cfg.Headers = config.Headers{"x-key": "secret"}
	p := newPipeline(t, cfg, nil)
	p.record(1)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	check(t, p.p.Stats(), 1, 0, 0, delivery.Refused, 1)
	if r.seen() != 0 {
		t.Error("the headers were sent to another host")
	}
}

func TestNoHeaderIsLogged(t *testing.T) {
	const secret = "sk-12345-secret"
	var out bytes.Buffer
	log.SetOutput(&out)
	defer log.SetOutput(log.Default().Writer())
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(previous)

	// OpenTelemetry's own reader prints what it cannot parse.
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", secret)
	_, err := otlp.New(t.Context(), otlp.Config{})
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_HEADERS") {
		t.Errorf("error %v, want one that names OTEL_EXPORTER_OTLP_HEADERS", err)
	}
	_, _, fromEnv := otlp.FromEnv(config.Environ([]string{"OTEL_EXPORTER_OTLP_HEADERS=" + secret}))
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "")
	cfg := otlp.Config{OTLP: config.OTLP{Headers: config.Headers{"x-key": secret}, Endpoint: "http://" + closedPort(t)}}
	e, err2 := otlp.New(t.Context(), cfg)
	if err2 != nil {
		t.Fatal(err2)
	}
	all := fmt.Sprintln(out.String(), handled, err, fromEnv, e.ExportSpans(t.Context(), nil), fmt.Sprintf("%v %+v", cfg, cfg))
	if strings.Contains(all, secret) {
		t.Errorf("the secret is in the text: %s", all)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdownOfAnExporter(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		e, err := otlp.New(t.Context(), quick(r))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := e.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		var none *otlp.Exporter
		if err := errors.Join(none.Shutdown(t.Context()), none.ExportSpans(t.Context(), nil)); err != nil {
			t.Error(err)
		}
	})
}
