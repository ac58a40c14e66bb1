package delivery

import (
	"sync"
	"time"
)

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
