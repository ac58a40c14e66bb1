package otlp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// A backend that answers is reachable, whatever the answer; only an answer
// distinguishes a busy backend from one that is gone.
func TestAnswersDifferFromSilence(t *testing.T) {
	silent, closed := silentPort(t), closedPort(t)
	for _, tc := range []struct {
		name    string
		do      reply
		address string // instead of the receiver's
		none    bool
	}{
		{name: "busy", do: busy},
		{name: "refuses", do: refuse},
		{name: "too large", do: full},
		{name: "hangs", do: hang, none: true},
		{name: "nobody listens", address: closed, none: true},
		{name: "nobody speaks", address: silent, none: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forProtocols(t, func(t *testing.T, r *receiver) {
				r.script = func(int, []*tracepb.Span) reply { return tc.do }
				r.start("")
				cfg := quick(r)
				if tc.address != "" {
					cfg.Endpoint = "http://" + tc.address
				}
				if tc.none {
					cfg.Timeout = 100 * time.Millisecond // any limit works: there is no answer
				}
				err := newExporter(t, cfg).ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "s"}}.Snapshots())
				var f *delivery.Error
				if !errors.As(err, &f) || f.NoAnswer != tc.none || tc.none && !f.Retry {
					t.Errorf("failure %+v, want NoAnswer %v, and a retry if there was no answer", f, tc.none)
				}
			})
		})
	}
}

// A backend that has just come back gets what a job still has at its end,
// although it was unreachable at the last attempt. gRPC alone would not try
// again for seconds.
func TestShutdownRetriesABackendThatCameBack(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		address, dials, free := turningAway(t)
		p := newPipeline(t, otlp.Config{
			OTLP:       config.OTLP{Protocol: r.protocol, Endpoint: "http://" + address, BatchDelay: time.Millisecond},
			RetryFirst: time.Second, RetryMost: time.Hour,
		}, nil)
		p.record(10)
		wanted := int64(1)
		if r.protocol == config.OTLPGRPC {
			wanted = 3 // its pauses grow
		}
		until.True(t, "a backend that was looked for in vain", func() bool {
			return p.p.Stats().Attempts > 0 && dials.Load() >= wanted
		})
		free()
		r.start(address)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(r.names()); n != 10 {
			t.Errorf("%d spans arrived, want 10", n)
		}
	})
}

// Log records do not wait for a backend that was never reachable, although
// there would be time; Shutdown reports what was lost.
func TestLogsFinishWithoutABackend(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		s.url = "http://" + closedPort(t)
		log := &notes{}
		cfg := s.config()
		cfg.BatchSize, cfg.BatchDelay = 2, time.Hour
		l := startLogs(t, cfg, log)
		for range 20 {
			_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")}) // never fails
		}
		var err error
		within(t, func() { err = l.Shutdown(context.Background()) })
		if err == nil || !strings.Contains(err.Error(), "20 records") {
			t.Errorf("Shutdown() = %v, want an error about 20 records", err)
		}
		if d := l.Stats().Delivery; d.Total != 20 || d.Dropped != 20 || d.Drops["not sent before shutdown"] != 20 || d.Unwanted {
			t.Errorf("delivery %+v, want 20 records, all dropped before shutdown", d)
		}
		if strings.Contains(log.String(), `"of":20`) {
			t.Errorf("log has the totals, want them only in the error: %s", log)
		}
	})
}

// An export of metrics to a backend that was never reachable is one attempt; a
// backend that was reachable is retried.
func TestMetricsWithoutABackend(t *testing.T) {
	forSignals(t, func(t *testing.T, s *signals) {
		there := s.start(t, nil)
		s.script = func(call, _ int) reply {
			if call == 2 {
				return busy
			}
			return accept
		}
		p, e := newMeters(t, there.config(), &notes{})
		add(t, p, 1)
		if err := errors.Join(p.ForceFlush(t.Context()), p.ForceFlush(t.Context())); err != nil || s.seen() != 3 {
			t.Errorf("ForceFlush twice: %v, %d requests; want no error and 3 requests in all", err, s.seen())
		}
		if d := e.Delivery(); d.Total != 2 || d.Sent != 2 || d.Dropped+d.Failed != 0 {
			t.Errorf("delivery %+v, want 2 exports, both sent", d)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}

		cfg := s.config()
		cfg.Endpoint, cfg.RetryFirst, cfg.RetryMost = "http://"+closedPort(t), time.Hour, time.Hour
		p, e = newMeters(t, cfg, &notes{})
		add(t, p, 1)
		within(t, func() {
			if p.ForceFlush(context.Background()) == nil || p.Shutdown(context.Background()) == nil {
				t.Error("metrics were lost without an error")
			}
		})
		if d := e.Delivery(); d.Total != 2 || d.Dropped != 2 || d.Failed != 2 || d.Sent != 0 {
			t.Errorf("delivery %+v, want 2 exports, both failed and dropped", d)
		}
	})
}

// Logs of a provider that is shutting down can be given to another one, which waits for the
// end of the first.
func TestLogsOpenDuringTheirShutdown(t *testing.T) {
	s := &signals{protocol: config.OTLPHTTP, script: func(int, int) reply { return hang }}
	cfg := s.start(t, nil).config()
	cfg.BatchDelay = time.Millisecond
	l := startLogs(t, cfg, &notes{})
	_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "e")})
	until.True(t, "a request", func() bool { return s.seen() > 0 })
	ctx, cut := context.WithCancel(t.Context())
	ended, opened := make(chan error, 1), make(chan error, 1)
	go func() { ended <- l.Shutdown(ctx) }()
	go func() {
		err := attach(t.Context(), l, identity)
		for err != nil && strings.Contains(err.Error(), "already started") { // Shutdown has not begun
			err = attach(t.Context(), l, identity)
		}
		opened <- err
	}()
	within(t, func() {
		for range 10 { // not blocked
			_ = l.Write([]outputs.Record{*event(loop(), outputs.KindEvent, "late")})
			_ = l.Stats()
		}
		cut()
		if err := <-ended; err == nil {
			t.Error("Shutdown() = nil, want an error about the record")
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	_ = l.Shutdown(stopped)
}
