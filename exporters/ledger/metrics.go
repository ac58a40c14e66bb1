package ledger

import (
	"context"
	"errors"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// observe makes the metrics. They are asked when metrics are collected, and cost
// nothing in between.
func observe(o Options, b *books) (metric.Registration, error) {
	m := o.Meter.Meter("github.com/trainspan/trainspan/exporters/ledger", metric.WithInstrumentationVersion(outputs.Version))
	ratio, err1 := m.Float64ObservableGauge("training.goodput.ratio", metric.WithUnit("1"),
		metric.WithDescription("Part of the time of all attempts so far that trained the model"))
	window, err2 := m.Float64ObservableGauge("training.goodput.window.ratio", metric.WithUnit("1"),
		metric.WithDescription("The same of the last seconds, by length"))
	// A resume takes work back, so that a category can fall.
	spent, err3 := m.Float64ObservableUpDownCounter("training.time", metric.WithUnit("s"),
		metric.WithDescription("Time of all attempts so far, by what it was spent on"))
	committed, err4 := m.Float64ObservableCounter("training.time.committed", metric.WithUnit("s"),
		metric.WithDescription("Productive time that saved checkpoints hold"))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
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
