package dftracer

import (
	"cmp"
	"slices"
)

// AssignLanes sets the TID of finished complete events so that the events of
// one process never overlap partially on a lane, numbering lanes from first.
// Parents (by ID) and children share a lane where they nest. Other phases keep
// their TID. The order of events does not change.
func AssignLanes(events []Event, first int64) {
	order := make([]*Event, 0, len(events))
	for i := range events {
		if p := events[i].Phase; p == PhaseComplete || p == PhaseUnknown {
			order = append(order, &events[i])
		}
	}
	slices.SortStableFunc(order, compareSpans)
	packers := make(map[int64]*LanePacker)
	for _, ev := range order {
		p := packers[ev.PID]
		if p == nil {
			p = NewLanePacker(first)
			packers[ev.PID] = p
		}
		ev.TID = p.Add(ev)
	}
}

// compareSpans orders by start, then the longer first, then parents first.
func compareSpans(a, b *Event) int {
	if c := cmp.Compare(a.TS, b.TS); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Dur, a.Dur); c != 0 {
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

// LanePacker is AssignLanes for a stream: finished spans of one process that
// come sorted by start and, for equal starts, by descending duration. Its
// memory grows with the number of lanes and the depth, not with the stream.
// It is not safe for concurrent use.
type LanePacker struct {
	first int64
	lanes [][]packed
}

type packed struct {
	id  uint64
	end int64
}

// NewLanePacker returns a packer that numbers lanes from first.
func NewLanePacker(first int64) *LanePacker { return &LanePacker{first: max(first, 0)} }

// Add returns the lane of the next span. It does not change ev.
func (p *LanePacker) Add(ev *Event) int64 {
	end := ev.TS + max(ev.Dur, 0)
	free, home := -1, -1
	for i, stack := range p.lanes {
		for len(stack) > 0 && stack[len(stack)-1].end <= ev.TS {
			// A span of no length at the start of its parent's last moment still nests.
			if top := stack[len(stack)-1]; top.end == ev.TS && end == ev.TS && isParent(ev, top) {
				break
			}
			stack = stack[:len(stack)-1]
		}
		p.lanes[i] = stack
		switch {
		case len(stack) == 0:
			if free < 0 {
				free = i
			}
		case home < 0 && isParent(ev, stack[len(stack)-1]) && end <= stack[len(stack)-1].end:
			home = i
		}
	}
	at := home
	if at < 0 {
		at = free
	}
	if at < 0 {
		at = len(p.lanes)
		p.lanes = append(p.lanes, nil)
	}
	p.lanes[at] = append(p.lanes[at], packed{ev.ID, end})
	return p.first + int64(at)
}

func isParent(ev *Event, top packed) bool { return ev.Parent > 0 && uint64(ev.Parent) == top.id }
