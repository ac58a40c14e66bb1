package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/bounded"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxFailures is the number of failed exports, without any success, after which
	// telemetry gives an output up. The number is one-logger's, which also counts
	// failures with successes in between; here an output that has worked once is never
	// given up.
	maxFailures = 5

	// crowded is the number of records that may wait for an output before the calls that
	// record wait for it, and most the maximum number that may wait. A record with its
	// attributes takes about 1 KB.
	crowded = 1 << 14
	most    = 1 << 16

	// patience is the total time that calls wait for a crowded output until it has
	// caught up. Calls wait for an inline output, which has its own bound, as long as it
	// exports something within each inlinePatience.
	patience       = 100 * time.Millisecond
	inlinePatience = 2 * time.Second

	// turn is the maximum number of entries that a call exports for an inline output. It is
	// more than a call pushes; the others are those of other calls.
	turn = 256
)

// DataError reports a gap in the telemetry data.
type DataError struct {
	Message    string
	Attributes []attributes.Attr
	Time       int64 // nanoseconds since the Unix epoch
	// Once marks reports of which each output gets only the first.
	Once bool
	// Extension marks a report that one-logger does not have.
	Extension bool
	// Local excludes outputs on a network.
	Local bool
	// From is the output with the problem, which does not get the report.
	From outputs.Output
}

// item is one entry of a queue: a record, or a data error whose record depends on what
// the output got before it.
type item struct {
	record [1]outputs.Record
	gap    *DataError
}

// queue holds the records for one output and exports them in order, one at a time. For
// an output with Traits.Inline, which never blocks, a recording goroutine exports them;
// for others, the queue's own goroutine.
type queue struct {
	out  outputs.Output
	log  *slog.Logger
	tell func(DataError) // reports a data error to the other outputs
	wake chan struct{}   // nil for an inline output
	done chan struct{}   // closed when the goroutine has ended

	mu       sync.Mutex
	items    bounded.Queue[item]
	at       item   // being exported
	running  bool   // a goroutine is exporting
	closed   bool   // push accepts nothing more
	gone     bool   // the records that waited at the deadline were counted as dropped
	pushed   uint64 // number of accepted entries
	exported uint64 // number of processed entries
	waiters  []waiter
	waited   time.Duration // total wait since the output fell behind
	missed   int64         // records dropped since the last report to the output
	behind   bool          // the present drops are logged
	health   Health
}

// waiter waits until the given number of entries is processed.
type waiter struct {
	entries uint64
	ready   chan struct{}
}

// Health is the state of an output that takes records.
type Health struct {
	Output            outputs.Output
	Failures          int   // number of failed exports
	Delivered         bool  // at least one export succeeded
	GivenUp           bool  // the output gets no more records
	DataErrorReported bool  // the output got its one telemetry data error
	Dropped           int64 // records that the output did not get, because it fell behind or was given up
	LastError         error // of the latest failure
}

func newQueue(out outputs.Output, inline bool, log *slog.Logger, tell func(DataError)) *queue {
	q := &queue{out: out, log: log, tell: tell, items: bounded.Queue[item]{MaxItems: most - 1}} // one more is being exported
	q.health.Output = out
	if !inline {
		q.wake, q.done = make(chan struct{}, 1), make(chan struct{})
		go q.run()
	}
	return q
}

func (q *queue) run() {
	defer close(q.done)
	for range q.wake {
		q.mu.Lock()
		q.export(math.MaxUint64)
		q.mu.Unlock()
	}
}

// push queues a record or a data error. It drops it if the queue is closed or full, or
// the output is given up.
func (q *queue) push(r *outputs.Record, gap *DataError) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.health.GivenUp {
		q.health.Dropped++
		return
	}
	place := q.items.Place(0)
	if place == nil {
		q.health.Dropped++
		q.missed++
		return
	}
	if place.gap = gap; r != nil {
		place.record[0] = *r
	}
	q.pushed++
}

// backlog returns the number of unprocessed entries. q.mu must be held.
func (q *queue) backlog() int { return int(q.pushed - q.exported) }

// drain exports the queued entries, or wakes the goroutine that does. It blocks only if
// the output has fallen far behind, and for a bounded time.
func (q *queue) drain() {
	q.mu.Lock()
	if q.wake == nil {
		if q.export(q.exported + turn); q.items.Len() > 0 && !q.running {
			go func() { // other calls push as fast as the output works
				q.mu.Lock()
				defer q.mu.Unlock()
				q.export(math.MaxUint64)
			}()
		}
	} else {
		q.rouse()
	}
	crowd := q.backlog() >= crowded && !q.closed && q.waited < patience
	first := q.missed > 0 && !q.behind
	q.behind = q.behind || first
	q.mu.Unlock()
	if first {
		q.log.Error("telemetry output does not keep up: records are dropped", "output", fmt.Sprintf("%T", q.out), "see", helptopic.Behind)
	}
	if crowd {
		q.waitInCrowd()
	}
}

// rouse wakes the queue's goroutine. q.mu must be held.
func (q *queue) rouse() {
	if q.items.Len() == 0 || q.closed {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// waitInCrowd waits until the backlog is small again, or the output takes too long.
func (q *queue) waitInCrowd() {
	q.mu.Lock()
	ready := q.when(q.pushed - crowded/2)
	left, before := patience-q.waited, q.exported
	q.mu.Unlock()
	if q.wake == nil {
		left = inlinePatience
	}
	start := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-ready:
			return
		case <-timer.C:
		}
		q.mu.Lock()
		moved := q.exported > before
		before = q.exported
		if moved && q.wake == nil {
			q.mu.Unlock()
			timer.Reset(left)
			continue
		}
		q.waited += time.Since(start)
		q.mu.Unlock()
		return
	}
}

// when returns a channel that is closed once the given number of entries is processed.
// q.mu must be held.
func (q *queue) when(entries uint64) <-chan struct{} {
	ready := make(chan struct{})
	if q.exported >= entries {
		close(ready)
	} else {
		q.waiters = append(q.waiters, waiter{entries, ready})
	}
	return ready
}

// advance counts n entries as processed. q.mu must be held.
func (q *queue) advance(n uint64) {
	q.exported += n
	if len(q.waiters) == 0 {
		return
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w waiter) bool {
		if q.exported < w.entries {
			return false
		}
		close(w.ready)
		return true
	})
}

// export exports queued entries until the queue is empty or, counted since the start of the
// queue, last entries were exported. If another goroutine is exporting, it returns at once,
// because that goroutine continues with the new entries. q.mu must be held; export releases
// it while the output works.
func (q *queue) export(last uint64) {
	if q.running {
		return
	}
	q.running = true
	finished := true
	defer func() {
		if !finished { // Write ended the goroutine
			q.mu.Lock()
			defer q.mu.Unlock()
			q.settled()
		}
		q.at, q.running = item{}, false
	}()
	for q.items.Len() > 0 && q.exported < last {
		q.items.TakeTo(&q.at)
		finished = false
		q.one(&q.at)
		finished = true
		q.settled()
	}
}

// settled counts the current entry as processed. q.mu must be held.
func (q *queue) settled() {
	if !q.gone {
		q.advance(1)
	}
	if q.backlog() == 0 {
		q.waited = 0
	}
}

// wait waits until everything pushed before is exported, or ctx ends.
func (q *queue) wait(ctx context.Context) error {
	q.mu.Lock()
	ready := q.when(q.pushed)
	q.mu.Unlock()
	q.drain()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close makes push drop further entries, and ends the goroutine once the queue is
// exported.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.wake != nil {
		close(q.wake)
	}
}

// abandon counts all unprocessed entries as dropped, including one that the output is
// still writing, and returns their number.
func (q *queue) abandon() (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.backlog()
	q.gone, q.items = true, bounded.Queue[item]{}
	q.health.Dropped += int64(n)
	q.advance(uint64(n))
	return n
}

// one exports one entry and updates the health. q.mu must be held; one releases it while
// the output works. Only the goroutine that exports calls it.
func (q *queue) one(i *item) {
	if q.health.GivenUp {
		q.health.Dropped++
		return
	}
	r := &i.record[0]
	if i.gap != nil {
		ok := false
		if *r, ok = q.gap(i.gap); !ok {
			return
		}
	}
	q.mu.Unlock()
	err := q.call(i.record[:])
	if err != nil {
		q.failed(r, err)
	}
	q.mu.Lock()
	if err != nil || q.gone {
		return
	}
	q.health.Delivered = true
	if q.missed > 0 && q.backlog() < crowded {
		q.caughtUp(r.Event.Time)
	}
}

// caughtUp queues a report to an output that has caught up: the number of records it did
// not get. q.mu must be held.
func (q *queue) caughtUp(at int64) {
	n := q.missed
	q.missed, q.behind = 0, false
	q.items.Put(item{gap: &DataError{
		Message:    fmt.Sprintf("%d records are missing: the output did not keep up", n),
		Attributes: attrvalue.Extend(attrvalue.Int(onelogger.LostRecords, n)),
		Time:       at, Extension: true,
	}}, 0)
	q.pushed++
}

// gap returns the record of a data error, or false if the output already got its one.
// q.mu must be held.
func (q *queue) gap(e *DataError) (outputs.Record, bool) {
	if e.Once {
		if q.health.DataErrorReported {
			return outputs.Record{}, false
		}
		q.health.DataErrorReported = true
	}
	return q.dataError(e), true
}

// dataError returns the record of a data error. q.mu must be held.
func (q *queue) dataError(e *DataError) outputs.Record {
	kind := onelogger.NoTelemetryData
	if q.health.Delivered {
		kind = onelogger.IncompleteTelemetryData
	}
	all := append([]attributes.Attr{
		attrvalue.String(onelogger.ErrorMessage, e.Message),
		attrvalue.String(onelogger.TelemetryDataErrorType, kind),
	}, e.Attributes...)
	return outputs.Record{
		Kind:      outputs.KindDataError,
		Event:     outputs.Event{Name: spans.EventTelemetryDataError, Time: e.Time, Attributes: all},
		Extension: e.Extension,
	}
}

func (q *queue) call(records []outputs.Record) error {
	return guard(func() error { return q.out.Write(records) })
}

// failed counts a failed export, reports it once to the output itself, and gives up an
// output that has never worked.
func (q *queue) failed(r *outputs.Record, err error) {
	q.mu.Lock()
	q.health.Failures++
	q.health.LastError = err
	failures, report := q.health.Failures, !q.health.DataErrorReported
	q.health.DataErrorReported = true
	own := q.dataError(&DataError{Message: fmt.Sprintf("Error exporting a %s record: %v", r.Kind, err), Time: r.Event.Time})
	q.mu.Unlock()

	name := fmt.Sprintf("%T", q.out)
	if sparse(int64(failures)) {
		q.log.Error("telemetry output failed", "output", name, "record", r.Kind.String(), "failures", failures, "error", err, "see", helptopic.OutputFails)
	}
	if report {
		if err := q.call([]outputs.Record{own}); err != nil {
			q.log.Error("telemetry output failed to record its own failure", "output", name, "error", err, "see", helptopic.OutputFails)
		} else {
			q.mu.Lock()
			q.health.Delivered = true
			q.mu.Unlock()
		}
	}
	q.mu.Lock()
	giveUp := failures >= maxFailures && !q.health.Delivered
	q.health.GivenUp = giveUp
	q.mu.Unlock()
	if giveUp {
		q.log.Error("telemetry output is disabled: it never worked", "output", name, "failures", failures, "see", helptopic.OutputFails)
		q.tell(DataError{
			Message: fmt.Sprintf("output %s was disabled after %d failures: %v", name, failures, err),
			Time:    r.Event.Time, Extension: true, From: q.out,
		})
	}
}

// sparse reports whether the nth occurrence is logged: the first, the tenth, the
// hundredth and so on.
func sparse(n int64) bool {
	for n%10 == 0 && n > 0 {
		n /= 10
	}
	return n == 1
}

// guard calls f and returns a panic as an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("output panicked: %v", p)
		}
	}()
	return f()
}

// plain is the output for a span processor that is not an outputs.Output: a foreign one,
// or a decorator of an output that exposes only its OpenTelemetry side.
type plain struct {
	outputs.None
	sdktrace.SpanProcessor
}

// FromProcessor returns the output for a span processor, which gets every span.
func FromProcessor(sp sdktrace.SpanProcessor) outputs.Output {
	if out, ok := sp.(outputs.Output); ok {
		return out
	}
	return &plain{SpanProcessor: sp}
}

// Open implements outputs.Output.
func (p *plain) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true, All: true}, nil
}

// Write implements outputs.Output.
func (p *plain) Write(records []outputs.Record) error {
	for i := range records {
		switch r := &records[i]; r.Kind {
		case outputs.KindStart:
			p.OnStart(r.Context, r.Snapshot.(sdktrace.ReadWriteSpan))
		case outputs.KindStop:
			p.OnEnd(r.Snapshot)
		}
	}
	return nil
}

// ForceFlush implements outputs.Output.
func (p *plain) ForceFlush(ctx context.Context) error { return p.SpanProcessor.ForceFlush(ctx) }

// Shutdown implements outputs.Output.
func (p *plain) Shutdown(ctx context.Context) error { return p.SpanProcessor.Shutdown(ctx) }
