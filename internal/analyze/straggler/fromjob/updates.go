package fromjob

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/columns"
)

// Updates are the steps of optimizers among the training steps of a process, and of how
// many passes of forward and backward each is. The zero value is ready for use.
type Updates struct {
	// Count is how many training steps have one. Where gradients are accumulated over
	// several batches, each of which is a step, it is less than the steps.
	Count int

	passes  int         // since the last one
	forward bool        // a forward is on record since the last backward
	of      map[int]int // how many updates are of so many passes
}

// maxPasses bounds the numbers of passes that are told apart.
const maxPasses = 1 << 12

// MicroBatches returns of how many passes of forward and backward an update is, 0 where
// fewer than nine of ten updates have the same number of them.
func (u *Updates) MicroBatches() int {
	sum, most := 0, 0
	for passes, n := range u.of {
		sum += n
		if n > u.of[most] || n == u.of[most] && passes < most {
			most = passes
		}
	}
	if u.of[most]*10 < sum*9 {
		return 0
	}
	return most
}

// step takes the spans of a training step, in the order in which they begin. What an
// optimizer calls, as one with a closure, is part of its step.
func (u *Updates) step(list []straggler.Span) {
	updates, until := false, int64(math.MinInt64)
	for i := range list {
		sp := &list[i]
		if sp.Lane != 0 || sp.End < sp.Start || sp.Start < until {
			continue
		}
		switch sp.Phase {
		case straggler.Forward:
			u.forward = true
		case straggler.Backward:
			if u.forward {
				u.passes++
			}
			u.forward = false
		case straggler.Optimizer:
			updates, until = true, sp.End
			if u.passes == 0 {
				break // that of a second optimizer
			}
			if u.of == nil {
				u.of = make(map[int]int)
			}
			u.of[min(u.passes, maxPasses)]++
			u.passes = 0
		}
	}
	if updates {
		u.Count++
	}
}

// append appends what read restores: the number of updates, and how many of them are of how
// many passes.
func (u *Updates) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(u.Count))
	dst = binary.AppendUvarint(dst, uint64(len(u.of)))
	for _, passes := range slices.Sorted(maps.Keys(u.of)) {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(passes)), uint64(u.of[passes]))
	}
	return dst
}

// read restores updates. Damaged ones fail in r.
func (u *Updates) read(r *columns.Reader) {
	u.Count = r.Small(math.MaxInt32)
	if n := r.Small(maxPasses); n > 0 {
		u.of = make(map[int]int)
		for range n {
			passes := r.Small(maxPasses)
			u.of[passes] = r.Small(math.MaxInt32)
		}
	}
}
