package otlp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/delivery"
	"github.com/trainspan/trainspan/internal/environ"
	"github.com/trainspan/trainspan/internal/secret"
	"github.com/trainspan/trainspan/internal/settings"
)

// Exporter sends spans to an OTLP receiver. Give it to
// TrainingTelemetryBuilder.WithSpanExporter, which feeds it in batches from a
// bounded queue. It is safe for concurrent use. A nil Exporter takes spans and
// forgets them.
type Exporter struct {
	cfg    Config
	client otlptrace.Client
	wire   wire
}

var _ delivery.Tuner = (*Exporter)(nil)

// New makes an exporter. It reads the certificates and nothing else: the
// connection is made when the first batch is sent, so that a backend that is
// away keeps nobody waiting. ctx is not kept. An error names the setting and
// the way out in one line each, and shows no header value.
func New(ctx context.Context, cfg Config) (*Exporter, error) {
	if info, err := os.Stat(cfg.SpillDir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("otlp: spill directory: %s is not a directory", cfg.SpillDir)
	}
	t, err := prepare(&cfg, traces)
	if err != nil {
		return nil, err
	}
	e := &Exporter{cfg: cfg}
	e.wire = wire{cfg: &e.cfg, place: t.place(), unit: "spans"}
	if cfg.Protocol == config.OTLPGRPC {
		e.client = newGRPC(&e.cfg, t)
	} else {
		e.wire.transport = newTransport(&e.cfg, t)
		e.client = newHTTP(&e.cfg, t, e.wire.transport)
	}
	if err := e.client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("otlp: %s: %w", e.wire.place, err)
	}
	return e, nil
}

// prepare checks the settings and finds the place where a signal goes. Headers
// are copied.
func prepare(cfg *Config, s signal) (target, error) {
	if err := cfg.validate(); err != nil {
		return target{}, fmt.Errorf("otlp: %w", err)
	}
	if err := checkEnvironment(os.LookupEnv); err != nil {
		return target{}, err
	}
	cfg.OTLP = settings.OTLP(cfg.OTLP)
	cfg.Headers = maps.Clone(cfg.Headers)
	if s.field != traces.field {
		delete(cfg.Headers, environ.TokenHeader) // it is for the receiver of spans alone
	}
	return newTarget(cfg, s)
}

// checkEnvironment refuses header variables that cannot be read, used or not:
// OpenTelemetry's clients read them in any case and print what they cannot
// understand, secrets included.
func checkEnvironment(lookup func(string) (string, bool)) error {
	const general = "OTEL_EXPORTER_OTLP_HEADERS"
	for _, name := range [...]string{
		general, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
	} {
		_, err := config.Load(config.LoadOptions{
			Partial: true,
			LookupEnv: func(asked string) (string, bool) { // all are written alike
				if asked != general {
					return "", false
				}
				return lookup(name)
			},
		})
		if err != nil {
			return errors.New("otlp: " + strings.ReplaceAll(err.Error(), general, name))
		}
	}
	return nil
}

// ExportSpans sends a batch in one request, within the configured timeout. It
// does not try again: the processor does. The error is a *delivery.Error: whether
// the backend may take the batch later or in smaller pieces, or how many spans it
// rejected of a batch that it took.
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil || len(batch) == 0 {
		return nil
	}
	return e.Upload(ctx, transform(batch))
}

// Upload sends spans that are in the form of the wire, in one request as ExportSpans
// does. The error is a [*delivery.Error].
func (e *Exporter) Upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	f, _ := e.wire.attempt(ctx, new(collectorpb.ExportTraceServiceResponse), func(ctx context.Context) error {
		return e.client.UploadTraces(ctx, spans)
	})
	if f == nil {
		return nil
	}
	return f
}

// longestError keeps a page of HTML out of the log.
const longestError = 300

// oneLine makes a line of a text that holds no header value, even if the
// backend sent one back.
func oneLine(text string, headers map[string]string) string {
	for _, value := range headers {
		if len(value) >= 4 {
			text = strings.ReplaceAll(text, value, secret.Hidden)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	return text
}

// Shutdown ends the exporter. Requests under way are cancelled when ctx is
// done.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	err := e.client.Stop(ctx)
	e.wire.closeIdle()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("otlp: %s: shutdown: %w", e.wire.place, err)
	}
	return nil // a second Stop is no error
}

// Delivery tells the provider's processor how to feed this exporter: the
// queue, batch and retry settings of the Config, and the spill directory.
func (e *Exporter) Delivery() delivery.Options {
	if e == nil {
		return delivery.Options{}
	}
	o := e.wire.retry()
	o.MaxQueue, o.MaxQueueBytes = e.cfg.QueueSize, e.cfg.QueueBytes
	o.MaxBatch, o.Delay = e.cfg.BatchSize, e.cfg.BatchDelay
	o.ExportTimeout = e.cfg.Timeout
	if e.cfg.SpillDir != "" {
		o.Spill = newSpill(&e.cfg)
	}
	return o
}
