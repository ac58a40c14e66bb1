package delivery

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Cause is why spans were dropped.
type Cause uint8

// The causes of drops.
const (
	// QueueFull means that too many spans, or too large ones, waited.
	QueueFull Cause = iota
	// Refused means that the backend answered that it will not take them.
	Refused
	// TimedOut means that the backend did not take them within the time for
	// retries.
	TimedOut
	// Shutdown means that they were not delivered by the deadline of Shutdown, or
	// ended after it.
	Shutdown
	// Unspilled means that they were in a spill file that is gone.
	Unspilled

	// Causes is the number of causes.
	Causes = iota
)

// String returns the cause in words.
func (c Cause) String() string {
	switch c {
	case QueueFull:
		return "queue full"
	case Refused:
		return "refused by the backend"
	case TimedOut:
		return "not taken in time"
	case Shutdown:
		return "not sent before shutdown"
	case Unspilled:
		return "removed from the spill directory"
	}
	return "unknown"
}

// Stats are exact counts since the processor was created. At every moment Ended
// = Exported + Spilled + DroppedTotal() + Pending.
type Stats struct {
	Ended    int64         // sampled spans that ended
	Exported int64         // spans that the backend took
	Spilled  int64         // spans that the spill keeps
	Dropped  [Causes]int64 // lost spans, by Cause
	Pending  int64         // spans that wait or are being sent

	PendingBytes int64 // estimated size of the waiting spans
	Attempts     int64 // calls of the exporter
	Retries      int64 // those that were not the first for their batch
	Repaired     int64 // values that Clean repaired
	SpillErrors  int64 // batches that the spill did not keep completely
	LastError    error // of the latest failed attempt, nil if there was none
}

// DroppedTotal returns the number of lost spans for all causes.
func (s *Stats) DroppedTotal() (n int64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// Summary returns the losses in one line, or "" if there were none:
//
//	lost 12 of 340 spans: 10 queue full, 2 refused by the backend (last error: …)
func (s *Stats) Summary() string {
	lost := s.DroppedTotal()
	if lost == 0 && s.Spilled == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "lost %d of %d spans", lost, s.Ended)
	separator := ": "
	for c, n := range s.Dropped {
		if n > 0 {
			fmt.Fprintf(&b, "%s%d %s", separator, n, Cause(c))
			separator = ", "
		}
	}
	if s.Spilled > 0 {
		fmt.Fprintf(&b, "; %d more are in the spill directory", s.Spilled)
	}
	if s.LastError != nil {
		fmt.Fprintf(&b, " (last error: %v)", s.LastError)
	}
	return b.String()
}

// MaxHold bounds the pause that a backend can ask for.
const MaxHold = time.Hour

// Health is the state of a backend, as far as attempts show it. The zero Health
// is unknown. It is safe for concurrent use.
type Health struct {
	mu      sync.Mutex
	reached bool      // it answered at least once
	failing time.Time // the first failure since the last answer; zero if there is none
	held    time.Time // the end of the pause that it asked for
}

// Note adds the result of an attempt, nil for success.
func (h *Health) Note(e *Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e == nil || !e.NoAnswer {
		h.reached = true
	}
	h.held = time.Time{}
	if e != nil && e.Retry && e.After > 0 {
		h.held = time.Now().Add(min(e.After, MaxHold))
	}
	switch {
	case e == nil || !e.Retry:
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = time.Now()
	}
}

// Unreachable reports whether waiting for the backend at the end of a job is
// useless: every attempt has failed for longer than retryFor, or it never
// answered at all. Zero and negative values mean [DefaultRetryFor]. It returns
// false for a backend that was never tried.
func (h *Health) Unreachable(retryFor time.Duration) bool {
	if retryFor <= 0 {
		retryFor = DefaultRetryFor
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.failing.IsZero() && (!h.reached || time.Since(h.failing) > retryFor)
}

// Held returns the rest of the pause that the backend asked for with its latest
// answer, at most [MaxHold]; zero or less if there is none.
func (h *Health) Held() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held.IsZero() {
		return 0
	}
	return time.Until(h.held)
}

// account counts the results of all items. Its lock is that of its [Queue].
type account struct {
	onLoss func(Cause, int64, error)

	mu        sync.Mutex
	stats     Stats
	abandoned bool          // pending items were counted as dropped
	reasons   [Causes]error // the error of the latest drop

	reporting sync.Mutex
	reported  [Causes]int64
}

// pending returns the number of items without a result.
func (s *Stats) pending() int64 { return s.Ended - s.Exported - s.Spilled - s.DroppedTotal() }

// attempted counts an attempt, with its error or nil.
func (a *account) attempted(e *Error, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Attempts++
	if !first {
		a.stats.Retries++
	}
	if e != nil && (a.stats.LastError == nil || !errors.Is(e.Err, errNoAnswer)) {
		a.stats.LastError = e
	}
}

// unspill counts items that the spill has lost. The caller holds the lock.
func (a *account) unspill(err error) {
	var lost *SpillLost
	if errors.As(err, &lost) && !a.abandoned {
		n := min(int64(lost.Spans), a.stats.Spilled)
		a.stats.Spilled -= n
		a.stats.Dropped[Unspilled] += n
		a.reasons[Unspilled] = &Error{Err: err}
	}
}

// settle counts items with a result.
func (a *account) settle(exported, dropped int, c Cause, e *Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned {
		return
	}
	a.stats.Exported += int64(exported)
	a.stats.Dropped[c] += int64(dropped)
	if dropped > 0 && e != nil {
		a.reasons[c] = e
	}
}

func (a *account) isAbandoned() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.abandoned
}

// abandon counts what is still pending as dropped; later results of it are not
// counted.
func (a *account) abandon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Dropped[Shutdown] += a.stats.pending()
	a.abandoned = true
}

// report reports the drops that were not reported yet.
func (a *account) report() {
	if a.onLoss == nil {
		return
	}
	a.reporting.Lock()
	defer a.reporting.Unlock()
	a.mu.Lock()
	dropped, reasons := a.stats.Dropped, a.reasons
	a.mu.Unlock()
	for c, n := range dropped {
		if n > a.reported[c] {
			_ = guard(func() error { // a panic there must not end the sender
				a.onLoss(Cause(c), n-a.reported[c], reasons[c])
				return nil
			})
			a.reported[c] = n
		}
	}
}
