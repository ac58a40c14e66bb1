package ledger

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/metrics"
)

// Options say what becomes of the ledger. The zero Options keep it in memory.
type Options struct {
	// Dir is the directory of the run, the same for all its attempts. The state
	// is kept there, so that an attempt takes back the work that it does again,
	// and counts the time between. Empty means that an attempt knows nothing of
	// those before it.
	Dir string

	// Interval is how often the state is written; zero means 10 s. What a killed
	// attempt did after it was written last is not known to the next one.
	Interval time.Duration

	// Meter gets the metrics; nil means that of the provider, if it has one.
	Meter metric.MeterProvider

	// Windows are the lengths of time for which training.goodput.window.ratio
	// is reported in whole seconds; nil means five minutes and
	// one hour.
	Windows []time.Duration
}

// observe makes the metrics. They are asked when metrics are collected, and cost
// nothing in between.
func observe(o Options, b *books) (metric.Registration, error) {
	m := o.Meter.Meter("github.com/trainspan/trainspan/exporters/ledger", metric.WithInstrumentationVersion(identity.Version))
	in := metrics.Maker{Meter: m}
	ratio, window := in.Float64Observable(metrics.GoodputRatio), in.Float64Observable(metrics.GoodputWindowRatio)
	spent, committed := in.Float64Observable(metrics.Time), in.Float64Observable(metrics.TimeCommitted)
	if in.Err != nil {
		return nil, in.Err
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := b.live.Snapshot(b.telemetry.Now())
		if r := s.Ratio(); !math.IsNaN(r) {
			to.ObserveFloat64(ratio, r)
		}
		for category, ns := range s.Categories {
			to.ObserveFloat64(spent, float64(ns)/1e9, metric.WithAttributes(attribute.String("category", string(category))))
		}
		to.ObserveFloat64(committed, float64(s.Committed)/1e9)
		for _, length := range o.Windows {
			_, totals := b.live.Window(s.Time, length)
			if sum := totals.Sum(); sum > 0 {
				to.ObserveFloat64(window, float64(totals[goodput.Productive])/float64(sum),
					metric.WithAttributes(attribute.Int64("window_s", int64(length.Seconds()))))
			}
		}
		return nil
	}, ratio, window, spent, committed)
}
