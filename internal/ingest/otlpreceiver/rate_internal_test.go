package otlpreceiver

import (
	"testing"
	"time"
)

func TestRateFillsWithTime(t *testing.T) {
	now := time.Unix(1000, 0)
	r := rate{perSecond: 10, tokens: 10}
	for _, step := range []struct {
		after time.Duration
		n     float64
		want  bool
	}{
		{0, 10, true},
		{0, 1, false},
		{100 * time.Millisecond, 5, true}, // one token is left: a large request passes, and is paid for later
		{100 * time.Millisecond, 1, false},
		{time.Hour, rateBurst * 10, true},
		{0, 1, false},
		{-time.Hour, 1, false}, // the clock was set
		{time.Second, 1, true}, // and removes nothing
	} {
		now = now.Add(step.after)
		if got := r.allow(step.n, now); got != step.want {
			t.Errorf("%v tokens after %v: %v, want %v", step.n, step.after, got, step.want)
		}
	}
}
