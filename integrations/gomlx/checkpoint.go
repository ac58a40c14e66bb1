package gomlxspan

import (
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/callbacks"
)

// Load calls config.Done, which loads a checkpoint if the directory has one.
// GoMLX reads variables from it when they are first used, unless the
// configuration has Immediate; that time is then part of the first step.
func (r *Run) Load(config *checkpoint.Config) (*checkpoint.Handler, error) {
	if r == nil {
		return config.Done()
	}
	_, _ = r.cb.OnLoadCheckpointStart(r.ctx)
	handler, err := config.Done()
	_ = r.cb.OnLoadCheckpointEnd(r.ctx, callbacks.End{Err: err})
	return handler, err
}

// Saver saves checkpoints. The training waits during a save.
type Saver struct {
	run     *Run
	handler *checkpoint.Handler
}

// Saver wraps a checkpoint handler.
func (r *Run) Saver(handler *checkpoint.Handler) *Saver { return &Saver{run: r, handler: handler} }

// SaveOnStepFn replaces checkpoint.Handler.SaveOnStepFn: a hook for the loop.
func (s *Saver) SaveOnStepFn(*train.Loop, []*tensors.Tensor) error { return s.Save() }

// Save calls checkpoint.Handler.Save and records the size of the checkpoint.
func (s *Saver) Save() error {
	r := s.run
	if r == nil || s.handler == nil {
		return s.handler.Save()
	}
	step := r.state.done
	_, _ = r.cb.OnSaveCheckpointStart(r.ctx, callbacks.SaveStart{GlobalStep: step})
	err := s.handler.Save()
	if err == nil {
		success := callbacks.SaveSuccess{GlobalStep: step, Directory: s.handler.Dir()}
		if size, ok := s.size(); ok {
			success.Size = attributes.Some(size)
		}
		_ = r.cb.OnSaveCheckpointSuccess(r.ctx, success)
	}
	_ = r.cb.OnSaveCheckpointEnd(r.ctx, callbacks.End{Err: err})
	return err
}

// size returns the size of the newest checkpoint's files.
func (s *Saver) size() (size int64, ok bool) {
	list, err := s.handler.ListCheckpoints()
	if err != nil || len(list) == 0 {
		return 0, false
	}
	for _, suffix := range []string{checkpoint.JsonNameSuffix, checkpoint.BinDataSuffix} {
		info, err := os.Stat(filepath.Join(s.handler.Dir(), list[len(list)-1]+suffix))
		if err != nil {
			return 0, false
		}
		size += info.Size()
	}
	return size, true
}
