package run

import (
	"fmt"
	"regexp"
	"slices"
)

// Hang is what is known of ranks that hung when they were last seen.
type Hang struct {
	Ranks []int // that the others wait for, empty where all wait in one collective
	Host  string
	What  string        // they stopped in, empty where that is not known
	At    int64         // the last sign of life of any
	Until map[int]int64 // and of each rank
}

// outlived is how far apart the last signs of life of two ranks may be that were ended
// together: heartbeats are ten seconds apart.
const outlived = int64(15e9)

// timedOut finds what a rank says that waited for too long.
var timedOut = regexp.MustCompile(`(?i)timed? ?out`)

// OutcomeOfHang says how something ended whose ranks were hanging when they were last
// seen: it hung, whatever ended it then. o is how it ended, nil where it goes on or
// nobody saw that. It stays where it is what the others waited for: that a rank failed,
// or was killed before they were.
func OutcomeOfHang(o *Outcome, h *Hang) *Outcome {
	if o != nil && !o.follows(h) {
		return o
	}
	out := &Outcome{How: Hung, At: h.At, Host: h.Host}
	if len(h.Ranks) == 1 {
		out.Rank = &h.Ranks[0]
	}
	out.what = h.What
	if n := len(h.Ranks); n > 1 {
		out.Ranks, out.what = n, fmt.Sprintf("%d ranks", n)
	} else if n == 0 {
		out.what = "all ranks wait"
	}
	if o != nil && o.How != Unfinished && o.How != Lost {
		out.At, out.Status, out.Signal, out.Error = max(o.At, h.At), o.Status, o.Signal, o.Error
		out.then = o.head
	}
	return out.say()
}

// follows reports whether an end may be what a hang led to.
func (o *Outcome) follows(h *Hang) bool {
	guilty := o.Rank != nil && slices.Contains(h.Ranks, *o.Rank)
	switch o.How {
	case Unfinished, Lost, Stopped:
		return true
	case Killed:
		if o.Rank == nil {
			return true
		}
		// A rank that was killed lived as long as the others, or is what they wait for.
		return !guilty && len(h.Ranks) > 0 || h.At-h.Until[*o.Rank] < outlived
	case Failed:
		return !guilty && (o.weight <= hasNoticed || timedOut.MatchString(o.Error))
	}
	return false
}
