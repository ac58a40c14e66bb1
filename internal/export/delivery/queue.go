// Package delivery feeds finished spans and log records to a backend without
// ever harming the program that makes them: with a bounded queue, one sending
// goroutine, and exact counts of what became of every item. [Queue] is for any
// kind of item, [Processor] is for spans.
//
// It replaces the SDK's batch processors, which drop silently and leave retries
// to the exporter. Here
//
//   - putting an item never waits: the queue is bounded in number and bytes, and what does not fit is counted as dropped;
//   - a batch that the backend cannot take now is retried, with growing pauses, for a bounded time; a batch that is too large is halved;
//   - a pause that the backend asks for holds for everything sent to it;
//   - what cannot be delivered goes to a [Spill], if there is one;
//   - Shutdown keeps its deadline even if the backend never answers, and does not wait for one that has been unreachable for long;
//   - [Stats] adds up at every moment: items put are items exported, spilled, dropped for some cause, or pending.
package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/bounded"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// burst is how many times MaxQueue items may wait if a spill takes the excess
// as soon as it can.
const burst = 16

// largeItem is the size in bytes from which an item is cleaned before it waits.
const largeItem = 64 << 10

// Sink is the destination of a [Queue]. Export is required, the other functions
// may be nil. A panic of any of them counts as its error.
type Sink[T any] struct {
	// Unit is the name of the items in errors, such as "spans".
	Unit string
	// Export sends a batch and must not keep it after the call. Calls do not
	// overlap.
	Export func(ctx context.Context, batch []T) error
	// Clean repairs an item that the backend could not accept, and returns the
	// number of repaired values.
	Clean func(T) (T, int)
	// Keep is the Keep of a [Spill].
	Keep func(ctx context.Context, batch []T) (kept int, err error)
	// Close is called once, after the last Export and Keep.
	Close func(ctx context.Context) error
}

// Queue is a bounded queue of items for one backend. Create it with [NewQueue].
// It is safe for concurrent use.
type Queue[T any] struct {
	sink   Sink[T]
	opts   Options
	sender *sender

	wake     chan struct{} // signals that a batch is full
	overflow chan struct{} // signals that the queue is nearly full
	flushes  chan *flush
	stop     chan struct{} // closed by Shutdown
	sent     chan struct{} // closed when nothing is sent any more
	work     sync.WaitGroup
	sending  context.Context // the context of every attempt; cancelled before the deadline of Shutdown
	cancel   context.CancelFunc
	once     sync.Once
	shutErr  error

	oversize int // used by the sending goroutine: successive answers that a request is too large

	ending ending          // set before stop is closed
	rescue context.Context // the context of the spill after the stop

	account // its lock also guards the fields below
	queue   bounded.Queue[T]
	stopped bool // nothing is queued any more

	flight flight[T]
	relief sync.Mutex // held while items move from the queue to the spill
}

// ending holds the times of Shutdown. What was not sent goes to the spill while
// there is time.
type ending struct {
	began   time.Time
	sending time.Duration // for attempts
	keeping time.Duration // for the spill, from the same start
}

// flush is a request to send all waiting items.
type flush struct {
	done chan struct{}
}

// NewQueue returns a queue for a sink, and starts its goroutines, which
// Shutdown ends. Options are copied; nil means none. Their Clean, Spill and
// LookupEnv are for a [Processor] and are ignored here.
func NewQueue[T any](sink Sink[T], options *Options) *Queue[T] {
	var o Options
	if options != nil {
		o = *options
	}
	o = o.withDefaults()
	q := &Queue[T]{
		sink: sink, opts: o, sender: newSender(o, sink.Keep != nil),
		wake:     make(chan struct{}, 1),
		overflow: make(chan struct{}, 1),
		flushes:  make(chan *flush),
		stop:     make(chan struct{}),
		sent:     make(chan struct{}),
		rescue:   context.Background(),
		account:  account{onLoss: o.OnLoss},
		queue:    bounded.Queue[T]{MaxItems: o.MaxQueue, MaxBytes: o.MaxQueueBytes},
	}
	if sink.Keep != nil {
		// A burst may be faster than the goroutine that moves items to the spill; items
		// that would be kept a moment later should not be dropped.
		q.queue.MaxItems = burst * o.MaxQueue
	}
	q.sending, q.cancel = context.WithCancel(context.Background())
	q.work.Go(q.send)
	if sink.Keep != nil {
		q.work.Go(q.relieve)
	}
	return q
}

// Put queues an item with an estimated size in bytes, or counts it as dropped.
// It never waits for the backend.
func (q *Queue[T]) Put(value T, bytes int) { q.put(value, bytes, 0) }

func (q *Queue[T]) put(value T, bytes, repaired int) {
	q.mu.Lock()
	q.stats.Ended++
	q.stats.Repaired += int64(repaired)
	switch {
	case q.stopped:
		q.stats.Dropped[Shutdown]++
	case !q.queue.Put(value, bytes):
		q.stats.Dropped[QueueFull]++
	}
	full := q.queue.Len() >= q.opts.MaxBatch || q.queue.Bytes() >= q.opts.MaxBatchBytes
	nearlyFull := q.sink.Keep != nil && q.crowded(3, 4)
	q.mu.Unlock()
	if full {
		signal(q.wake)
	}
	if nearlyFull {
		signal(q.overflow)
	}
}

// crowded reports whether the queue is filled to more than num/den. The caller
// holds the lock.
func (q *Queue[T]) crowded(num, den int) bool {
	return q.queue.Len()*den > q.opts.MaxQueue*num || q.queue.Bytes()/num > q.opts.MaxQueueBytes/den
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns the current counts.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Pending = s.pending()
	s.PendingBytes = int64(q.queue.Bytes())
	return s
}

// Flush sends the waiting items, and returns when their result is known or ctx
// is done. The error is that of ctx, or reports at once that the backend has
// asked for a pause that ends later.
func (q *Queue[T]) Flush(ctx context.Context) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, _ := ctx.Deadline(); q.sender.health.Held() > max(0, time.Until(end)) {
		return errHeld
	}
	f := &flush{done: make(chan struct{})}
	select {
	case q.flushes <- f:
	case <-q.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown sends the waiting items, gives the rest to the spill or counts it as
// dropped, closes the sink and ends the goroutines. It returns by the deadline
// of ctx, even if the sink ignores its own context, and much sooner if the
// backend has been unreachable for long or asks for a pause beyond the
// deadline. Later and concurrent calls return the same result.
func (q *Queue[T]) Shutdown(ctx context.Context) error {
	q.once.Do(func() { q.shutErr = q.shutdown(ctx) })
	return q.shutErr
}

func (q *Queue[T]) shutdown(ctx context.Context) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	q.ending = q.times(ctx)
	rescue, end := context.WithTimeout(context.WithoutCancel(ctx), q.ending.keeping)
	defer end()
	q.mu.Lock()
	q.stopped = true
	q.rescue = rescue
	q.mu.Unlock()
	defer q.sender.end(q.ending.sending, q.cancel)()
	close(q.stop)

	done := make(chan error, 1)
	go func() {
		q.work.Wait()
		done <- q.close(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		q.cancel()
		if q.sink.Keep == nil {
			err = ctx.Err()
		}
	}
	q.cancel()
	q.abandon()
	q.report()
	s := q.Stats()
	if lost := s.Dropped[Shutdown]; lost > 0 {
		return fmt.Errorf("delivery: %d %s were not delivered before shutdown: %w", lost, q.sink.Unit, s.lastError())
	}
	return err
}

// times divides the time of Shutdown. A twentieth, at most 250 ms, is left for
// closing. With a spill, which has to write the rest before that, sending ends
// after three quarters, at most two seconds before the end.
func (q *Queue[T]) times(ctx context.Context) ending {
	deadline, _ := ctx.Deadline()
	now := time.Now()
	left := max(0, deadline.Sub(now))
	e := ending{began: now, keeping: left - min(left/20, time.Second/4)}
	if e.sending = e.keeping; q.sink.Keep != nil {
		e.sending = left - min(left/4, 2*time.Second)
	}
	return e
}

// close ends the sink.
func (q *Queue[T]) close(ctx context.Context) error {
	if q.sink.Close == nil {
		return nil
	}
	err := guard(func() error { return q.sink.Close(ctx) })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unspill(err)
	return err
}

// bounded returns ctx, with a deadline if it had none.
func (q *Queue[T]) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, q.opts.ShutdownTimeout)
}

// clean repairs an item. If that fails, the item is sent as it is.
func (q *Queue[T]) clean(value T) (repaired T, n int) {
	if q.sink.Clean == nil {
		return value, 0
	}
	defer func() {
		if recover() != nil {
			repaired, n = value, 0
		}
	}()
	return q.sink.Clean(value)
}

// Estimated bytes of every span, event, link, attribute and list item without
// their text.
const (
	spanBytes = 160
	partBytes = 48
	kvBytes   = 24
	itemBytes = 12
)

// sizeOf estimates the size of a span in memory and on the wire. It only looks
// at lengths, except that OpenTelemetry copies a list to return it.
func sizeOf(s sdktrace.ReadOnlySpan) int {
	n := spanBytes + len(s.Name()) + len(s.Status().Description) + sizeOfAttributes(s.Attributes())
	for _, e := range s.Events() {
		n += partBytes + len(e.Name) + sizeOfAttributes(e.Attributes)
	}
	for _, l := range s.Links() {
		n += partBytes + sizeOfAttributes(l.Attributes)
	}
	return n
}

func sizeOfAttributes(attrs []attribute.KeyValue) (n int) {
	for i := range attrs {
		n += kvBytes + len(attrs[i].Key) + sizeOfValue(&attrs[i].Value)
	}
	return n
}

func sizeOfValue(v *attribute.Value) (n int) {
	switch v.Type() {
	case attribute.BOOL, attribute.INT64, attribute.FLOAT64, attribute.EMPTY:
		return 0
	case attribute.STRING:
		return len(v.AsString())
	case attribute.STRINGSLICE:
		for _, s := range v.AsStringSlice() {
			n += itemBytes + len(s)
		}
	case attribute.BOOLSLICE:
		n = itemBytes * len(v.AsBoolSlice())
	case attribute.INT64SLICE:
		n = itemBytes * len(v.AsInt64Slice())
	case attribute.FLOAT64SLICE:
		n = itemBytes * len(v.AsFloat64Slice())
	case attribute.BYTESLICE:
		n = len(v.AsByteSlice())
	case attribute.SLICE:
		for _, item := range v.AsSlice() {
			n += itemBytes + sizeOfValue(&item)
		}
	case attribute.MAP:
		n = sizeOfAttributes(v.AsMap())
	}
	return n
}
