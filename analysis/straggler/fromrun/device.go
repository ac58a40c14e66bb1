package fromrun

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/analysis/straggler"
)

// What the host does is no step where it only launches work: the device comes to
// it later, and what the host waits for then is the device. So a step of a process
// that recorded when its device did what it was asked for (see [run.Span.Launch])
// is what the device did, and what the host did while the device had nothing to do.

// launched gives the row of a span of the device.
func (s *sink) launched(sp *run.Span) row {
	s.devices = true
	r := row{id: sp.ID, start: sp.Start, end: sp.End, number: run.Unknown, amount: sp.Launch, phase: phases[sp.For], device: true}
	if r.phase == straggler.Communication {
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

// onDevice makes the step what the device did. Where that is not known, as for
// the last steps before a process was killed, the step keeps what the host did
// as something that happened, without phases that could be judged.
func (s *sink) onDevice() {
	var asked, did [straggler.Communication + 1]bool
	for i := range s.step.Spans {
		if sp := &s.step.Spans[i]; sp.Lane == 0 {
			asked[sp.Phase] = true
		}
	}
	for i := range s.device {
		did[s.device[i].Phase] = true
	}
	complete := true
	// A collective that was asked for, and not seen on the device, is waited for at
	// a place that is not known: what is no phase would look like the host's.
	for _, p := range [...]straggler.Phase{straggler.Forward, straggler.Backward, straggler.Communication} {
		complete = complete && (did[p] || !asked[p])
	}
	slices.SortFunc(s.device, func(a, b straggler.Span) int { return cmp.Compare(a.Start, b.Start) })
	host := s.step.Spans
	s.step.Spans = s.spans[:0]
	for _, sp := range host {
		launches := sp.Phase == straggler.Forward || sp.Phase == straggler.Backward || sp.Phase == straggler.Optimizer || sp.Phase == straggler.Communication
		switch {
		case sp.End < sp.Start: // it never ended: what the process was lost in
			s.step.Spans = append(s.step.Spans, sp)
		case !complete && launches:
			sp.Phase, sp.Lane = straggler.Other, 0
			s.step.Spans = append(s.step.Spans, sp)
		case launches || sp.Lane != 0:
		default:
			// Only what the device has to wait for.
			from := max(sp.Start, s.busy)
			for _, d := range s.device {
				if d.Start > from && from < sp.End {
					s.step.Spans = append(s.step.Spans, straggler.Span{Phase: sp.Phase, Start: from, End: min(d.Start, sp.End)})
				}
				from = max(from, d.End)
			}
			if from < sp.End {
				s.step.Spans = append(s.step.Spans, straggler.Span{Phase: sp.Phase, Start: from, End: sp.End})
			}
		}
	}
	s.spans = host
	if complete {
		s.step.Spans = append(s.step.Spans, s.device...)
	}
	for _, d := range s.device {
		s.busy = max(s.busy, d.End)
	}
}
