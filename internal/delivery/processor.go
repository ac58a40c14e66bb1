package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// burst is how many times MaxQueue spans may wait where a spill takes what is
// more than that as soon as it can.
const burst = 16

// largeSpan is the size in bytes from which a span is cleaned before it waits.
const largeSpan = 64 << 10

// Processor is a span processor over one exporter. Make it with [New]; a nil
// Processor does nothing. It is safe for concurrent use.
type Processor struct {
	exporter sdktrace.SpanExporter
	opts     Options
	line     *Line

	wake     chan struct{} // a batch is full
	overflow chan struct{} // the queue is nearly full
	flushes  chan *flush
	stop     chan struct{} // closed by Shutdown
	work     sync.WaitGroup
	sending  context.Context // of every attempt; cancelled before the deadline of Shutdown
	cancel   context.CancelFunc
	once     sync.Once
	shutErr  error

	mu        sync.Mutex
	queue     queue
	stats     Stats
	stopped   bool          // nothing is queued any more
	abandoned bool          // what was pending is counted as dropped
	reasons   [Causes]error // of the latest drop

	relief sync.Mutex // held while spans go from the queue to the spill

	telling sync.Mutex
	told    [Causes]int64
}

var _ sdktrace.SpanProcessor = (*Processor)(nil)

// flush is a request to send everything that waits.
type flush struct {
	done chan struct{}
}

// New makes a processor that feeds e, and starts its goroutines, which
// Shutdown ends. Options are copied; nil is none.
func New(e sdktrace.SpanExporter, options *Options) *Processor {
	var o Options
	if options != nil {
		o = *options
	}
	if t, ok := e.(Tuner); ok {
		o = o.or(t.Delivery())
	} else {
		o = o.or(fromEnv(o.LookupEnv))
	}
	o = o.withDefaults()
	p := &Processor{
		exporter: e, opts: o, line: NewLine(o),
		wake:     make(chan struct{}, 1),
		overflow: make(chan struct{}, 1),
		flushes:  make(chan *flush),
		stop:     make(chan struct{}),
		queue:    queue{maxItems: o.MaxQueue, maxBytes: o.MaxQueueBytes},
	}
	if o.Spill != nil {
		// A burst may outrun the goroutine that moves spans to the spill, and
		// what would be kept a moment later should not be dropped.
		p.queue.maxItems = burst * o.MaxQueue
	}
	p.sending, p.cancel = context.WithCancel(context.Background())
	p.work.Go(p.send)
	if o.Spill != nil {
		p.work.Go(p.relieve)
	}
	return p
}

// OnStart does nothing.
func (p *Processor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd queues a sampled span, or counts it as dropped. It never waits for the
// exporter.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p == nil || !s.SpanContext().IsSampled() {
		return
	}
	size, repaired := sizeOf(s), 0
	if size > largeSpan {
		if s, repaired = p.clean(s); repaired > 0 {
			size = sizeOf(s)
		}
	}
	p.mu.Lock()
	p.stats.Ended++
	p.stats.Repaired += int64(repaired)
	switch {
	case p.stopped:
		p.stats.Dropped[Shutdown]++
	case !p.queue.put(item{s, size}):
		p.stats.Dropped[QueueFull]++
	}
	full := p.queue.len() >= p.opts.MaxBatch || p.queue.bytes >= p.opts.MaxBatchBytes
	nearlyFull := p.opts.Spill != nil && p.crowded(3, 4)
	p.mu.Unlock()
	if full {
		signal(p.wake)
	}
	if nearlyFull {
		signal(p.overflow)
	}
}

// crowded reports whether more than num/den of what may wait does. The lock is
// held.
func (p *Processor) crowded(num, den int) bool {
	return p.queue.len()*den > p.opts.MaxQueue*num || p.queue.bytes/num > p.opts.MaxQueueBytes/den
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats gives the counts of this moment.
func (p *Processor) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Pending = s.pending()
	s.PendingBytes = int64(p.queue.bytes)
	return s
}

// pending is the number of spans whose fate is open.
func (s *Stats) pending() int64 { return s.Ended - s.Exported - s.Spilled - s.DroppedTotal() }

// ForceFlush sends the spans that wait, and returns when their fate is known or
// ctx is done. The error is that of ctx, or tells that spans were lost
// meanwhile.
func (p *Processor) ForceFlush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	before := p.Stats()
	f := &flush{done: make(chan struct{})}
	select {
	case p.flushes <- f:
	case <-p.stop:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	after := p.Stats()
	if lost := after.DroppedTotal() - before.DroppedTotal(); lost > 0 {
		return fmt.Errorf("delivery: %d spans were lost: %w", lost, lastError(&after))
	}
	return nil
}

// Shutdown sends what waits, gives the rest to the spill or counts it as
// dropped, shuts the exporter down and ends the goroutines. It returns by the
// deadline of ctx, even if the exporter does not heed its own context, and
// much sooner if the backend has long been away ([Line.Send]). Later and
// concurrent calls give the same result.
func (p *Processor) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.once.Do(func() { p.shutErr = p.shutdown(ctx) })
	return p.shutErr
}

func (p *Processor) shutdown(ctx context.Context) error {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	defer p.line.Stop(p.sendingTime(ctx), p.cancel)()
	close(p.stop)

	done := make(chan error, 1)
	go func() {
		p.work.Wait()
		done <- p.close(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		p.cancel()
		err = ctx.Err()
	}
	p.cancel()
	p.abandon()
	p.tell()
	s := p.Stats()
	if lost := s.Dropped[Shutdown]; lost > 0 {
		return fmt.Errorf("delivery: %d spans were not delivered before the end: %w", lost, lastError(&s))
	}
	return err
}

// sendingTime is how long Shutdown may send. Some time is left for closing: a
// twentieth, at most a quarter of a second; with a spill, which has to write what is
// left, a quarter, at most two seconds.
func (p *Processor) sendingTime(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	left := max(0, time.Until(deadline))
	if p.opts.Spill != nil {
		return left - min(left/4, 2*time.Second)
	}
	return left - min(left/20, time.Second/4)
}

// close ends the exporter and the spill.
func (p *Processor) close(ctx context.Context) error {
	err := p.guard(func() error { return p.exporter.Shutdown(ctx) })
	if p.opts.Spill == nil {
		return err
	}
	spillErr := p.guard(p.opts.Spill.Close)
	p.mu.Lock()
	p.unspill(spillErr)
	p.mu.Unlock()
	if err == nil {
		err = spillErr
	}
	return err
}

// abandon counts what is still pending as dropped; whatever becomes of it
// later is not counted any more.
func (p *Processor) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Dropped[Shutdown] += p.stats.pending()
	p.abandoned = true
}

// bounded gives ctx a deadline if it has none.
func (p *Processor) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.opts.ShutdownTimeout)
}

// clean mends a span. If that fails the span goes out as it is.
func (p *Processor) clean(s sdktrace.ReadOnlySpan) (mended sdktrace.ReadOnlySpan, repaired int) {
	if p.opts.Clean == nil {
		return s, 0
	}
	defer func() {
		if recover() != nil {
			mended, repaired = s, 0
		}
	}()
	return p.opts.Clean(s)
}

// guard turns a panic of somebody else's code into an error.
func (p *Processor) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
		}
	}()
	return f()
}

func lastError(s *Stats) error {
	if s.LastError == nil {
		return errUnknown
	}
	return s.LastError
}
