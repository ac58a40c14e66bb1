package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
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

	// patience is how long calls wait for a crowded output in all, until it
	// has caught up.
	patience = 100 * time.Millisecond
)

// item is one entry of a queue: a record, or a gap in the data whose record
// depends on what the output got before it.
type item struct {
	record outputs.Record
	gap    *DataError
}

// queue holds the records for one output until they are exported, in order,
// one at a time: on the goroutine that records for an output that never waits
// (Wants.Inline), on a goroutine of the queue's own for others.
type queue struct {
	hub  *Hub
	of   *attached
	wake chan struct{} // nil for an inline output
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	items   []item
	spare   []item
	running bool          // somebody exports, and has worked and givenUp
	closed  bool          // nothing is taken any more
	idle    chan struct{} // closed when nothing waits and nobody exports; nil: nobody waits for that
	waited  time.Duration // in the present crowd
	health  Health

	worked, givenUp bool // what health says of that
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

func newQueue(a *attached, h *Hub) *queue {
	q := &queue{hub: h, of: a}
	q.health.Output = a.out
	if !a.wants.Inline {
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

func (q *queue) push(i item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.health.GivenUp || len(q.items) >= most {
		q.health.Dropped++
		return
	}
	q.items = append(q.items, i)
}

// drain has what waits exported. It waits only for an output with a goroutine
// of its own that has fallen far behind, and for a bounded time.
func (q *queue) drain() {
	if q.wake == nil {
		q.export()
		return
	}
	q.mu.Lock()
	waiting, left := len(q.items), patience-q.waited
	if waiting == 0 || q.closed {
		q.mu.Unlock()
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	if waiting < crowded || left <= 0 {
		q.mu.Unlock()
		return
	}
	idle := q.whenIdle()
	q.mu.Unlock()
	start := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		q.mu.Lock()
		q.waited += time.Since(start)
		q.mu.Unlock()
	}
}

// whenIdle gives a channel that is closed when everything was exported. The
// lock is held.
func (q *queue) whenIdle() <-chan struct{} {
	if q.idle == nil {
		q.idle = make(chan struct{})
		if len(q.items) == 0 && !q.running {
			close(q.idle)
			idle := q.idle
			q.idle = nil
			return idle
		}
	}
	return q.idle
}

// export exports what waits, unless somebody does: that one goes on with what
// came meanwhile.
func (q *queue) export() {
	q.mu.Lock()
	if q.running || len(q.items) == 0 {
		q.mu.Unlock()
		return
	}
	q.running = true
	for len(q.items) > 0 {
		batch := q.items
		q.items, q.spare = q.spare[:0], nil
		q.mu.Unlock()
		for i := range batch {
			q.one(&batch[i])
		}
		clear(batch)
		q.mu.Lock()
		if cap(batch) <= crowded {
			q.spare = batch[:0]
		}
	}
	q.running, q.waited = false, 0
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
	q.mu.Unlock()
}

// wait waits until everything that was pushed before has been exported.
func (q *queue) wait(ctx context.Context) error {
	q.drain()
	q.mu.Lock()
	idle := q.whenIdle()
	q.mu.Unlock()
	select {
	case <-idle:
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

// abandon counts what still waits as dropped.
func (q *queue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.health.Dropped += int64(len(q.items))
	q.items = nil
}

// one exports one entry and keeps the health. Only the goroutine that runs the
// queue calls it.
func (q *queue) one(i *item) {
	if q.givenUp {
		q.mu.Lock()
		q.health.Dropped++
		q.mu.Unlock()
		return
	}
	r := &i.record
	if i.gap != nil {
		gap, ok := q.gap(i.gap)
		if !ok {
			return
		}
		r = &gap
	}
	if err := q.call(r); err != nil {
		q.failed(r, err)
		return
	}
	q.delivered()
}

// delivered notes that the output has taken something.
func (q *queue) delivered() {
	if q.worked {
		return
	}
	q.worked = true
	q.mu.Lock()
	q.health.Delivered = true
	q.mu.Unlock()
}

// gap makes the record of a gap in the data, or none if the output had its one.
func (q *queue) gap(e *DataError) (outputs.Record, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	kind := attributes.NoTelemetryData
	if q.health.Delivered {
		kind = attributes.IncompleteTelemetryData
	}
	all := append([]attributes.Attr{
		attributes.String(attributes.ErrorMessage, e.Message),
		attributes.String(attributes.TelemetryDataErrorType, kind),
	}, e.Attributes...)
	return outputs.Record{
		Kind:      outputs.KindDataError,
		Event:     outputs.Event{Name: spans.EventTelemetryDataError, Time: e.Time, Attributes: all},
		Extension: e.Extension,
	}
}

func (q *queue) call(r *outputs.Record) error {
	return guard(func() error { return q.of.out.Export(r) })
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

	name := fmt.Sprintf("%T", q.of.out)
	q.hub.log.Error("telemetry output failed", "output", name, "record", r.Kind.String(), "failures", failures, "error", err)
	if report {
		if err := q.call(&own); err != nil {
			q.hub.log.Error("telemetry output could not take the report of its own failure", "output", name, "error", err)
		} else {
			q.delivered()
		}
	}
	q.mu.Lock()
	giveUp := failures >= maxFailures && !q.health.Delivered
	q.health.GivenUp, q.givenUp = giveUp, giveUp
	q.mu.Unlock()
	if giveUp {
		q.hub.log.Error("telemetry output given up: it never worked", "output", name, "failures", failures)
		q.hub.PushDataError(DataError{
			Message: fmt.Sprintf("output %s was given up after %d failures: %v", name, failures, err),
			Time:    r.Event.Time, Extension: true, From: q.of.out,
		})
	}
}

// Health gives the health of the outputs for records.
func (h *Hub) Health() []Health {
	all := make([]Health, len(h.records))
	for i, a := range h.records {
		a.queue.mu.Lock()
		all[i] = a.queue.health
		a.queue.mu.Unlock()
	}
	return all
}
