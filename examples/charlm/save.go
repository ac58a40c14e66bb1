package main

import (
	"context"

	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
)

// checkpointDue reports, after a step, whether a checkpoint is due.
func (t *trainer) checkpointDue() bool {
	return t.opts.checkpointEvery > 0 && t.pos.Step%int64(t.opts.checkpointEvery) == 0
}

// saveSync writes a checkpoint and returns when it is on the disk.
func (t *trainer) saveSync(context.Context) (checkpoint.Saved, error) {
	if err := t.awaitWriter(); err != nil {
		return checkpoint.Saved{}, err
	}
	saved, err := t.store.Save(t.state())
	if err == nil {
		t.lastSaved = t.pos.Step
	}
	return saved, err
}

// saveAsync copies the state, passes the copy to the background writer and
// returns. It blocks for the copy, and for the previous save if that is still
// in progress. The writer's goroutine calls finished unless it is nil. An error
// is that of an earlier background save.
func (t *trainer) saveAsync(_ context.Context, finished func(checkpoint.Result)) error {
	if t.writer == nil {
		t.writer = checkpoint.NewWriter(t.store)
	}
	t.lastSaved = t.pos.Step
	return t.writer.Save(t.state().Clone(), finished)
}

// awaitWriter ends background saving, so that the store is free. A later
// saveAsync starts it again.
func (t *trainer) awaitWriter() error {
	if t.writer == nil {
		return nil
	}
	w := t.writer
	t.writer = nil
	return w.Close()
}

// finalSaveDue reports whether the last steps are in no checkpoint yet.
func (t *trainer) finalSaveDue() bool { return t.pos.Step != t.lastSaved }

// state returns a state with the slices of replica 0; all replicas have the
// same weights.
func (t *trainer) state() *checkpoint.State {
	r := t.replicas[0]
	return &checkpoint.State{
		Run: t.runIdentity(), Position: t.pos, AdamStep: r.adam.Step, LR: r.adam.LR,
		Params: r.net.Params(), M: r.adam.M, V: r.adam.V,
	}
}
