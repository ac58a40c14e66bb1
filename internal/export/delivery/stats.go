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
	// QueueFull: too many spans, or too large ones, waited.
	QueueFull Cause = iota
	// Refused: the backend answered that it will not take them.
	Refused
	// TimedOut: the backend did not take them within the time for retries.
	TimedOut
	// Shutdown: they were not delivered by the deadline of Shutdown, or ended
	// after it.
	Shutdown
	// Unspilled: they were in a spill file that is gone.
	Unspilled

	// Causes is the number of causes.
	Causes = iota
)

// String is the cause in words.
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

// Stats are exact counts since the processor was made. At every moment
// Ended = Exported + Spilled + DroppedTotal() + Pending.
type Stats struct {
	Ended    int64         // sampled spans that ended
	Exported int64         // spans that the backend took
	Spilled  int64         // spans that the spill keeps
	Dropped  [Causes]int64 // spans that are lost, by Cause
	Pending  int64         // spans that wait or are on their way

	PendingBytes int64 // estimated size of the spans that wait
	Attempts     int64 // calls of the exporter
	Retries      int64 // those that were not the first for their batch
	Repaired     int64 // values that Clean repaired
	SpillErrors  int64 // batches that the spill did not keep whole
	LastError    error // of the latest failed attempt, nil if there was none
}

// DroppedTotal is the number of spans lost for whatever cause.
func (s *Stats) DroppedTotal() (n int64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// Summary tells the losses in one line, "" if there were none:
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

// Health is what the attempts tell of a backend. The zero Health knows nothing.
// It is safe for concurrent use.
type Health struct {
	mu      sync.Mutex
	reached bool      // it answered, once at least
	failing time.Time // of the first failure since it took or refused something; zero if there is none
	held    time.Time // until then it wants to be left alone
}

// Note takes the outcome of an attempt, nil for one that succeeded.
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

// Unreachable reports whether there is no point in waiting for the backend at the
// end of a job: every attempt has failed for longer than retryFor, or it was
// tried and has never answered at all. Zero and negative stand for
// [DefaultRetryFor]. It says nothing of a backend that nobody has tried.
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

// account is what became of every item. Its lock is that of its [Queue].
type account struct {
	onLoss func(Cause, int64, error)

	mu        sync.Mutex
	stats     Stats
	abandoned bool          // what was pending is counted as dropped
	reasons   [Causes]error // of the latest drop

	reporting sync.Mutex
	reported  [Causes]int64
}

// pending is the number of items whose fate is open.
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

// unspill counts items that the spill has lost. The lock is held.
func (a *account) unspill(err error) {
	var lost *SpillLost
	if errors.As(err, &lost) && !a.abandoned {
		n := min(int64(lost.Spans), a.stats.Spilled)
		a.stats.Spilled -= n
		a.stats.Dropped[Unspilled] += n
		a.reasons[Unspilled] = &Error{Err: err}
	}
}

// settle counts items whose fate is known.
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

// abandon counts what is still pending as dropped; whatever becomes of it
// later is not counted any more.
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
