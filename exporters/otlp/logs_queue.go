package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/trainspan/trainspan/internal/delivery"
	"github.com/trainspan/trainspan/internal/see"
)

// Bounds of the queue of log records that differ from those of spans. An event
// is wanted at once, so it waits less for others than a span does.
const (
	logQueueBytes = 16 << 20
	logDelay      = time.Second
)

// LogStats are exact counts of log records. At every moment Recorded =
// Exported + Dropped + Pending.
type LogStats struct {
	Recorded int64            // records that were to be sent
	Exported int64            // records that the backend took
	Dropped  int64            // records that are lost, for the causes of Drops
	Pending  int64            // records that wait or are on their way
	Drops    map[string]int64 // by cause, in the words of the spans' drops
	// LastError is of the latest attempt that failed.
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
			log.Warn("telemetry lost log records on their way to a backend; further losses are counted and reported at shutdown",
				"records", records, "cause", cause.String(), "error", err, "see", see.Delivery)
		}
		warned = true
	}
	return &logQueue{delivery.NewQueue(delivery.Sink[sdklog.Record]{Unit: "log records", Export: client.export, Close: client.close}, &o)}
}

// sizeKey is the key of the estimated size of a record in its context.
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
