package outputs

import "sync/atomic"

// Progress is where the training stands: the epoch and the step that new
// events belong to. It is shared between the engine, which sets it, and the
// exporters, which read it. The zero value means "nothing known yet". All
// methods are safe for concurrent use and for a nil Progress.
type Progress struct {
	// One more than the value, so that zero means unknown.
	epoch, step atomic.Int64
}

// SetEpoch sets the epoch; a negative one makes it unknown.
func (p *Progress) SetEpoch(epoch int64) {
	if p != nil {
		p.epoch.Store(max(epoch+1, 0))
	}
}

// SetStep sets the step, the zero-based number of the current iteration; a
// negative one makes it unknown.
func (p *Progress) SetStep(step int64) {
	if p != nil {
		p.step.Store(max(step+1, 0))
	}
}

// Epoch returns the epoch, or -1 when it is not known.
func (p *Progress) Epoch() int64 {
	if p == nil {
		return -1
	}
	return p.epoch.Load() - 1
}

// Step returns the step, or -1 when it is not known.
func (p *Progress) Step() int64 {
	if p == nil {
		return -1
	}
	return p.step.Load() - 1
}
