package otlpreceiver

import (
	"sync"
	"time"
)

// rateBurst is for how many seconds more than the rate may be saved up.
const rateBurst = 5

// rate is a bucket of tokens that fills with time.
type rate struct {
	perSecond float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// allow takes n tokens, if there are any at all: one large request passes.
func (r *rate) allow(n float64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && now.After(r.at) {
		r.tokens = min(r.tokens+now.Sub(r.at).Seconds()*r.perSecond, rateBurst*r.perSecond)
	}
	r.at = now
	if r.tokens <= 0 {
		return false
	}
	r.tokens -= n
	return true
}
