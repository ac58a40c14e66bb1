package otlp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/record/settings"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Exporter sends spans to an OTLP receiver. Give it to
// TrainingTelemetryBuilder.WithSpanExporter, which feeds it in batches from a
// bounded queue. It is safe for concurrent use. A nil Exporter accepts spans
// and drops them.
type Exporter struct {
	cfg    Config
	client otlptrace.Client
	wire   wire
}

var _ delivery.Tuner = (*Exporter)(nil)

// New returns an exporter. It only reads the certificates: the connection is
// made when the first batch is sent, so that an unreachable backend blocks
// nothing. ctx is not kept. An error names each wrong setting and how to
// correct it, one a line, and has no header values.
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

// prepare checks the settings and returns the address for a signal. Headers are
// copied.
func prepare(cfg *Config, s signal) (target, error) {
	cfg.OTLP = s.of(&cfg.OTLP)
	if err := cfg.validate(); err != nil {
		return target{}, fmt.Errorf("otlp: %w", err)
	}
	if err := checkEnvironment(os.LookupEnv); err != nil {
		return target{}, err
	}
	cfg.OTLP = settings.OTLP(cfg.OTLP)
	cfg.Headers = maps.Clone(cfg.Headers)
	if s.field != traces.field {
		delete(cfg.Headers, environ.TokenHeader) // only the receiver of spans may have it
	}
	return newTarget(cfg, s)
}

// checkEnvironment returns an error for header variables that cannot be parsed,
// used or not: OpenTelemetry's clients read them in any case and print what
// they cannot parse, including secrets.
func checkEnvironment(lookup func(string) (string, bool)) error {
	const general = "OTEL_EXPORTER_OTLP_HEADERS"
	for _, name := range [...]string{
		general, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
	} {
		_, err := config.Load(config.LoadOptions{
			Partial: true,
			LookupEnv: func(asked string) (string, bool) { // all have the same form
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
// does not retry; the provider does. The error lets the provider know whether
// the backend may take the batch later or in smaller pieces, or how many of its
// spans were rejected.
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil || len(batch) == 0 {
		return nil
	}
	return e.Upload(ctx, transform(batch))
}

// Upload sends spans in the form of the protocol, in one request like
// [Exporter.ExportSpans], with the same errors.
func (e *Exporter) Upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	f, _ := e.wire.attempt(ctx, new(collectorpb.ExportTraceServiceResponse), func(ctx context.Context) error {
		return e.client.UploadTraces(ctx, spans)
	})
	if f == nil {
		return nil
	}
	return f
}

// longestError keeps pages of HTML out of the log.
const longestError = 300

// oneLine returns a text as one line without header values, in case the backend
// returned one.
func oneLine(text string, headers map[string]string) string {
	for _, value := range headers {
		if len(value) >= 4 {
			text = strings.ReplaceAll(text, value, redact.Hidden)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	return text
}

// Shutdown ends the exporter. Requests in progress are cancelled when ctx is
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
	return nil // a second Stop is not an error
}

// Delivery returns how the provider feeds this exporter: the queue, batch and
// retry settings of the [Config], and the spill directory. Package telemetry
// calls it.
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

// Defaults of the spill directory.
const (
	defaultSpillBytes     = 256 << 20
	defaultSpillFileBytes = 16 << 20
)

// Config configures where spans, logs and metrics go, and how. The zero Config sends
// spans by http/protobuf to http://localhost:4318/v1/traces.
type Config struct {
	// OTLP holds the settings that a file or the environment can have: protocol,
	// endpoint, headers, compression, timeout, certificates, the size of queue and
	// batches, and the spill directory. Enabled is ignored.
	config.OTLP

	// TLS is the base of the TLS settings; nil means the system's authorities and
	// no client certificate. Certificates named in OTLP are added to a copy of it.
	// It cannot be combined with an http:// endpoint, for which certificates in OTLP have no effect.
	TLS *tls.Config

	// RetryFor bounds the time in which a batch is retried; zero means one minute,
	// negative means one attempt only. RetryFirst and RetryMost are the first and
	// the longest pause; zero means 500 ms and 10 s.
	RetryFor, RetryFirst, RetryMost time.Duration

	// QueueBytes bounds the estimated size of the waiting spans. Zero means 64 MiB.
	QueueBytes int

	// SpillFileBytes is the size at which the next file of OTLP.SpillDir begins;
	// zero means 16 MiB. See [Replay].
	SpillFileBytes int64
}

// FromEnv reads the standard OTEL_* variables, and the TRAINSPAN_OTLP_*
// variables, with lookup, such as os.LookupEnv. on reports whether they ask for
// OTLP: an endpoint is set or OTEL_TRACES_EXPORTER names otlp, and neither that
// variable nor OTEL_SDK_DISABLED forbids it. The error names every invalid
// variable, and has no header values. Unknown exporters are logged with
// slog.Default.
func FromEnv(lookup func(string) (string, bool)) (cfg Config, on bool, err error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	all, err := config.Load(config.LoadOptions{
		Partial: true,
		LookupEnv: func(name string) (string, bool) {
			if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "TRAINSPAN_OTLP_") {
				return "", false
			}
			return lookup(name)
		},
	})
	if err != nil {
		return Config{}, false, fmt.Errorf("otlp: %w", err)
	}
	for _, w := range all.Warnings {
		slog.Default().Warn("telemetry configuration: "+w.String(), "see", helptopic.Variable)
	}
	if !settings.OTLPActive(&all) {
		return Config{}, false, nil
	}
	cfg = Config{OTLP: all.Outputs.OTLP}
	if err := settings.Validate(&all, "outputs.otlp.", "outputs."); err != nil {
		return Config{}, false, fmt.Errorf("otlp: %w", err)
	}
	return cfg, true, nil
}

// validate returns an error that names every invalid field.
func (c *Config) validate() error {
	return settings.Validate(&config.Config{Outputs: config.Outputs{OTLP: c.OTLP}}, "outputs.otlp.", "outputs.")
}

// transform converts spans to protocol messages, as OpenTelemetry's own
// exporter does, with valid text only.
func transform(batch []sdktrace.ReadOnlySpan) []*tracepb.ResourceSpans {
	var c catcher
	_ = otlptrace.NewUnstarted(&c).ExportSpans(context.Background(), batch) // the catcher never fails
	otlpform.RepairSpans(c.spans)
	return c.spans
}

// catcher is a client that keeps the spans it gets.
type catcher struct{ spans []*tracepb.ResourceSpans }

var _ otlptrace.Client = (*catcher)(nil)

// Start implements otlptrace.Client.
func (*catcher) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (*catcher) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (c *catcher) UploadTraces(_ context.Context, spans []*tracepb.ResourceSpans) error {
	c.spans = spans
	return nil
}
