//go:build unix

package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestHangIsDue checks that the records are read if nothing was recorded for
// long, and after the stacks are taken only when the job has continued.
func TestHangIsDue(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	h := &hangs{start: &start{}, since: begun, need: silence}
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
		rank   int
		pause  time.Duration // of each save
		looks  [3]int        // by save
		atMost time.Duration // of a hang after them
	}{
		"short": {0, 25 * time.Second, [3]int{0, 0, 0}, silence},
		"long":  {0, 70 * time.Second, [3]int{3, 0, 0}, patience},
		"hours": {0, 2 * time.Hour, [3]int{14, 11, 11}, patience},

		"of another rank, long":  {1, 70 * time.Second, [3]int{1, 0, 0}, patience},
		"of another rank, hours": {1, 2 * time.Hour, [3]int{13, 11, 11}, patience},
	} {
		now, spans := time.Unix(1_700_000_000, 0), int64(1)
		h := &hangs{start: &start{ranks: config.Ranks{Rank: config.Value(c.rank)}}, since: now}
		h.need = h.least()
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

// TestMessageOfAHang checks that starts that did not read the files learn of a
// hang from the one that did, once, and that they ignore older messages.
func TestMessageOfAHang(t *testing.T) {
	asked := []waiting{{"node a", 7, 3}, {"node-b", 8, -1}}
	for name, c := range map[string]struct {
		shared bool          // other jobs may have the folder
		since  time.Duration // after the message
		want   bool
	}{
		"it hangs":                  {false, -40 * time.Second, true},
		"the culprit is late":       {false, 20 * time.Second, true},
		"an earlier hang":           {false, time.Hour, false},
		"a folder with other jobs":  {true, -40 * time.Second, false},
		"an old one in such folder": {true, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			attempt := filepath.Join(t.TempDir(), "attempt-1")
			start := func(leaf string) *hangs {
				dir := filepath.Join(attempt, leaf)
				place := rundir.Place{Dir: dir, Job: filepath.Dir(attempt)}
				if c.shared {
					dir, place = attempt, rundir.Place{Dir: attempt, Job: attempt}
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				return &hangs{start: &start{record: &record{}, where: place}, spans: 1, since: time.Now().Add(c.since)}
			}
			first, other := start("a-1"), start("b-2")
			if at, list := other.message(); at != 0 || list != nil {
				t.Errorf("message() = %v, %v before one was written, want none", at, list)
			}
			for range 2 { // it replaces an earlier one
				if err := first.tell(asked); err != nil {
					t.Fatal(err)
				}
			}
			if at, list := other.message(); at != first.told || !slices.Equal(list, asked) {
				t.Errorf("message() = %v, %v, want %v, %v", at, list, first.told, asked)
			}
			for _, h := range []*hangs{other, first} {
				if err := h.ask(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if other.taken != c.want || first.taken {
				t.Errorf("stacks taken: %v, and by the start that found the hang %v; want %v, false", other.taken, first.taken, c.want)
			}
		})
	}
}

// TestMessageOfAReading checks that a start waits longer while another one reads
// the files, and follows each message of a hang, also one after another.
func TestMessageOfAReading(t *testing.T) {
	attempt := t.TempDir()
	begun := time.Now().Add(-40 * time.Second)
	of := func(leaf string, rank int) *hangs {
		dir := filepath.Join(attempt, leaf)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s := &start{record: &record{}, where: rundir.Place{Dir: dir, Job: filepath.Dir(attempt)}, ranks: config.Ranks{Rank: config.Value(rank)}}
		h := &hangs{start: s, spans: 1, since: begun}
		h.need = h.least()
		return h
	}
	first, other := of("a-1", 0), of("b-2", 5)
	if due := other.due(begun.Add(65*time.Second), 1); !due {
		t.Error("without a message the other start does not read after 65 s")
	}
	tell := func(asked []waiting) {
		t.Helper()
		if err := errors.Join(first.tell(asked), other.ask(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	tell(nil)
	if other.due(begun.Add(65*time.Second), 1) || !other.due(begun.Add(90*time.Second), 1) {
		t.Errorf("after a reading of another start at 40 s this one reads after %v, want some time after 65 s", other.need)
	}
	for n := range 2 {
		tell([]waiting{{"node", 7, 3}})
		if !other.taken || !other.asksNow(begun.Add(time.Duration(n+1)*time.Minute)) {
			t.Errorf("message %d is not followed, or no later one would be", n+1)
		}
	}
	first.clean()
	if at, _ := other.message(); at != first.told {
		t.Error("the message of a hang is removed")
	}
	tell(nil)
	other.clean() // it is not its message
	if at, _ := other.message(); at != first.told {
		t.Error("the message of another start is removed")
	}
	first.clean()
	if at, _ := other.message(); at != 0 {
		t.Error("the message of a reading stays when the command has ended")
	}
}

// TestAskNow checks that the message is read in a pause only, and not often.
func TestAskNow(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	h := &hangs{start: &start{}, since: begun}
	asks := 0
	for after := time.Duration(0); after < 60*time.Second; after += readEvery {
		if h.spans = 1; h.asksNow(begun.Add(after)) {
			asks++
		}
		if h.spans = 0; h.asksNow(begun.Add(after + time.Second)) {
			t.Error("asksNow() = true before it trains, want false")
		}
	}
	if want := 2; asks != want {
		t.Errorf("the message was read %d times in a minute, want %d", asks, want)
	}
}
