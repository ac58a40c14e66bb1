package telemetry

import (
	"fmt"
	"time"

	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
)

// CheckpointSucceeded records that a checkpoint is safely stored, with what
// became productive by it. A step that was never started, or was already
// reported, is a telemetry data error: one-logger counts it with zeros.
func (r *Recorder) CheckpointSucceeded(p SaveSuccess) error {
	return r.outcome(phase.Call{Record: "on_save_checkpoint_success", Text: "OnSaveCheckpointSuccess"}, p.Time, func(c *call, t int64, v *spantree.Values) error {
		s, err := r.saveSpan(v)
		if err != nil || !v.Saves {
			return err
		}
		success := spantree.Success{
			Step: int64(p.GlobalStep), At: t, Async: s.index == phase.Application, Size: p.Size, Directory: p.Directory,
		}
		if !r.books.Succeed(&success, &c.entry) {
			c.warn(0, "a checkpoint succeeded that was not started, or succeeded before", "step", success.Step, "see", helptopic.Checkpoint)
			r.out.gap(c, fmt.Sprintf("save_checkpoint_success for step %d: the checkpoint is unknown or was already reported", success.Step), nil)
			return nil
		}
		for i := range c.entry.Events {
			e := &c.entry.Events[i]
			e.Attributes = r.repairs.clean(e.Attributes)
		}
		r.out.entry(c, s, nil, nil)
		return nil
	})
}

// CheckpointFailed records that a checkpoint could not be stored.
func (r *Recorder) CheckpointFailed(p SaveFailure) error {
	if r == nil {
		return errNotConfigured
	}
	f := r.repairs.describe(p.Err, 1)
	return r.outcome(phase.Call{Record: "on_save_checkpoint_failure", Text: "OnSaveCheckpointFailure"}, p.Time, func(c *call, t int64, v *spantree.Values) error {
		s, err := r.saveSpan(v)
		if err != nil { // the failed save is over
			if s, err = r.tree.named(phase.Application); err != nil {
				return err
			}
		}
		r.books.FailSave(int64(p.GlobalStep), t, f, &c.entry)
		r.out.entry(c, s, nil, f)
		return nil
	})
}

// outcome records the result of a save.
func (r *Recorder) outcome(name phase.Call, at time.Time, do func(c *call, t int64, v *spantree.Values) error) error {
	if r == nil {
		return errNotConfigured
	}
	v := r.values(false)
	c := call{now: r.time.now()}
	t, wrong := r.time.instant(at, c.now, false)
	err := r.while(func() error {
		if wrong != nil {
			return wrong
		}
		if err := v.Required(); err != nil {
			return err
		}
		return do(&c, t, &v)
	})
	r.out.deliver(&c)
	switch {
	case silent(err) == nil:
		return nil
	}
	return r.fail(name, err)
}
