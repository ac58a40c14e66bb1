package delivery

import (
	"errors"
	"sync"
)

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
	if e != nil && (a.stats.LastError == nil || e.Err != errNoAnswer) {
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

func (a *account) gone() bool {
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
