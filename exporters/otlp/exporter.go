package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/delivery"
)

// Exporter sends spans to an OTLP receiver. Give it to
// TrainingTelemetryBuilder.WithSpanExporter, which feeds it in batches from a
// bounded queue. It is safe for concurrent use. A nil Exporter takes spans and
// forgets them.
type Exporter struct {
	cfg    Config
	client otlptrace.Client
	place  string // for messages: no path, no headers
}

var _ delivery.Tuner = (*Exporter)(nil)

// New makes an exporter. It reads the certificates and nothing else: the
// connection is made when the first batch is sent, so that a backend that is
// away keeps nobody waiting. ctx is not kept. An error names the setting and
// the way out in one line each, and shows no header value.
func New(ctx context.Context, cfg Config) (*Exporter, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	if err := checkEnvironment(os.LookupEnv); err != nil {
		return nil, err
	}
	if info, err := os.Stat(cfg.SpillDir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("otlp: spill directory: %s is not a directory", cfg.SpillDir)
	}
	cfg.Headers = copyHeaders(cfg.Headers)
	t, err := newTarget(&cfg)
	if err != nil {
		return nil, err
	}
	e := &Exporter{cfg: cfg, place: t.url.Scheme + "://" + t.url.Host}
	if cfg.EffectiveProtocol() == config.OTLPGRPC {
		e.client = newGRPC(&cfg, t)
	} else {
		e.client = newHTTP(&cfg, t)
	}
	if err := e.client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("otlp: %s: %w", e.place, err)
	}
	return e, nil
}

// checkEnvironment refuses header variables that cannot be read, used or not:
// OpenTelemetry's clients read them in any case and print what they cannot
// understand, secrets included.
func checkEnvironment(lookup config.Lookup) error {
	_, err := config.Load(config.LoadOptions{
		Partial: true,
		LookupEnv: func(name string) (string, bool) {
			if name != "OTEL_EXPORTER_OTLP_HEADERS" && name != "OTEL_EXPORTER_OTLP_TRACES_HEADERS" {
				return "", false
			}
			return lookup(name)
		},
	})
	if err != nil {
		return fmt.Errorf("otlp: %w", err)
	}
	return nil
}

// ExportSpans sends a batch in one request, within the configured timeout. It
// does not try again: the processor does. The error is a [*Failure].
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil || len(batch) == 0 {
		return nil
	}
	return e.upload(ctx, transform(batch))
}

// Failure is the error of ExportSpans: whether the backend may take the batch
// later or in smaller pieces, or how many spans it rejected of a batch that it
// took.
type Failure = delivery.Error

// upload sends one request.
func (e *Exporter) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	var o outcome
	ctx, cancel := context.WithTimeout(ctx, e.cfg.EffectiveTimeout())
	defer cancel()
	err := e.client.UploadTraces(withOutcome(ctx, &o), spans)
	switch {
	case o.rejected > 0:
		return &Failure{Err: e.errorf("rejected %d spans: %s", o.rejected, o.message), Rejected: int(o.rejected)}
	case o.message != "" || err == nil: // a warning of a backend that took all
		return nil
	case !o.answered && ctx.Err() != nil:
		return &Failure{Err: e.errorf("no answer in time"), Retry: true}
	}
	var place *url.Error
	if errors.As(err, &place) { // it names a URL that is not the one used
		err = place.Err
	}
	return &Failure{
		Err: e.errorf("%v", err), Retry: o.retry, After: o.after, TooLarge: o.tooLarge,
	}
}

// longestError keeps a page of HTML out of the log.
const longestError = 300

// errorf makes an error of one line that names the backend and holds no header
// value, even if the backend sent one back.
func (e *Exporter) errorf(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	for _, value := range e.cfg.Headers {
		if len(value) >= 4 {
			text = strings.ReplaceAll(text, value, "REDACTED")
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "") + "…"
	}
	return errors.New("otlp: " + e.place + ": " + text)
}

// Shutdown ends the exporter. Requests under way are cancelled when ctx is
// done.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	if err := e.client.Stop(ctx); err != nil && ctx.Err() != nil {
		return fmt.Errorf("otlp: %s: shutdown: %w", e.place, err)
	}
	return nil // a second Stop is no error
}

// Delivery tells the provider's processor how to feed this exporter: the
// queue, batch and retry settings of the Config, and the spill directory.
func (e *Exporter) Delivery() delivery.Options {
	if e == nil {
		return delivery.Options{}
	}
	o := delivery.Options{
		MaxQueue: e.cfg.QueueSize, MaxQueueBytes: e.cfg.QueueBytes,
		MaxBatch: e.cfg.BatchSize, Delay: e.cfg.BatchDelay,
		ExportTimeout: e.cfg.EffectiveTimeout(),
		RetryFor:      e.cfg.RetryFor, RetryFirst: e.cfg.RetryFirst, RetryMost: e.cfg.RetryMost,
	}
	if e.cfg.SpillDir != "" {
		o.Spill = newSpill(&e.cfg)
	}
	return o
}
