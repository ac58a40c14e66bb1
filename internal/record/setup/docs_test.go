package setup_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// catalogue is a meter provider that records the created instruments.
type catalogue struct {
	noop.MeterProvider
	made map[string]string // "unit, kind" by name
}

func (c *catalogue) Meter(string, ...metric.MeterOption) metric.Meter { return catalogueMeter{c: c} }

type catalogueMeter struct {
	noop.Meter
	c *catalogue
}

func (m catalogueMeter) note(name, unit, kind string) { m.c.made[name] = unit + ", " + kind }

func (m catalogueMeter) Int64Counter(name string, o ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	m.note(name, metric.NewInt64CounterConfig(o...).Unit(), "counter")
	return m.Meter.Int64Counter(name, o...)
}

func (m catalogueMeter) Float64Counter(name string, o ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	m.note(name, metric.NewFloat64CounterConfig(o...).Unit(), "counter")
	return m.Meter.Float64Counter(name, o...)
}

func (m catalogueMeter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	m.note(name, metric.NewFloat64HistogramConfig(o...).Unit(), "histogram")
	return m.Meter.Float64Histogram(name, o...)
}

func (m catalogueMeter) Float64Gauge(name string, o ...metric.Float64GaugeOption) (metric.Float64Gauge, error) {
	m.note(name, metric.NewFloat64GaugeConfig(o...).Unit(), "gauge")
	return m.Meter.Float64Gauge(name, o...)
}

func (m catalogueMeter) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.note(name, metric.NewInt64ObservableCounterConfig(o...).Unit(), "counter")
	return m.Meter.Int64ObservableCounter(name, o...)
}

func (m catalogueMeter) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	m.note(name, metric.NewFloat64ObservableCounterConfig(o...).Unit(), "counter")
	return m.Meter.Float64ObservableCounter(name, o...)
}

func (m catalogueMeter) Int64ObservableUpDownCounter(name string, o ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	m.note(name, metric.NewInt64ObservableUpDownCounterConfig(o...).Unit(), "up-down counter")
	return m.Meter.Int64ObservableUpDownCounter(name, o...)
}

// The catalogue panics on kinds of instruments that it does not record, so that none is
// missed.
func (m catalogueMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	panic("teach the catalogue this kind")
}

func (m catalogueMeter) Int64Histogram(string, ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	panic("teach the catalogue this kind")
}

func (m catalogueMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	panic("teach the catalogue this kind")
}

func (m catalogueMeter) Float64UpDownCounter(string, ...metric.Float64UpDownCounterOption) (metric.Float64UpDownCounter, error) {
	panic("teach the catalogue this kind")
}

func (m catalogueMeter) Int64ObservableGauge(string, ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	panic("teach the catalogue this kind")
}

func (m catalogueMeter) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	m.note(name, metric.NewFloat64ObservableGaugeConfig(o...).Unit(), "gauge")
	return m.Meter.Float64ObservableGauge(name, o...)
}

func (m catalogueMeter) Float64ObservableUpDownCounter(name string, o ...metric.Float64ObservableUpDownCounterOption) (metric.Float64ObservableUpDownCounter, error) {
	m.note(name, metric.NewFloat64ObservableUpDownCounterConfig(o...).Unit(), "up-down counter")
	return m.Meter.Float64ObservableUpDownCounter(name, o...)
}

// metricRows returns the cells of the rows about metrics in docs/reference/signals.md.
func metricRows(t *testing.T) (rows [][]string) {
	t.Helper()
	data, err := os.ReadFile("../../../docs/reference/signals.md")
	must(t, err)
	_, tables, _ := strings.Cut(string(data), "<!-- metrics:")
	tables, _, _ = strings.Cut(tables, "<!-- end of metrics -->")
	for line := range strings.Lines(tables) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) < 8 || len(cells) > 10 || strings.TrimSpace(cells[6]) == "" { // a group without names of other tools has no column for them
			t.Errorf("the row %s has %d cells, want 6 to 8 and a meaning", line, len(cells)-2)
			continue
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestEveryMetricIsDocumented compares docs/reference/signals.md with the instruments
// that telemetry and the outputs create.
func TestEveryMetricIsDocumented(t *testing.T) {
	c := &catalogue{made: map[string]string{}}
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(job().Base).WithRanks(config.Ranks{}).
		WithSpanProcessor(nothing{}).WithMeterProvider(c).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	there := newCollector(t, config.OTLPHTTP)
	there.script = func(string, int) bool { return false } // so that there are drops
	runJob(t, there.job(), quiet())
	for _, m := range there.metrics() {
		if _, known := c.made[m.GetName()]; known {
			continue
		}
		if _, sum := m.GetData().(*metricspb.Metric_Sum); !sum {
			t.Errorf("%s is a %T, want a sum", m.GetName(), m.GetData())
		}
		c.made[m.GetName()] = m.GetUnit() + ", counter"
	}
	rows := map[string]string{}
	for _, cells := range metricRows(t) {
		rows[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[3]) + ", " + strings.TrimSpace(cells[4])
	}
	if len(rows) < 20 || len(c.made) < 20 {
		t.Fatalf("%d rows, %d instruments; want 20 or more each", len(rows), len(c.made))
	}
	for name, made := range c.made {
		if rows[name] != made {
			t.Errorf("%s is %q, want %q as in its row", name, made, rows[name])
		}
	}
	job := metrics.Groups[len(metrics.Groups)-1] // the metrics that the command derives from a job's files; its own tests check them
	for name := range rows {
		served := slices.ContainsFunc(job.Metrics, func(m *metrics.Metric) bool { return m.Name == name })
		if c.made[name] == "" && !served {
			t.Errorf("the page has a row for the unknown metric %s", name)
		}
	}
}

// TestSignalsAreDocumented compares the other tables of docs/reference/signals.md with
// the code: events, long spans, resource attributes, one-logger's attributes.
func TestSignalsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../docs/reference/signals.md")
	must(t, err)
	text := string(data)
	for _, name := range []string{
		spans.EventSpanStart, spans.EventSpanStop, spans.EventError, spans.EventTelemetryDataError, spans.EventOneLoggerInitialization,
		spans.EventUpdateTrainingTelemetryConfig, spans.EventTrainingMetricsUpdate, spans.EventValidationMetricsUpdate, spans.EventTestingMetricsUpdate,
		spans.EventSaveCheckpointSuccess, spans.EventSyncCheckpointMetricsUpdate, spans.EventSaveCheckpointFailure, spans.EventAsyncCheckpointMetricsUpdate,
	} {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the page has no event %s", name)
		}
	}
	_, row, _ := strings.Cut(text, "| `span_start` |")
	row, _, _ = strings.Cut(row, "|")
	var long []string
	for _, s := range spans.All() {
		if s.Long {
			long = append(long, "`"+s.Name+"`")
		}
	}
	if got := strings.TrimSpace(row); got != strings.Join(long, ", ") {
		t.Errorf("the page lists the starts of %s, want %s", got, strings.Join(long, ", "))
	}

	there := newCollector(t, config.OTLPHTTP)
	runJob(t, there.job(), quiet())
	for key := range described(there.resources["metrics"]) {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("the page has no resource attribute %s", key)
		}
	}

	var files []string
	for _, folder := range []string{"attributes", "internal/tracefile/onelogger"} {
		more, err := filepath.Glob("../../../" + folder + "/*.go")
		must(t, err)
		files = append(files, more...)
	}
	var source strings.Builder
	for _, name := range files {
		content, err := os.ReadFile(name)
		must(t, err)
		source.Write(content)
	}
	quoted, found := regexp.MustCompile("`([^`]+)`"), 0
	for _, cells := range metricRows(t) {
		for _, m := range quoted.FindAllStringSubmatch(cells[7], -1) {
			if found++; !strings.Contains(source.String(), `"`+m[1]+`"`) {
				t.Errorf("the code has no attribute %s", m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d attributes in the table, want at least 10", found)
	}
}
