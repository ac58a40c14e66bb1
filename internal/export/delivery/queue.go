// Package delivery feeds finished spans and log records to a backend without
// ever harming the program that makes them: a bounded queue, one goroutine that
// sends, and an exact account of what became of every item. [Queue] is for any
// kind of item, [Processor] is one of spans.
//
// It takes the place of the SDK's batch processors, which drop in silence and
// leave retries to the exporter. Here
//
//   - putting an item never waits: the queue is bounded by number and by bytes,
//     and what does not fit is counted as dropped;
//   - a batch that the backend cannot take now is tried again, with growing
//     pauses, for a bounded time; a batch that is too large is halved;
//   - a pause that the backend asks for holds for all that goes there;
//   - what cannot be delivered goes to a [Spill], if there is one;
//   - Shutdown keeps to its deadline even if the backend never answers, and
//     does not wait for one that has long been away;
//   - [Stats] adds up at every moment: items put are items exported, spilled,
//     dropped for some cause, or pending.
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

// burst is how many times MaxQueue items may wait where a spill takes what is
// more than that as soon as it can.
const burst = 16

// largeItem is the size in bytes from which an item is cleaned before it waits.
const largeItem = 64 << 10

// Sink is where the items of a [Queue] go. Export is required, the other
// functions may be nil. A panic of any of them counts as its error.
type Sink[T any] struct {
	// Unit is what the items are called in errors, as "spans".
	Unit string
	// Export sends a batch and may keep it no longer than the call. One call is
	// made at a time.
	Export func(ctx context.Context, batch []T) error
	// Clean repairs an item that the backend could not take, and gives the number of
	// values that it repaired.
	Clean func(T) (T, int)
	// Keep is the Keep of a [Spill].
	Keep func(ctx context.Context, batch []T) (kept int, err error)
	// Close is called once, after the last Export and Keep.
	Close func(ctx context.Context) error
}

// Queue is a bounded queue of items in front of one backend.
// Make it with [NewQueue]. It is safe for concurrent use.
type Queue[T any] struct {
	sink   Sink[T]
	opts   Options
	sender *sender

	wake     chan struct{} // a batch is full
	overflow chan struct{} // the queue is nearly full
	flushes  chan *flush
	stop     chan struct{} // closed by Shutdown
	sent     chan struct{} // closed when nothing is sent any more
	work     sync.WaitGroup
	sending  context.Context // of every attempt; cancelled before the deadline of Shutdown
	cancel   context.CancelFunc
	once     sync.Once
	shutErr  error

	oversize int // of the goroutine that sends: answers in a row that a request is too large

	ending ending          // set before stop is closed
	rescue context.Context // of the spill after the stop

	account // its lock guards what follows too
	queue   bounded.Queue[T]
	stopped bool // nothing is queued any more

	flight flight[T]
	relief sync.Mutex // held while items go from the queue to the spill
}

// ending are the times of Shutdown. What was not taken goes to the spill while
// there is time for that.
type ending struct {
	began   time.Time
	sending time.Duration // for attempts
	keeping time.Duration // for the spill, from the beginning as well
}

// flush is a request to send everything that waits.
type flush struct {
	done chan struct{}
}

// NewQueue makes a queue in front of a sink, and starts its goroutines, which
// Shutdown ends. Options are copied; nil is none. Their Clean, Spill and
// LookupEnv are for a [Processor] and mean nothing here.
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
		// A burst may outrun the goroutine that moves items to the spill, and
		// what would be kept a moment later should not be dropped.
		q.queue.MaxItems = burst * o.MaxQueue
	}
	q.sending, q.cancel = context.WithCancel(context.Background())
	q.work.Go(q.send)
	if sink.Keep != nil {
		q.work.Go(q.relieve)
	}
	return q
}

// Put queues an item of such an estimated size, or counts it as dropped. It
// never waits for the backend.
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

// crowded reports whether more than num/den of what may wait does. The lock is
// held.
func (q *Queue[T]) crowded(num, den int) bool {
	return q.queue.Len()*den > q.opts.MaxQueue*num || q.queue.Bytes()/num > q.opts.MaxQueueBytes/den
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns the counts of this moment.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Pending = s.pending()
	s.PendingBytes = int64(q.queue.Bytes())
	return s
}

// Flush sends what waits, and returns when its fate is known or ctx is done; the
// error is that of ctx, or tells at once that the backend has asked for a pause
// that ends later.
func (q *Queue[T]) Flush(ctx context.Context) error {
	ctx, cancel := q.bounded(ctx)
	defer cancel()
	if end, _ := ctx.Deadline(); q.sender.health.Held() > time.Until(end) {
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

// Shutdown sends what waits, gives the rest to the spill or counts it as
// dropped, closes the sink and ends the goroutines. It returns by the deadline
// of ctx, even if the sink does not heed its own context, and much sooner if
// the backend has long been away or asks for a pause beyond the deadline. Later
// and concurrent calls give the same result.
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

// times divides what Shutdown has. Some time is left for closing: a twentieth, at
// most a quarter of a second; with a spill, which has to write what is left before
// that, sending ends with three quarters, at most two seconds before the end.
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

// bounded returns ctx a deadline if it has none.
func (q *Queue[T]) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, q.opts.ShutdownTimeout)
}

// clean repairs an item. If that fails the item goes out as it is.
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

// Estimated bytes of what every span, event, link, attribute and list item
// costs besides its text.
const (
	spanBytes = 160
	partBytes = 48
	kvBytes   = 24
	itemBytes = 12
)

// sizeOf estimates what a span holds in memory and takes on the wire. It looks
// at lengths only, except that OpenTelemetry copies a list to show it.
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
