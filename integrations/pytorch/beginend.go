package pytorch

import "github.com/trainspan/trainspan/internal/kineto"

// Other tools write an event as a begin (B) and an end (E) of one thread
// instead of as one row with a length. The end closes the innermost begin.

// Bounds of the begins that wait for their end, over all threads.
const (
	maxOpenBegins = 1 << 16
	maxOpenBytes  = 64 << 20
)

// beginEnd pairs begins and ends.
type beginEnd struct {
	open  map[laneKey][]*kineto.Event
	n     int
	bytes int
	// without counts events whose other half is missing or had no room.
	without int64
}

// sizeOf is the memory that an event waits in.
func sizeOf(ev *kineto.Event) int {
	return 256 + len(ev.Cat) + len(ev.Flow) + len(ev.Args) + len(ev.RawName()) + len(ev.PID.Text) + len(ev.TID.Text)
}

// pair takes an event of phase B or E and returns the whole one at its end,
// nil until then.
func (be *beginEnd) pair(ev *kineto.Event) *kineto.Event {
	if !ev.HasTS {
		return nil
	}
	key := threadOf(ev.PID, ev.TID)
	if ev.Phase == 'B' {
		if be.n >= maxOpenBegins || be.bytes+sizeOf(ev) > maxOpenBytes {
			be.without++
			return nil
		}
		if be.open == nil {
			be.open = map[laneKey][]*kineto.Event{}
		}
		be.open[key] = append(be.open[key], ev.Clone())
		be.n++
		be.bytes += sizeOf(ev)
		return nil
	}
	stack := be.open[key]
	if len(stack) == 0 {
		be.without++
		return nil
	}
	whole := stack[len(stack)-1]
	be.open[key] = stack[:len(stack)-1]
	be.n--
	be.bytes -= sizeOf(whole)
	if len(be.open[key]) == 0 {
		delete(be.open, key)
	}
	whole.Phase, whole.Dur = 'X', max(ev.TS-whole.TS, 0)
	return whole
}
