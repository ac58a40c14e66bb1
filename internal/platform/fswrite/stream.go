package fswrite

import (
	"errors"
	"io"
	"os"
	"time"
)

// Stream is an Output over any io.Writer: a pipe, a device, memory. It cannot
// undo.
type Stream struct {
	w     io.Writer
	path  string
	owned *os.File // closed by Close
	n     int64
}

// NewStream returns an Output that writes to w and does not close it. When a
// write fails, w must return how many bytes it took.
func NewStream(w io.Writer) *Stream { return &Stream{w: w} }

// Write implements Output.
func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	n = min(max(n, 0), len(p))
	s.n += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Interrupt implements Output.
func (s *Stream) Interrupt() {
	if s.owned != nil {
		_ = s.owned.SetWriteDeadline(time.Unix(1, 0)) // files without deadlines do not block forever either
	}
}

// Sync implements Output.
func (s *Stream) Sync() error {
	if s.owned != nil {
		return nil // pipes and devices
	}
	if f, ok := s.w.(interface{ Sync() error }); ok {
		return f.Sync()
	}
	return nil
}

// Close implements Output.
func (s *Stream) Close() error {
	if s.owned == nil {
		return nil
	}
	return s.owned.Close()
}

// Commit implements Output.
func (s *Stream) Commit() {}

// Undo implements Output.
func (s *Stream) Undo() bool { return false }

// Check implements Output.
func (s *Stream) Check() error { return nil }

// Gone implements Output.
func (s *Stream) Gone() bool { return false }

// Resume implements Output.
func (s *Stream) Resume() (fresh, gone bool, err error) { return false, false, nil }

// Next implements Output.
func (s *Stream) Next() error { return errors.ErrUnsupported }

// Remove implements Output.
func (s *Stream) Remove() error { return nil }

// Size implements Output.
func (s *Stream) Size() int64 { return s.n }

// Path implements Output.
func (s *Stream) Path() string { return s.path }
