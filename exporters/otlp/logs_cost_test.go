package otlp_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

func TestShortSpansCostNothing(t *testing.T) {
	s := (&signals{protocol: config.OTLPHTTP}).start(t, nil)
	l := startLogs(t, s.config(), &notes{})
	short := &outputs.SpanData{Name: spans.ModelForward}
	start, stop := event(short, outputs.KindStart, "span_start"), event(short, outputs.KindStop, "span_stop")
	records := []outputs.Record{*start, *stop}
	if n := allocations(func() { _ = l.Write(records) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if err := shut(t, l, plenty); err != nil {
		t.Error(err)
	}
}

// allocations returns how often f allocates. It takes the least of some
// measurements, because sending in the background also allocates.
func allocations(f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for range 9 {
		least = min(least, testing.AllocsPerRun(100, f))
	}
	return least
}

// An event costs the training goroutine its record, and no more when the queue
// is full.
func TestAnEventCostsItsRecord(t *testing.T) {
	s := &signals{protocol: config.OTLPHTTP, script: func(int, int) reply { return hang }}
	s.start(t, nil)
	cfg := s.config()
	cfg.QueueSize, cfg.BatchSize = 16, 16
	l := startLogs(t, cfg, &notes{})
	update := event(loop(), outputs.KindEvent, "training_metrics_update", attrvalue.Int("step", 9), attrvalue.Float("loss", 2.5))
	records := []outputs.Record{*update}
	for range 100 { // the queue fills up
		_ = l.Write(records)
	}
	if n := allocations(func() { _ = l.Write(records) }); n > 16 { // 8; the race detector empties pools
		t.Errorf("%v allocations, want at most 16", n)
	}
	if err := shut(t, l, time.Millisecond); err == nil {
		t.Error("records of a silent backend count as sent, want lost")
	}
}

func BenchmarkAnEvent(b *testing.B) {
	l, err := otlp.NewLogs(b.Context(), otlp.Config{OTLP: config.OTLP{Endpoint: "http://127.0.0.1:1"}, RetryFor: -1},
		&otlp.LogsOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if err := attach(b.Context(), l, identity); err != nil {
		b.Fatal(err)
	}
	update := event(loop(), outputs.KindEvent, "training_metrics_update", attrvalue.Int("step", 9), attrvalue.Float("loss", 2.5))
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Write([]outputs.Record{*update})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // any limit works: nothing listens
	defer cancel()
	_ = l.Shutdown(ctx)
}
