package otlp

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/trainspan/trainspan/internal/delivery"
)

// Bounds of the queue of log records. An event is wanted at once, so it waits
// less for others than a span does.
const (
	logQueueSize  = delivery.DefaultMaxQueue
	logQueueBytes = 16 << 20
	logBatchSize  = delivery.DefaultMaxBatch
	logBatchBytes = delivery.DefaultMaxBatchBytes
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
	// LastError is the latest reason for a loss other than a full queue.
	LastError error
}

// logQueue is the processor between the Logs SDK and the client: bounded, never
// waiting, one goroutine that sends, and an exact account.
type logQueue struct {
	send func(context.Context, []sdklog.Record) *Failure
	log  *slog.Logger
	line *delivery.Line

	maxQueue, maxBytes, maxBatch int
	delay                        time.Duration

	wake chan struct{} // holds one: there is something to look at
	done chan struct{} // closed when the goroutine has ended

	base    context.Context // of every attempt
	abandon context.CancelFunc

	mu      sync.Mutex
	waiting []queued
	bytes   int // of waiting
	flying  int // records that are on their way
	flushes []chan struct{}
	closing bool
	stats   LogStats
	told    bool // of the first loss
}

type queued struct {
	record sdklog.Record
	size   int
}

func newLogQueue(c *Config, retry delivery.Options, send func(context.Context, []sdklog.Record) *Failure, log *slog.Logger, before LogStats) *logQueue {
	q := &logQueue{
		send: send, log: log,
		line:     delivery.NewLine(retry),
		maxQueue: logQueueSize, maxBytes: logQueueBytes, maxBatch: logBatchSize, delay: logDelay,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		stats: before,
	}
	if c.QueueSize > 0 {
		q.maxQueue = c.QueueSize
	}
	if c.QueueBytes > 0 {
		q.maxBytes = c.QueueBytes
	}
	if c.BatchSize > 0 {
		q.maxBatch = c.BatchSize
	}
	q.maxBatch = min(q.maxBatch, q.maxQueue)
	if c.BatchDelay > 0 {
		q.delay = min(q.delay, c.BatchDelay)
	}
	if q.stats.Drops == nil {
		q.stats.Drops = map[string]int64{}
	}
	q.base, q.abandon = context.WithCancel(context.Background())
	go q.run()
	return q
}

// put adds a record, or counts it as dropped.
func (q *logQueue) put(r sdklog.Record, size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Recorded++
	switch {
	case q.closing:
		q.drop(delivery.Shutdown, 1, nil)
		return
	case len(q.waiting) >= q.maxQueue, len(q.waiting) > 0 && q.bytes+size > q.maxBytes:
		q.drop(delivery.QueueFull, 1, nil)
		return
	}
	q.waiting = append(q.waiting, queued{r, size})
	q.bytes += size
	if len(q.waiting) == 1 || len(q.waiting) == q.maxBatch {
		q.nudge()
	}
}

func (q *logQueue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run sends until the queue is closed and empty.
func (q *logQueue) run() {
	defer close(q.done)
	timer := time.NewTimer(q.delay)
	defer timer.Stop()
	for {
		q.mu.Lock()
		n, hurry, closing := len(q.waiting), len(q.flushes) > 0, q.closing
		if n == 0 {
			q.answer()
		}
		q.mu.Unlock()
		switch {
		case n == 0 && closing:
			q.tell()
			return
		case n == 0:
			<-q.wake
			timer.Reset(q.delay)
			continue
		case n < q.maxBatch && !hurry && !closing:
			select {
			case <-timer.C:
			case <-q.wake:
				continue
			}
		}
		q.deliver(q.take())
		q.tell()
		timer.Reset(q.delay)
	}
}

// answer tells those who wait for an empty queue.
func (q *logQueue) answer() {
	for _, f := range q.flushes {
		close(f)
	}
	q.flushes = nil
}

// take cuts a batch off the queue.
func (q *logQueue) take() []sdklog.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []sdklog.Record
	size := 0
	for _, w := range q.waiting[:min(len(q.waiting), q.maxBatch)] {
		if size += w.size; len(batch) > 0 && size > logBatchBytes {
			break
		}
		batch = append(batch, w.record)
		q.bytes -= w.size
	}
	rest := copy(q.waiting, q.waiting[len(batch):])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	q.flying += len(batch)
	return batch
}

// deliver gets rid of a batch, one way or the other.
func (q *logQueue) deliver(batch []sdklog.Record) {
	e, cause, ok := q.line.Send(q.base, func(ctx context.Context, _ bool) *delivery.Error {
		return q.send(ctx, batch)
	})
	n := int64(len(batch))
	switch {
	case ok:
		q.settle(n, 0, 0, nil)
	case e != nil && e.Rejected > 0:
		rejected := min(int64(e.Rejected), n)
		q.settle(n-rejected, rejected, delivery.Refused, e)
	case e != nil && e.TooLarge && n > 1:
		q.deliver(batch[:n/2])
		q.deliver(batch[n/2:])
	default:
		q.settle(0, n, cause, e)
	}
}

// settle counts what became of records that were on their way.
func (q *logQueue) settle(exported, dropped int64, cause delivery.Cause, err *Failure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying -= int(exported + dropped)
	q.stats.Exported += exported
	if dropped > 0 {
		q.drop(cause, dropped, err)
	}
}

func (q *logQueue) drop(cause delivery.Cause, n int64, err *Failure) {
	q.stats.Dropped += n
	q.stats.Drops[cause.String()] += n
	if err != nil {
		q.stats.LastError = err
	}
}

// tell logs the first loss. It is never called on the goroutine of a span.
func (q *logQueue) tell() {
	s := q.Stats()
	q.mu.Lock()
	first := s.Dropped > 0 && !q.told
	q.told = q.told || first
	q.mu.Unlock()
	if first {
		q.log.Warn("telemetry lost log records on their way to a backend; further losses are counted and told at shutdown",
			"records", s.Dropped, "causes", s.Drops, "error", s.LastError)
	}
}

// flush sends what waits, until ctx is done.
func (q *logQueue) flush(ctx context.Context) error {
	q.mu.Lock()
	if q.closing {
		q.mu.Unlock()
		return nil
	}
	sent := make(chan struct{})
	q.flushes = append(q.flushes, sent)
	q.nudge()
	q.mu.Unlock()
	select {
	case <-sent:
		return nil
	case <-q.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close takes nothing more, and sends what waits until ctx is done, or while
// there is a point in it. What is left then is lost. Nothing runs any more when
// it returns. ctx has a deadline. Closing again does nothing.
func (q *logQueue) close(ctx context.Context) {
	q.mu.Lock()
	again := q.closing
	q.closing = true
	q.nudge()
	q.mu.Unlock()
	if again {
		return
	}
	end, _ := ctx.Deadline()
	defer q.line.Stop(time.Until(end), q.abandon)()
	select {
	case <-q.done:
	case <-ctx.Done():
		q.abandon()
		<-q.done
	}
	q.abandon()
}

// Stats gives the counts.
func (q *logQueue) Stats() LogStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Pending = int64(len(q.waiting) + q.flying)
	s.Drops = maps.Clone(s.Drops)
	return s
}

// OnEmit implements the SDK's Processor.
func (q *logQueue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	size, _ := ctx.Value(sizeKey{}).(int)
	q.put(r.Clone(), size)
	return nil
}

// sizeKey is the key of the estimated size of a record in its context.
type sizeKey struct{}

// Enabled implements the SDK's Processor.
func (q *logQueue) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// ForceFlush implements the SDK's Processor.
func (q *logQueue) ForceFlush(ctx context.Context) error { return q.flush(ctx) }

// Shutdown implements the SDK's Processor.
func (q *logQueue) Shutdown(ctx context.Context) error { q.close(ctx); return nil }
