package fromrun

import (
	"encoding/binary"
	"fmt"

	"github.com/trainspan/trainspan/internal/columns"
	"github.com/trainspan/trainspan/internal/replay"
)

// AppendBinary implements [encoding.BinaryAppender], once the sink is closed.
func (s *Steps) AppendBinary(dst []byte) ([]byte, error) {
	state, err := s.state.AppendBinary(nil)
	if err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(s.late))
	dst = columns.AppendBool(dst, s.devices)
	return columns.AppendBytes(dst, state), nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (s *Steps) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := Steps{state: replay.New(nil)}
	out.late = int64(r.Small(1<<62 - 1))
	out.devices = r.Bool()
	state := r.Bytes()
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("fromrun: the steps of a process: %w", columns.ErrDamaged)
	}
	if err := out.state.UnmarshalBinary(state); err != nil {
		return err
	}
	*s = out
	return nil
}

// Len is how many steps there are, those in windows as well.
func (s *Steps) Len() int { return s.state.Len() }

// Windows returns the same with windows in place of steps: see [replay.State.Window].
func (s *Steps) Windows() *Steps {
	out := &Steps{state: replay.New(nil), late: s.late, devices: s.devices}
	out.state.Merge(s.state)
	out.state.Window()
	return out
}
