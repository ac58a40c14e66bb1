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
	s.leave = !s.closing
	s.mu.Unlock()
	err := s.Close(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leave && !s.given {
		return nil
	}
	return err
}

// Continue goes on where a Sink was suspended: in its file, or, if that is gone
// or was changed meanwhile, in a new one, as after an outage. After an error it
// may be called again. The counts go on.
func Continue(old *Sink, o Options) (*Sink, error) {
	old.mu.Lock()
	ok := old.leave && old.ended && !old.given
	old.mu.Unlock()
	if !ok {
		return nil, errors.New("the file was not suspended")
	}
	s := newSink(old.out, o)
	s.path, s.part, s.stats, s.first = old.path, old.part, old.stats, old.first
	if s.first == nil {
		s.other = old.result
	}
	s.begun, s.finished, s.framing = old.begun, old.finished, old.framing
	if !s.resume() {
		s.tell()
		_ = s.out.Close() // if it was opened at all
		return nil, s.err
	}
	old.mu.Lock()
	old.leave = false
	old.mu.Unlock()
	go s.run()
	return s, nil
}
