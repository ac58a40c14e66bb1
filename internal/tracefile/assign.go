package tracefile

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// AssignLanes sets the TID of finished complete events so that the events of
// one process never overlap partially on a lane, numbering lanes from first.
// Parents (by ID) and children share a lane if they nest. Other phases keep
// their TID. The order of events does not change.
func AssignLanes(events []Event, first int64) {
	order := make([]*Event, 0, len(events))
	for i := range events {
		if p := events[i].Phase; p == PhaseComplete || p == PhaseUnknown {
			order = append(order, &events[i])
		}
	}
	slices.SortStableFunc(order, compareSpans)
	for len(order) > 0 {
		n := 1
		for n < len(order) && order[n].PID == order[0].PID {
			n++
		}
		assignLanes(order[:n], NewLanes(first))
		order = order[n:]
	}
}

// compareSpans orders by process, then outer spans first, then parents first.
func compareSpans(a, b *Event) int {
	if c := cmp.Or(cmp.Compare(a.PID, b.PID), nest.KeyOf(a.TS, a.End(), 0).Compare(nest.KeyOf(b.TS, b.End(), 0))); c != 0 {
		return c
	}
	if a.Parent > 0 && uint64(a.Parent) == b.ID {
		return 1
	}
	if b.Parent > 0 && uint64(b.Parent) == a.ID {
		return -1
	}
	return cmp.Compare(a.Level, b.Level)
}

// assignLanes begins and ends the sorted spans of one process at their times.
func assignLanes(spans []*Event, lanes *Lanes) {
	type ending struct {
		at   int64
		span int
	}
	open := make([]Lane, len(spans))
	places := make(map[uint64]int)        // by id
	ends := make([]ending, 0, len(spans)) // of spans with a length; inner spans first
	for i, s := range spans {
		if s.Dur > 0 {
			ends = append(ends, ending{s.End(), i})
		}
	}
	slices.SortFunc(ends, func(a, b ending) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return b.span - a.span
	})
	for i, s := range spans {
		above, parent := -1, Lane{}
		if s.Parent > 0 {
			if at, ok := places[uint64(s.Parent)]; ok && spans[at].End() >= s.End() {
				above, parent = at, open[at]
			}
		}
		last := false // a span without a length is still inside a parent that ends at that moment
		for ; len(ends) > 0 && ends[0].at <= s.TS; ends = ends[1:] {
			if e := ends[0]; e.span == above {
				last = true
			} else {
				lanes.End(open[e.span], e.at)
			}
		}
		open[i], s.TID = lanes.Begin(parent, s.TS)
		if s.Dur <= 0 {
			lanes.End(open[i], s.TS)
		}
		if last {
			lanes.End(parent, s.TS)
		}
		places[s.ID] = i
	}
}
