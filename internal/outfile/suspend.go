package outfile

import (
	"context"
	"errors"
)

// Suspend writes what waits and closes the file without its end, so that
// [Continue] can go on in it; until then the Sink takes nothing. An error means
// that it cannot be continued; what was lost is an error of the last Close.
// Only regular files can be suspended: for others it does nothing
// and returns [errors.ErrUnsupported].
func (s *Sink) Suspend(ctx context.Context) error {
	if _, regular := s.out.(*file); !regular {
		return errors.ErrUnsupported
	}
	s.mu.Lock()
	s.closing.leave = !s.closing.begun
	s.mu.Unlock()
	err := s.Close(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.leave && !s.closing.given {
		return nil
	}
	return err
}

// Continue goes on where a Sink was suspended: in its file, or, if that is gone
// or was changed meanwhile, in a new one, as after an outage. After an error it
// may be called again. The counts go on.
func Continue(old *Sink, o Options) (*Sink, error) {
	old.mu.Lock()
	ok := old.closing.leave && old.closing.ended && !old.closing.given
	old.mu.Unlock()
	if !ok {
		return nil, errors.New("the file was not suspended")
	}
	s := newSink(old.out, o)
	s.path, s.part, s.stats, s.first = old.path, old.part, old.stats, old.first
	if s.first == nil {
		s.other = old.closing.result
	}
	s.writer.begun, s.writer.finished, s.writer.framing = old.writer.begun, old.writer.finished, old.writer.framing
	if !s.writer.resume() {
		s.tell()
		_ = s.out.Close() // if it was opened at all
		return nil, s.err
	}
	old.mu.Lock()
	old.closing.leave = false
	old.mu.Unlock()
	go s.writer.run()
	return s, nil
}
