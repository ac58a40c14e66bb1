package fromjob

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/columns"
)

// Updates counts the optimizer updates of a process and the forward and backward passes per update. The zero
// value is ready for use.
type Updates struct {
	// Count is the number of training steps with an optimizer update. With gradient accumulation over several
	// batches, each of which is a step, it is less than the number of steps.
	Count int

	passes   int         // passes since the last update
	forward  bool        // a forward was seen since the last backward
	backward bool        // a backward was seen
	of       map[int]int // number of updates by their number of passes
}

// maxPasses bounds the distinct numbers of passes.
const maxPasses = 1 << 12

// MicroBatches returns the number of forward and backward passes per update, or 0 if fewer than nine of ten
// updates have the same number.
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

// step adds the spans of a training step, in order of their start. The passes inside an optimizer span, those
// of its closure, count as one: they are of one batch. An optimizer span without a pass since the last update is
// none: it sets the gradients to zero, or is that of a second optimizer. A stage of a pipeline, which exchanges
// messages, runs several forward passes before the first backward pass: there each backward pass counts.
func (u *Updates) step(list []straggler.Span) {
	updates, until := false, int64(math.MinInt64)
	pipeline := slices.ContainsFunc(list, func(s straggler.Span) bool {
		return s.Phase == straggler.Communication && (s.Meeting == straggler.Send || s.Meeting == straggler.Receive)
	})
	passed := func() {
		if !u.backward { // what was counted before was zero_grad
			u.Count, updates, u.backward = 0, false, true
		}
		u.passes, u.forward = u.passes+1, false
	}
	for i := range list {
		sp := &list[i]
		if sp.Lane != 0 || sp.End < sp.Start || sp.Start < until {
			continue
		}
		switch sp.Phase {
		case straggler.Forward:
			u.forward = true
		case straggler.Backward:
			if u.forward || pipeline && u.passes > 0 {
				passed()
			}
		case straggler.Optimizer:
			until = sp.End
			if slices.ContainsFunc(list[i+1:], func(in straggler.Span) bool {
				return in.Lane == 0 && in.Phase == straggler.Backward && in.Start < until
			}) {
				passed()
			}
			if u.passes == 0 {
				updates = updates || !u.backward // passes are not recorded
				break
			}
			updates = true
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

// append encodes the number of updates and their distribution over numbers of passes.
func (u *Updates) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(u.Count))
	dst = binary.AppendUvarint(dst, uint64(len(u.of)))
	for _, passes := range slices.Sorted(maps.Keys(u.of)) {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(passes)), uint64(u.of[passes]))
	}
	return dst
}

// read decodes what append encoded. Invalid data sets the error of r.
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
