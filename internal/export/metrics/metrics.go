// Package metrics is the table of all metrics of this library: their names,
// units and meanings. The instruments, the tables of docs/reference/signals.md,
// and the alerts and dashboards in deploy are made from it.
package metrics

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// Kind is the kind of an instrument. Counters and histograms are cumulative.
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
	OneLogger  string // one-logger's attributes with the same meaning, in Markdown
	Elsewhere  string // the names in other tools, in Markdown
}

// Group are the metrics of a namespace.
type Group struct {
	Namespace string
	Why       string // the purpose of the namespace: for ours, why no standard one fits
	Metrics   []*Metric
}

// Maker creates instruments. Err has what could not be created; the SDK then
// returns instruments that do nothing.
type Maker struct {
	Meter metric.Meter
	Err   error
}

// Bounds are the upper limits of the buckets of a histogram, in seconds: from 1
// ms to ten minutes.
var Bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600}

// Histogram returns a histogram of seconds with [Bounds].
func (m *Maker) Histogram(of *Metric) metric.Float64Histogram {
	i, err := m.Meter.Float64Histogram(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text), metric.WithExplicitBucketBoundaries(Bounds...))
	return keep(m, i, err)
}

// Int64Counter returns a counter.
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

// Int64Observable returns an observable counter or up-down counter.
func (m *Maker) Int64Observable(of *Metric) metric.Int64Observable {
	if of.Kind == UpDown {
		i, err := m.Meter.Int64ObservableUpDownCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
		return keep[metric.Int64Observable](m, i, err)
	}
	i, err := m.Meter.Int64ObservableCounter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Text))
	return keep[metric.Int64Observable](m, i, err)
}

// Float64Observable returns an observable counter, up-down counter or gauge.
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
