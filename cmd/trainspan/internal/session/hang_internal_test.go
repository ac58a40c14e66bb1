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
	h := &hangs{since: begun}
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
