package dispatch

import (
	"context"
	"fmt"
	"log/slog"
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
	// maxFailures is how many failed exports without a success make telemetry
	// give an output up. The number is the reference's, which also counts
	// failures with successes in between; an output that works again counts as
	// working here.
	maxFailures = 5

	// crowded is how many records may wait for an output before the calls that
	// record wait for it, and most how many may wait at all. A record with its
	// attributes is about 1 KB.
	crowded = 1 << 14
	most    = 1 << 16

	// patience is how long calls wait for a crowded output in all, until it has
	// caught up. Calls wait for an inline output, whose own bound holds, as long
	// as it takes something within inlinePatience.
	patience       = 100 * time.Millisecond
	inlinePatience = 2 * time.Second
)

// DataError says that the telemetry data has a gap.
type DataError struct {
	Message    string
	Attributes []attributes.Attr
	Time       int64 // nanoseconds since the Unix epoch
	// Once marks a report of which each output takes only the first.
	Once bool
	// Extension marks a report that the reference never makes.
	Extension bool
	// Local keeps it from outputs on a network.
	Local bool
	// From is the output that has the problem and does not get the report.
	From outputs.Output
}

// item is one entry of a queue: a record, or a gap in the data whose record
// depends on what the output got before it.
type item struct {
	record [1]outputs.Record
	gap    *DataError
}

// queue holds the records for one output until they are exported, in order,
// one at a time: on a goroutine that records for an output that never waits
// (Traits.Inline), on a goroutine of the queue's own for others.
type queue struct {
	out  outputs.Output
	log  *slog.Logger
	tell func(DataError) // of what the other outputs are to know
	wake chan struct{}   // nil for an inline output
	done chan struct{}   // closed when the goroutine has ended

	mu       sync.Mutex
	items    bounded.Queue[item]
	at       item   // that is exported
	running  bool   // somebody exports
	closed   bool   // nothing is taken any more
	gone     bool   // what waited at the deadline was counted as dropped
	pushed   uint64 // entries that were taken
	exported uint64 // those of them that were dealt with
	waiters  []waiter
	waited   time.Duration // in the present crowd
	missed   int64         // records dropped since the output was last told
	behind   bool          // the log was told of the present drops
	health   Health
}

// waiter waits until so many entries have been dealt with.
type waiter struct {
	entries uint64
	ready   chan struct{}
}

// Health is what telemetry knows of an output for records.
type Health struct {
	Output            outputs.Output
	Failures          int   // failed exports
	Delivered         bool  // something was exported
	GivenUp           bool  // it gets no records any more
	DataErrorReported bool  // its one telemetry data error was sent
	Dropped           int64 // records it did not get, because it fell behind or was given up
	LastError         error // of the latest failure
}

func newQueue(out outputs.Output, inline bool, log *slog.Logger, tell func(DataError)) *queue {
	q := &queue{out: out, log: log, tell: tell, items: bounded.Queue[item]{MaxItems: most - 1}} // one is exported
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
		q.export()
	}
}

// push takes an entry, unless the output is gone or far behind.
func (q *queue) push(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.health.GivenUp {
		q.health.Dropped++
		return
	}
	if !q.items.Put(i, 0) {
		q.health.Dropped++
		q.missed++
		return
	}
	q.pushed++
}

// backlog is how many entries are not dealt with. The lock is held.
func (q *queue) backlog() int { return int(q.pushed - q.exported) }

// drain has what waits exported. It waits only for an output that has fallen
// far behind, and for a bounded time.
func (q *queue) drain() {
	if q.wake == nil {
		q.export()
	} else {
		q.rouse()
	}
	q.mu.Lock()
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

// rouse wakes the goroutine that exports.
func (q *queue) rouse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items.Len() == 0 || q.closed {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// waitInCrowd waits until there is room again, or the output takes too long.
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

// when returns a channel that is closed once so many entries have been dealt
// with. The lock is held.
func (q *queue) when(entries uint64) <-chan struct{} {
	ready := make(chan struct{})
	if q.exported >= entries {
		close(ready)
	} else {
		q.waiters = append(q.waiters, waiter{entries, ready})
	}
	return ready
}

// advance counts entries as dealt with. The lock is held.
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

// export exports what waits, unless somebody does: that one goes on with what
// came meanwhile.
func (q *queue) export() {
	q.mu.Lock()
	if q.running {
		q.mu.Unlock()
		return
	}
	q.running = true
	finished := true
	defer func() { // the lock is held, or the goroutine was ended by Write
		if !finished {
			q.mu.Lock()
			q.settled()
		}
		q.at, q.running = item{}, false
		q.mu.Unlock()
	}()
	for q.items.Len() > 0 {
		q.at, _ = q.items.Take()
		finished = false
		q.one(&q.at)
		finished = true
		q.settled()
	}
}

// settled counts the present entry as dealt with. The lock is held.
func (q *queue) settled() {
	if !q.gone {
		q.advance(1)
	}
	if q.backlog() == 0 {
		q.waited = 0
	}
}

// wait waits until everything that was pushed before has been exported.
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

// close takes nothing more and ends the goroutine once what waits is exported.
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

// abandon counts what was not exported as dropped, the record included that the
// output has not given back.
func (q *queue) abandon() (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.backlog()
	q.gone, q.items = true, bounded.Queue[item]{}
	q.health.Dropped += int64(n)
	q.advance(uint64(n))
	return n
}

// one exports one entry and keeps the health. The lock is held, but not while
// the output works. Only the goroutine that runs the queue calls it.
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

// caughtUp reports to an output that works again how many records it did not
// get. The lock is held.
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

// gap makes the record of a gap in the data, or none if the output had its one.
// The lock is held.
func (q *queue) gap(e *DataError) (outputs.Record, bool) {
	if e.Once {
		if q.health.DataErrorReported {
			return outputs.Record{}, false
		}
		q.health.DataErrorReported = true
	}
	return q.dataError(e), true
}

// dataError is the record of a gap. The lock is held.
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

// failed keeps a failed export, reports it to the output itself, once, and
// gives an output up that has never worked.
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

// sparse reports whether the nth time of something is logged: the first, the
// tenth, the hundredth and so on.
func sparse(n int64) bool {
	for n%10 == 0 && n > 0 {
		n /= 10
	}
	return n == 1
}

// guard turns a panic of f into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("output panicked: %v", p)
		}
	}()
	return f()
}

// plain is a span processor that is no output: somebody else's, or a decorator
// of an output that shows its OpenTelemetry side only.
type plain struct {
	outputs.None
	sdktrace.SpanProcessor
}

// FromProcessor makes an output of a span processor. It gets every span.
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
