package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc/credentials"
)

// logScope is the instrumentation scope of the log records.
const logScope = "github.com/trainspan/trainspan/telemetry"

// LogsOptions are settings of [NewLogs] that a [Config] does not have. The zero
// value and nil are the defaults.
type LogsOptions struct {
	// Resource, if not nil, holds attributes that replace the detected ones.
	Resource *resource.Resource
	// PerfTags are the performance tags of the training, for the resource.
	PerfTags []string
	// Logger logs warnings about losses. Nil means slog.Default.
	Logger *slog.Logger
	// ShutdownTimeout bounds a Shutdown whose context has no earlier deadline. Zero
	// means 5 s.
	ShutdownTimeout time.Duration
}

// Logs is a native exporter that makes a run visible while it runs: it sends
// the starts of long spans, and the events and errors of all spans, as
// OpenTelemetry log records when they happen. Each record is an event of the
// Logs API with the name, the time and the attributes of the native one, in its
// trace and span; span.name and parent_span_id identify the span. Starts and
// stops of short spans, and stops of long ones, are not sent, because the span
// itself has them.
//
// Write never waits. Records go through a bounded queue to one goroutine, which
// sends, retries and counts losses. All methods are safe for concurrent use. A
// nil Logs accepts records and drops them.
type Logs struct {
	outputs.None

	cfg    Config
	target target
	o      LogsOptions

	mu       sync.Mutex
	segment  func(trace.SpanID) trace.SpanContext // nil if spans have no segments
	queue    *logQueue                            // nil before Open
	before   LogStats                             // of earlier attachments
	client   *logClient
	logger   otellog.Logger
	provider *sdklog.LoggerProvider
	ending   *ending // nil while open
}

// ending is a shutdown in progress, or a finished one.
type ending struct {
	cut  context.CancelFunc // drops what has not been sent
	done chan struct{}
	err  error // set before done is closed
}

var _ outputs.Output = (*Logs)(nil)

// NewLogs returns an exporter of log records for the address
// config.OTLP.LogsURL, with the same settings as [New]; of the batch settings,
// only a BatchDelay below one second is used. It makes no connection. Give it
// to TrainingTelemetryBuilder.WithExporter. ctx is not kept.
func NewLogs(_ context.Context, cfg Config, o *LogsOptions) (*Logs, error) {
	l := &Logs{cfg: cfg}
	if o != nil {
		l.o = *o
	}
	var err error
	if l.target, err = prepare(&l.cfg, logs); err != nil {
		return nil, err
	}
	l.o.Logger = safelog.New(l.o.Logger)
	if l.o.ShutdownTimeout <= 0 {
		l.o.ShutdownTimeout = delivery.DefaultShutdownTimeout
	}
	return l, nil
}

// Open implements outputs.Output. It starts the sending goroutine.
func (l *Logs) Open(ctx context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	traits := outputs.Traits{Ordered: true, Inline: true, Remote: true}
	if l == nil {
		return traits, nil
	}
	return traits, l.start(ctx, t)
}

func (l *Logs) start(ctx context.Context, t *outputs.Telemetry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ending != nil && !l.ending.over() { // of an earlier provider, or a builder that failed
		done := l.ending.done
		l.mu.Unlock()
		<-done
		l.mu.Lock()
	}
	if l.queue != nil && l.ending == nil {
		return fmt.Errorf("otlp: logs: already started")
	}
	l.segment = t.Segment
	res, err := settings.Resource(ctx, t.Identity, l.o.PerfTags, l.o.Resource)
	if err != nil {
		l.o.Logger.Warn("telemetry could not detect all resource attributes of its logs", "error", err, "see", helptopic.Undescribed)
	}
	client, err := newLogClient(context.WithoutCancel(ctx), &l.cfg, l.target)
	if err != nil {
		return err
	}
	if l.queue != nil {
		l.before = l.before.plus(l.queue.Stats())
	}
	l.client, l.ending = client, nil
	l.queue = newLogQueue(&l.cfg, client, l.o.Logger)
	l.provider = sdklog.NewLoggerProvider(sdklog.WithResource(otlpform.Resource(res)), sdklog.WithProcessor(l.queue))
	l.logger = l.provider.Logger(logScope, otellog.WithInstrumentationVersion(identity.Version))
	return nil
}

// Write implements outputs.Output. It puts the records into the queue, or
// counts them as dropped. It returns no error, so that the recorder does not
// disable the exporter while the backend is unreachable.
func (l *Logs) Write(records []outputs.Record) error {
	if l == nil {
		return nil
	}
	for i := range records {
		if wanted(&records[i]) {
			l.emit(&records[i])
		}
	}
	return nil
}

func (l *Logs) emit(r *outputs.Record) {
	l.mu.Lock()
	logger, segment := l.logger, l.segment
	l.mu.Unlock()
	if logger == nil {
		return
	}
	var in trace.SpanContext
	if segment != nil && (r.Kind == outputs.KindEvent || r.Kind == outputs.KindError) {
		in = segment(r.Span.SpanID)
	}
	ctx, record := logRecord(r, in)
	logger.Emit(context.WithValue(ctx, sizeKey{}, sizeOf(&record)), record)
}

// ForceFlush sends the waiting records, until ctx is done.
func (l *Logs) ForceFlush(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	queue := l.queue
	l.mu.Unlock()
	if queue == nil {
		return nil
	}
	if err := queue.ForceFlush(ctx); err != nil {
		return fmt.Errorf("otlp: logs: flush: %w", err)
	}
	return nil
}

// Shutdown implements outputs.Output: it sends the waiting records until ctx is done, or
// for the shutdown timeout if ctx has no deadline, then counts the rest as dropped, even
// if the backend never answers. It takes much less time if the backend has been away for
// long. The error reports that records could not be sent in time. Later calls join the
// first one.
func (l *Logs) Shutdown(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return l.end(ctx).wait(ctx)
}

// end begins the shutdown; later calls return the same ending. It returns nil
// if there is nothing to end.
func (l *Logs) end(ctx context.Context) *ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil || l.ending != nil {
		return l.ending
	}
	limit := l.o.ShutdownTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	bounded, cut := context.WithTimeout(context.Background(), limit)
	l.ending = &ending{done: make(chan struct{}), cut: cut}
	go l.finish(bounded, l.ending, l.queue, l.client, l.provider)
	return l.ending
}

// wait waits for the end until ctx is done, and then only until sending is
// cancelled.
func (e *ending) wait(ctx context.Context) error {
	if e == nil {
		return nil
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		e.cut()
		<-e.done // soon: nothing is sent any more
	}
	return e.err
}

// over reports whether the shutdown has ended.
func (e *ending) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// finish runs a shutdown on its own goroutine.
func (l *Logs) finish(ctx context.Context, e *ending, queue *logQueue, client *logClient, provider *sdklog.LoggerProvider) {
	defer close(e.done)
	defer e.cut()
	_ = provider.Shutdown(ctx)
	_ = queue.Shutdown(ctx) // after the deadline the provider did not call it; the queue's counts report more
	counts := queue.Stats()
	l.mu.Lock()
	s := l.before.plus(counts)
	l.mu.Unlock()
	if client.absent.Load() {
		l.o.Logger.Info("the backend does not accept log records: events of open spans were not sent", "records", s.Dropped)
	}
	if n := counts.Dropped[delivery.Shutdown]; n > 0 {
		e.err = fmt.Errorf("otlp: logs: %d records were not sent before shutdown", n)
	}
}

// LogStats returns the counts since the first Open.
func (l *Logs) LogStats() LogStats {
	if l == nil {
		return LogStats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil {
		return LogStats{}
	}
	return l.before.plus(l.queue.Stats())
}

// Stats implements outputs.Output.
func (l *Logs) Stats() outputs.Stats {
	s := l.LogStats()
	d := outputs.Delivery{
		What: outputs.DeliversLogs, Total: s.Recorded, Sent: s.Exported, Dropped: s.Dropped, Pending: s.Pending, Drops: s.Drops,
	}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		d.Unwanted = l.client != nil && l.client.absent.Load()
	}
	return outputs.Stats{Delivery: d}
}

// logClient sends batches of log records, one request each.
type logClient struct {
	wire
	absent   atomic.Bool // the backend does not support log records
	exporter sdklog.Exporter
}

// newLogClient makes no connection.
func newLogClient(ctx context.Context, c *Config, t target) (*logClient, error) {
	client := &logClient{wire: wire{cfg: c, place: t.place(), unit: "log records"}}
	var err error
	if c.Protocol == config.OTLPGRPC {
		client.exporter, err = newLogGRPC(ctx, c, t)
	} else {
		client.transport = newTransport(c, t)
		client.exporter, err = newLogHTTP(ctx, c, t, client.transport)
	}
	if err != nil {
		return nil, client.errorf("%v", err)
	}
	return client, nil
}

// newLogGRPC sets every option, because the client would take missing ones from
// the environment.
func newLogGRPC(ctx context.Context, c *Config, t target) (sdklog.Exporter, error) {
	options := []otlploggrpc.Option{
		otlploggrpc.WithEndpoint(t.url.Host),
		otlploggrpc.WithHeaders(c.Headers),
		otlploggrpc.WithTimeout(c.Timeout),
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: false}), // the queue retries
		otlploggrpc.WithDialOption(dialOptions(c)...),
	}
	if t.tls != nil {
		options = append(options, otlploggrpc.WithTLSCredentials(credentials.NewTLS(t.tls)))
	} else {
		options = append(options, otlploggrpc.WithTLSCredentials(nil), otlploggrpc.WithInsecure())
	}
	return otlploggrpc.New(ctx, options...)
}

// newLogHTTP sets every option, for the same reason.
func newLogHTTP(ctx context.Context, c *Config, t target, transport *http.Transport) (sdklog.Exporter, error) {
	compression := otlploghttp.NoCompression
	if c.Compression == "gzip" {
		compression = otlploghttp.GzipCompression
	}
	return otlploghttp.New(ctx,
		otlploghttp.WithEndpoint(t.url.Host),
		otlploghttp.WithURLPath("/"), // noteHTTP sets the whole URL
		otlploghttp.WithHeaders(c.Headers),
		otlploghttp.WithTimeout(c.Timeout),
		otlploghttp.WithCompression(compression),
		otlploghttp.WithTLSClientConfig(nil), // set in the transport
		otlploghttp.WithInsecure(),           // noteHTTP sets the scheme
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: false}),
		otlploghttp.WithHTTPClient(newHTTPClient(c, t, transport)),
	)
}

// export makes one attempt, within the configured timeout. The error is a
// [*delivery.Error].
func (c *logClient) export(ctx context.Context, batch []sdklog.Record) error {
	if c.absent.Load() {
		return &delivery.Error{Err: c.errorf("the backend does not accept log records")}
	}
	f, absent := c.attempt(ctx, new(logspb.ExportLogsServiceResponse), func(ctx context.Context) error {
		return c.exporter.Export(ctx, batch)
	})
	if absent {
		c.absent.Store(true)
	}
	if f == nil {
		return nil
	}
	return f
}

func (c *logClient) close(ctx context.Context) error {
	_ = c.exporter.Shutdown(ctx) // nothing is in progress, and ctx may be done
	c.closeIdle()
	return nil
}

// Bounds of the queue of log records that differ from those of spans. An event
// is needed at once, so it waits less for others than a span does.
const (
	logQueueBytes = 16 << 20
	logDelay      = time.Second
)

// LogStats are exact counts of log records. At every moment Recorded = Exported
// + Dropped + Pending.
type LogStats struct {
	Recorded int64            // records given to the exporter
	Exported int64            // records that the backend took
	Dropped  int64            // lost records, by cause in Drops
	Pending  int64            // records that wait or are being sent
	Drops    map[string]int64 // by cause, with the same words as for spans
	// LastError is the error of the latest failed attempt.
	LastError error
}

// plus adds the counts of a queue.
func (l LogStats) plus(s delivery.Stats) LogStats {
	l.Drops = maps.Clone(l.Drops)
	if l.Drops == nil {
		l.Drops = map[string]int64{}
	}
	for cause, n := range s.Dropped {
		if n > 0 {
			l.Drops[delivery.Cause(cause).String()] += n
		}
	}
	l.Recorded += s.Ended
	l.Exported += s.Exported
	l.Dropped += s.DroppedTotal()
	l.Pending += s.Pending
	if s.LastError != nil {
		l.LastError = s.LastError
	}
	return l
}

// logQueue is the processor between the Logs SDK and the client.
type logQueue struct {
	*delivery.Queue[sdklog.Record]
}

var _ sdklog.Processor = (*logQueue)(nil)

func newLogQueue(c *Config, client *logClient, log *slog.Logger) *logQueue {
	o := client.retry()
	o.MaxQueue, o.MaxBatch = c.QueueSize, c.BatchSize
	o.MaxQueueBytes = cmp.Or(c.QueueBytes, logQueueBytes)
	o.Delay = min(cmp.Or(c.BatchDelay, logDelay), logDelay)
	o.ExportTimeout = c.Timeout
	warned := false
	o.OnLoss = func(cause delivery.Cause, records int64, err error) {
		if !warned { // one call at a time
			log.Warn("telemetry could not deliver log records to a backend; further losses are counted and reported at shutdown",
				"records", records, "cause", cause.String(), "error", err, "see", helptopic.Delivery)
		}
		warned = true
	}
	return &logQueue{delivery.NewQueue(delivery.Sink[sdklog.Record]{Unit: "log records", Export: client.export, Close: client.close}, &o)}
}

// sizeKey is the context key of a record's estimated size.
type sizeKey struct{}

// OnEmit implements the SDK's Processor.
func (q *logQueue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	size, _ := ctx.Value(sizeKey{}).(int)
	q.Put(r.Clone(), size)
	return nil
}

// Enabled implements the SDK's Processor.
func (q *logQueue) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// ForceFlush implements the SDK's Processor.
func (q *logQueue) ForceFlush(ctx context.Context) error { return q.Flush(ctx) }
