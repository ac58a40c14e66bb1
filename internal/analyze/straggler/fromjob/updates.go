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

	passes  int         // passes since the last update
	forward bool        // a forward was seen since the last backward
	of      map[int]int // number of updates by their number of passes
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

// step adds the spans of a training step, in order of their start. Spans inside an optimizer span, such as
// those of a closure, are ignored.
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
				break // the update of a second optimizer
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
