package fromrun

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/run"
)

// What the host does is no step where it only launches work: the device comes to
// it later, and what the host waits for then is the device. So a step of a process
// that recorded when its device did what it was asked for (see [run.Span.Launch])
// is what the device did, and what the host did while the device had nothing to do.

// launched returns the row of a span of the device.
func (s *sink) launched(sp *run.Span) row {
	s.devices = true
	r := row{id: sp.ID, start: sp.Start, end: sp.End, number: run.Unknown, amount: sp.Launch, phase: phases[sp.For], device: true}
	switch r.phase {
	case replay.Other:
		r.phase = replay.Host
	case replay.Communication:
		r.group = s.group(sp)
	}
	return r
}

// assignDevice puts what the device did to the iteration in which the host asked
// for it. What was asked for in none of them is left out.
func (s *sink) assignDevice(its []run.Step, out map[int][]int) {
	for i := range s.rows {
		r := &s.rows[i]
		if !r.device || r.moved {
			continue
		}
		to, at := slices.BinarySearchFunc(its, r.amount, func(it run.Step, launch int64) int { return cmp.Compare(it.Start, launch) })
		if !at {
			to--
		}
		if to >= 0 && to == len(its)-1 && r.amount >= its[to].End {
			continue // of a step to come
		}
		if r.moved = true; to >= 0 && r.amount < its[to].End {
			out[to] = append(out[to], i)
		}
	}
}
