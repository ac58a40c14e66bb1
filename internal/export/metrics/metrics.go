// Package metrics is the one table of the metrics that this library makes: their
// names, units and meanings. Instruments are made from it, and so are the tables of
// docs/reference/signals.md, the alerts and the dashboards of deploy.
package metrics

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// Kind is what a metric is to OpenTelemetry. Counters and histograms are cumulative.
type Kind string

// The kinds in use.
const (
	Counter   Kind = "counter"
	UpDown    Kind = "up-down counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is a row of the table.
type Metric struct {
	Name, Unit string // the unit is a base unit of UCUM
	Kind       Kind
	Text       string // the meaning, which is the instrument's description
	By         string // its attributes
	OneLogger  string // one-logger's attributes for the same, in Markdown
	Elsewhere  string // the names that others have for it, in Markdown
}

// Group are the metrics of a namespace.
type Group struct {
	Namespace string
	Why       string // what the namespace is for: for ours, why no standard one will do
	Metrics   []*Metric
}

// Maker makes instruments. What could not be made is in Err; the SDK gives instruments
// that do nothing in its place.
type Maker struct {
	Meter metric.Meter
	Err   error
}

// Bounds are the upper limits of the buckets of a histogram, in seconds: from a
// millisecond to ten minutes.
var Bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600}

// Histogram returns one of seconds with [Bounds].
func (m *Maker) Histogram(of *Metric) metric.Float64Histogram {
	i, err := m.Meter.Float64Histogram(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text), metric.WithExplicitBucketBoundaries(Bounds...))
	return keep(m, i, err)
}

// Int64Counter returns a counter that is added to.
func (m *Maker) Int64Counter(of *Metric) metric.Int64Counter {
	i, err := m.Meter.Int64Counter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep(m, i, err)
}

// Float64Counter returns a counter that is added to.
func (m *Maker) Float64Counter(of *Metric) metric.Float64Counter {
	i, err := m.Meter.Float64Counter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep(m, i, err)
}

// Float64Gauge returns a gauge that is set.
func (m *Maker) Float64Gauge(of *Metric) metric.Float64Gauge {
	i, err := m.Meter.Float64Gauge(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep(m, i, err)
}

// Int64Observable returns a counter or an up-down counter that is asked for.
func (m *Maker) Int64Observable(of *Metric) metric.Int64Observable {
	if of.Kind == UpDown {
		i, err := m.Meter.Int64ObservableUpDownCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
		return keep[metric.Int64Observable](m, i, err)
	}
	i, err := m.Meter.Int64ObservableCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep[metric.Int64Observable](m, i, err)
}

// Float64Observable returns a counter, an up-down counter or a gauge that is asked for.
func (m *Maker) Float64Observable(of *Metric) metric.Float64Observable {
	switch of.Kind {
	case UpDown:
		i, err := m.Meter.Float64ObservableUpDownCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
		return keep[metric.Float64Observable](m, i, err)
	case Gauge:
		i, err := m.Meter.Float64ObservableGauge(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
		return keep[metric.Float64Observable](m, i, err)
	}
	i, err := m.Meter.Float64ObservableCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep[metric.Float64Observable](m, i, err)
}

func keep[I any](m *Maker, i I, err error) I {
	m.Err = errors.Join(m.Err, err)
	return i
}
