// Package checkpoint stores the whole state of a training run in files. A crash
// cannot leave a half-written file, and a changed bit is detected.
//
// A file is, in little-endian order: the magic "CHARLMCK", a uint32 version, a
// uint32 header length, the header as JSON (shape, position, seed), then the
// weights and Adam's two moments as float32, and the CRC-32C of everything
// before it.
package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/examples/charlm/internal/model"
)

// ErrCorrupt is in the error of every file that is not a complete checkpoint of a known
// version.
var ErrCorrupt = errors.New("not a valid checkpoint")

// Position is the progress of a run. With the seed it is also the state of the
// data order: batch Batch of epoch Epoch holds the same samples in every run,
// so no generator state needs to be saved.
type Position struct {
	Epoch int   `json:"epoch"` // completed epochs
	Batch int   `json:"batch"` // trained batches of the current epoch
	Step  int64 `json:"step"`  // optimizer steps since the beginning
}

// Run has the values that must be equal for a resumed run to continue the saved
// one.
type Run struct {
	Model         model.Config `json:"model"`
	Seed          uint64       `json:"seed"`
	BatchSize     int          `json:"batch_size"`
	StepsPerEpoch int          `json:"steps_per_epoch"`
	Data          uint64       `json:"data"` // fingerprint of the training text
}

// State is the content of a checkpoint. Saving reads the slices and never
// changes them.
type State struct {
	Run
	Position
	AdamStep int64   `json:"adam_step"`
	LR       float64 `json:"lr"` // for information; the resumed run uses its own rate

	Params []float32 `json:"-"`
	M      []float32 `json:"-"`
	V      []float32 `json:"-"`
}

// Clone copies the state, so that the training may continue while the copy is
// written.
func (s *State) Clone() *State {
	c := *s
	c.Params, c.M, c.V = slices.Clone(s.Params), slices.Clone(s.M), slices.Clone(s.V)
	return &c
}

// check compares the state with its own header.
func (s *State) check() error {
	if err := s.Model.Validate(); err != nil {
		return err
	}
	n := s.Model.NumParams()
	if len(s.Params) != n || len(s.M) != n || len(s.V) != n {
		return fmt.Errorf("checkpoint: %d weights, %d and %d moments for a model of %d", len(s.Params), len(s.M), len(s.V), n)
	}
	if s.Epoch < 0 || s.Batch < 0 || s.Step < 0 || s.AdamStep < 0 {
		return fmt.Errorf("checkpoint: negative position %+v, adam step %d", s.Position, s.AdamStep)
	}
	return nil
}
