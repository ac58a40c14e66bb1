//go:build unix

package session

import (
	"testing"
	"time"
)

// TestHangIsDue checks that the records are read if nothing was recorded for
// long, and after the stacks are taken only when the job has continued.
func TestHangIsDue(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	h := &hangs{since: begun, need: silence}
	for _, tt := range []struct {
		name  string
		after time.Duration
		spans int64
		taken bool
		want  bool
	}{
		{name: "nothing has trained", after: time.Hour},
		{name: "it trains", after: time.Hour, spans: 10},
		{name: "a short pause", after: time.Hour + silence - time.Second, spans: 10},
		{name: "a long one", after: time.Hour + silence, spans: 10, want: true},
		{name: "the same hang", after: 2 * time.Hour, spans: 10, taken: true},
		{name: "it goes on", after: 3 * time.Hour, spans: 11},
		{name: "and hangs again", after: 4 * time.Hour, spans: 11, want: true},
	} {
		h.taken = h.taken || tt.taken
		if got := h.due(begun.Add(tt.after), tt.spans); got != tt.want {
			t.Errorf("%s: due() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPausesThatAreNotHangs checks that the files are not read again and again
// in a long pause, nor in later pauses of the same length, and that a later hang
// is looked for within patience.
func TestPausesThatAreNotHangs(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration // of each save
		looks  [3]int        // by save
		atMost time.Duration // of a hang after them
	}{
		"short": {25 * time.Second, [3]int{0, 0, 0}, silence},
		"long":  {70 * time.Second, [3]int{3, 0, 0}, patience},
		"hours": {2 * time.Hour, [3]int{14, 11, 11}, patience},
	} {
		now, spans := time.Unix(1_700_000_000, 0), int64(1)
		h := &hangs{since: now, need: silence}
		for i, want := range c.looks {
			looks := 0
			spans++
			for end := now.Add(c.pause); now.Before(end); now = now.Add(readEvery) {
				if h.due(now, spans) {
					looks++
					h.looked(now, time.Millisecond)
				}
			}
			if looks > want {
				t.Errorf("%s: pause %d: the files are read %d times, want at most %d", name, i, looks, want)
			}
		}
		spans++
		began := now
		for !h.due(now, spans) {
			now = now.Add(readEvery)
		}
		if now.Sub(began) > c.atMost {
			t.Errorf("%s: a hang is looked for after %v, want %v at most", name, now.Sub(began), c.atMost)
		}
	}
}
