package otlp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

func newProvider(t *testing.T, e *otlp.Exporter) *telemetry.Provider {
	t.Helper()
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "app", SessionTag: config.Value("tag"), WorldSize: config.Value(1)}).
		WithRanks(config.Ranks{Rank: config.Value(0)}).
		WithExportCustomization(config.Export{Mode: config.ExportAll}).
		WithSpanExporter(e).
		WithShutdownTimeout(plenty).
		ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// The provider repairs values that a backend could not take; the rest of the
// batch is unharmed.
func TestProviderWithOddValues(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		r.start("")
		e, err := otlp.New(t.Context(), quick(r))
		if err != nil {
			t.Fatal(err)
		}
		tel := newProvider(t, e)
		tracer := tel.Tracer("mine")
		for _, name := range sequence(20) {
			_, s := tracer.Start(context.Background(), name)
			s.SetAttributes(attribute.String("bad", "\xff\xfe"), attribute.String("large", strings.Repeat("x", 10<<20)))
			s.AddEvent("bad\xff")
			s.End()
		}
		within(t, func() {
			if err := tel.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		names := r.names()
		for _, want := range sequence(20) {
			if !slices.Contains(names, want) {
				t.Errorf("span %s is missing", want)
			}
		}
		for _, s := range spansOf(r.taken) {
			for _, a := range s.GetAttributes() {
				if n := len(a.GetValue().GetStringValue()); n > 64<<10 {
					t.Errorf("%s of %s has %d bytes, want at most %d", a.GetKey(), s.GetName(), n, 64<<10)
				}
			}
		}
		if s := tel.Stats(); s.DroppedSpans != 0 || s.ExportedSpans != int64(len(names)) || s.RepairedValues < 40 {
			t.Errorf("stats %+v, %d spans arrived; want all exported, none dropped, 40 values repaired or more", s, len(names))
		}
	})
}

// A backend that never answers costs the shutdown at most its deadline; every
// span is reported, or waits in the spill directory.
func TestProviderWithSilentBackend(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		forProtocols(t, func(t *testing.T, r *receiver) {
			r.script = func(int, []*tracepb.Span) reply { return hang }
			r.start("")
			cfg := quick(r)
			cfg.SpillDir = dir
			limit := 200 * time.Millisecond // any limit works: there is no answer
			if dir != "" {                  // time to write
				cfg.Timeout, limit = limit, plenty
			}
			e, err := otlp.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			tel, err := telemetry.NewTrainingTelemetryBuilder().
				WithBaseConfig(config.Base{ApplicationName: "app", SessionTag: config.Value("tag"), WorldSize: config.Value(1)}).
				WithRanks(config.Ranks{Rank: config.Value(0)}).
				WithSpanExporter(e).
				WithShutdownTimeout(limit).
				ConfigureProvider(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tracer := tel.Tracer("mine")
			for range 100 {
				_, s := tracer.Start(context.Background(), "s")
				s.End()
			}
			within(t, func() {
				if err := tel.Shutdown(context.Background()); (err == nil) != (dir != "") {
					t.Errorf("Shutdown() = %v, want an error: %v", err, dir != "")
				}
			})
			// The deadline may be over before the last of them is counted.
			until.True(t, "all is counted", func() bool { return tel.Stats().PendingSpans == 0 })
			s := tel.Stats()
			if s.EndedSpans != 100 || s.ExportedSpans != 0 || s.PendingSpans != 0 {
				t.Errorf("stats %+v, want 100 ended, none exported or pending", s)
			}
			if dir == "" {
				if s.DroppedSpans != 100 || s.Drops["not sent before shutdown"] != 100 {
					t.Errorf("stats %+v, want 100 dropped before shutdown", s)
				}
				return
			}
			healthy := (&receiver{t: t, protocol: r.protocol}).start("")
			got, err := otlp.Replay(t.Context(), dir, newExporter(t, quick(healthy)))
			if s.SpilledSpans != 100 || err != nil || got.Sent != 100 {
				t.Errorf("stats %+v, Replay() = %+v, %v; want 100 spilled and sent", s, got, err)
			}
		})
	}
}
