package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/internal/record/settings"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TrainingTelemetryBuilder collects the parts of a [Provider]. The methods return the
// builder, so that calls can be chained. A wrong call has no effect and is reported by
// ConfigureProvider, or by Err. A builder that failed can be corrected and used again;
// one that succeeded cannot. It is not safe for concurrent use.
type TrainingTelemetryBuilder struct {
	base      *config.Base
	overrides []func(*config.Base)
	training  *config.Training
	export    *config.Export

	outputs       []attachment
	spanExporters int // of them
	resource      *resource.Resource
	sampler       sdktrace.Sampler
	ids           sdktrace.IDGenerator
	metrics       metric.MeterProvider
	segment       time.Duration
	traces        config.Traces

	logger   *slog.Logger
	clock    func() time.Time
	identity Identity
	ranks    *config.Ranks
	above    *trace.SpanContext
	timeout  time.Duration

	spent  bool
	misuse []error
}

// NewTrainingTelemetryBuilder returns an empty builder. The zero value works too, but
// delivers long spans in one piece.
func NewTrainingTelemetryBuilder() *TrainingTelemetryBuilder {
	return &TrainingTelemetryBuilder{segment: segment.DefaultSegment}
}

// fits records a call that comes too late or too often, and reports whether the
// call should be carried out.
func (b *TrainingTelemetryBuilder) fits(name string, again bool) bool {
	switch {
	case b.spent:
		b.misuse = append(b.misuse, fmt.Errorf("%s has no effect after ConfigureProvider: create a new builder", name))
	case again:
		b.misuse = append(b.misuse, fmt.Errorf("%s can be called only once, the second call has no effect", name))
	default:
		return true
	}
	return false
}

// WithBaseConfig sets the base configuration. It can be set once.
func (b *TrainingTelemetryBuilder) WithBaseConfig(base config.Base) *TrainingTelemetryBuilder {
	if b.fits("WithBaseConfig", b.base != nil) {
		base = config.Clone(&base)
		b.base = &base
	}
	return b
}

// WithConfigOverride changes the base configuration, or an empty one, when the
// provider is made. Overrides are called in order, on a copy of the base whose
// error strategy and log level are already decided: a rank that an override
// switches off keeps them.
func (b *TrainingTelemetryBuilder) WithConfigOverride(change func(*config.Base)) *TrainingTelemetryBuilder {
	if b.fits("WithConfigOverride", false) && change != nil {
		b.overrides = append(b.overrides, change)
	}
	return b
}

// WithTrainingConfig sets the training configuration; it replaces the one in
// the base configuration. A job that learns it later calls
// [Provider.SetTrainingConfig].
func (b *TrainingTelemetryBuilder) WithTrainingConfig(t config.Training) *TrainingTelemetryBuilder {
	if b.fits("WithTrainingConfig", b.training != nil) {
		t = config.Clone(&t)
		b.training = &t
	}
	return b
}

// attachment is an output to be attached: one of the three is set.
type attachment struct {
	out       Output
	exporter  sdktrace.SpanExporter
	processor sdktrace.SpanProcessor
	filter    *config.Export
}

// WithExporter adds an output: JSON lines, a trace file, log records, or the
// program's own. It accepts at most one filter, which selects the spans that
// the output gets. Without a filter an output whose traits ask for everything,
// such as a trace file, gets everything; any other gets the spans that the
// export customization selects.
func (b *TrainingTelemetryBuilder) WithExporter(out Output, filter ...config.Export) *TrainingTelemetryBuilder {
	if b.fits("WithExporter", false) && out != nil {
		b.add("WithExporter", attachment{out: out}, filter)
	}
	return b
}

// WithSpanExporter adds an OpenTelemetry exporter. It gets batches, on its own
// goroutine, of the spans that the filter or, without one, the export
// customization selects. An exporter that is an [Output], such as a trace file,
// is added as with WithExporter.
func (b *TrainingTelemetryBuilder) WithSpanExporter(e sdktrace.SpanExporter, filter ...config.Export) *TrainingTelemetryBuilder {
	if b.fits("WithSpanExporter", false) && e != nil {
		if out, ok := e.(Output); ok {
			b.add("WithSpanExporter", attachment{out: out}, filter)
		} else {
			b.add("WithSpanExporter", attachment{exporter: e}, filter)
			b.spanExporters++
		}
	}
	return b
}

// WithSpanProcessor adds an OpenTelemetry span processor. It gets every span,
// whatever the export customization selects. A processor that is an [Output] is
// added as with WithExporter.
func (b *TrainingTelemetryBuilder) WithSpanProcessor(p sdktrace.SpanProcessor) *TrainingTelemetryBuilder {
	if b.fits("WithSpanProcessor", false) && p != nil {
		if out, ok := p.(Output); ok {
			b.add("WithSpanProcessor", attachment{out: out}, nil)
		} else {
			b.add("WithSpanProcessor", attachment{processor: p}, nil)
		}
	}
	return b
}

func validateExport(e *config.Export) error {
	return settings.Validate(&config.Config{Export: *e}, "export.", "export.")
}

func (b *TrainingTelemetryBuilder) add(name string, a attachment, filter []config.Export) {
	switch len(filter) {
	case 0:
	case 1:
		if err := validateExport(&filter[0]); err != nil {
			b.misuse = append(b.misuse, fmt.Errorf("%s: filter: %w", name, err))
			return
		}
		a.filter = &filter[0]
	default:
		b.misuse = append(b.misuse, fmt.Errorf("%s takes one filter, not %d: merge them into one", name, len(filter)))
		return
	}
	b.outputs = append(b.outputs, a)
}

// WithExportCustomization selects spans by name, for outputs that have no
// filter and do not ask for everything. It can be set once. By default the
// spans of single iterations are left out.
func (b *TrainingTelemetryBuilder) WithExportCustomization(e config.Export) *TrainingTelemetryBuilder {
	if b.fits("WithExportCustomization", b.export != nil) {
		b.export = &e
	}
	return b
}

// WithResource adds attributes to the OpenTelemetry resource; they take
// precedence over the detected ones.
func (b *TrainingTelemetryBuilder) WithResource(r *resource.Resource) *TrainingTelemetryBuilder {
	if b.fits("WithResource", false) {
		b.resource = r
	}
	return b
}

// WithSampler sets the OpenTelemetry sampler. By default every span is
// recorded.
func (b *TrainingTelemetryBuilder) WithSampler(s sdktrace.Sampler) *TrainingTelemetryBuilder {
	if b.fits("WithSampler", false) {
		b.sampler = s
	}
	return b
}

// WithSegment sets how long a long span (application, training loop, epoch,
// validation and testing loop) may stay open before span exporters get a
// finished segment of it; the default is ten minutes. A segment is also finished
// when it has 100 events. Zero or less delivers such spans in one piece, at their
// end, with at most 128 events, unless a new trace begins meanwhile. Trace files
// and native records always have one span.
func (b *TrainingTelemetryBuilder) WithSegment(d time.Duration) *TrainingTelemetryBuilder {
	if b.fits("WithSegment", false) {
		b.segment = d
	}
	return b
}

// WithTraces sets how the spans of a run are spread over traces for span
// exporters: one trace for each start of the job, for each epoch or for each
// window of iterations, and the most spans of a trace. The default is one trace
// until it has 20,000 spans, then the next. Every trace begins with segments of
// the open long spans, each with a link to the previous segment. Trace files
// and native records are not affected.
//
// If all ranks of a job share their traces, the ids of all parts of a run
// derive from the job, so that the ranks still share them. The caller's own
// span processors get no segments: if there is a span exporter, they see spans
// whose parent is in another trace.
func (b *TrainingTelemetryBuilder) WithTraces(t config.Traces) *TrainingTelemetryBuilder {
	if b.fits("WithTraces", false) {
		b.traces = t
	}
	return b
}

// WithMeterProvider sets where the metrics of the training go. Without it no
// metrics are made. The caller shuts the provider down after the telemetry,
// unless it is an [Output], which the telemetry shuts down.
func (b *TrainingTelemetryBuilder) WithMeterProvider(m metric.MeterProvider) *TrainingTelemetryBuilder {
	if b.fits("WithMeterProvider", false) {
		b.metrics = m
	}
	return b
}

// WithIDGenerator sets the generator of trace and span ids. By default all
// ranks of a job share one trace for each attempt; [RandomIDs] gives every root
// span a separate trace. The later segments of a long span get random span ids.
func (b *TrainingTelemetryBuilder) WithIDGenerator(g sdktrace.IDGenerator) *TrainingTelemetryBuilder {
	if b.fits("WithIDGenerator", false) {
		b.ids = g
	}
	return b
}

// WithLogger sets the logger for telemetry's own messages. The default is a
// logger with the configured level on slog's default handler.
func (b *TrainingTelemetryBuilder) WithLogger(l *slog.Logger) *TrainingTelemetryBuilder {
	if b.fits("WithLogger", false) {
		b.logger = l
	}
	return b
}

// WithClock sets the clock. now must be safe for concurrent use. The default is
// the system's clock.
func (b *TrainingTelemetryBuilder) WithClock(now func() time.Time) *TrainingTelemetryBuilder {
	if b.fits("WithClock", false) {
		b.clock = now
	}
	return b
}

// WithIdentity sets the identity of the process. Zero fields are filled in from the
// operating system, the launcher's environment variables and the configuration.
func (b *TrainingTelemetryBuilder) WithIdentity(id Identity) *TrainingTelemetryBuilder {
	if b.fits("WithIdentity", false) {
		b.identity = id
	}
	return b
}

// WithRanks sets the process's place in the job. The default is read from the
// launcher's environment variables.
func (b *TrainingTelemetryBuilder) WithRanks(r config.Ranks) *TrainingTelemetryBuilder {
	if b.fits("WithRanks", false) {
		b.ranks = &r
	}
	return b
}

// WithParent sets the span of another process that the whole run belongs to:
// spans without another parent are its children, in its trace. An invalid sc
// means that there is none. The default is the variable TRACEPARENT.
func (b *TrainingTelemetryBuilder) WithParent(sc trace.SpanContext) *TrainingTelemetryBuilder {
	if b.fits("WithParent", false) {
		b.above = &sc
	}
	return b
}

// WithShutdownTimeout sets the longest time that [Provider.Shutdown] takes. The
// default, and zero or less, mean 5 s.
func (b *TrainingTelemetryBuilder) WithShutdownTimeout(d time.Duration) *TrainingTelemetryBuilder {
	if b.fits("WithShutdownTimeout", false) {
		b.timeout = d
	}
	return b
}

// Err returns the wrong calls of the builder since the last call of Err or
// ConfigureProvider, and clears them: calls that came too late or too often,
// and had no effect.
func (b *TrainingTelemetryBuilder) Err() error {
	err := errors.Join(b.misuse...)
	b.misuse = nil
	return err
}
