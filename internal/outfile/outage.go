package outfile

import (
	"errors"
	"fmt"
	"time"
)

// ErrStalled is the cause of an outage in which the file takes nothing.
var ErrStalled = stalledError{}

type stalledError struct{}

func (stalledError) Error() string { return "the file takes nothing" }

// Outage is an error for a time in which a file could not be
// written. It is reported when that time begins and when it is over.
type Outage struct {
	Path  string
	Cause error
	Over  bool
	For   time.Duration // how long it lasted, once it is over
	Lost  int           // lines that are missing because of it, once it is over
}

// Error says what happened, and what to expect.
func (o *Outage) Error() string {
	name := o.Path
	if name == "" {
		name = "the output"
	}
	if !o.Over {
		return fmt.Sprintf("write %s: %v; lines wait in memory until it works again", name, o.Cause)
	}
	what := "nothing is missing"
	if o.Lost > 0 {
		what = fmt.Sprintf("%d lines are missing", o.Lost)
	}
	return fmt.Sprintf("write %s: works again after %v (%v); %s", name, o.For.Round(time.Millisecond), o.Cause, what)
}

// Unwrap returns the cause.
func (o *Outage) Unwrap() error { return o.Cause }

// lose counts lines that will not be in the file.
func (s *Sink) lose(lines int) {
	if lines <= 0 {
		return
	}
	s.stats.Lost += uint64(lines)
	s.part.Lost = s.stats.Lost
	var cause error
	if o := s.outage; o != nil {
		o.Lost += lines
		o.lost += lines
		o.to = s.now()
		cause = o.Cause
	}
	if s.first == nil {
		if cause == nil {
			cause = errClosedSink
		}
		s.first = fmt.Errorf("lines were lost: %w", cause)
	}
}

// now is the time of gaps.
func (s *Sink) now() time.Time { return time.Now().Add(s.ahead) }

var errClosedSink = errors.New("the file was closed before they were written")

// fail begins an outage, unless there is one.
func (s *Sink) fail(cause error, now time.Time) {
	if s.outage != nil {
		return
	}
	at := s.now()
	s.outage = &outage{Outage: Outage{Path: s.path, Cause: cause}, since: now, from: at, to: at}
	s.stats.Outages++
	told := s.outage.Outage
	s.reports = append(s.reports, &told)
}

// tell calls OnError with what is to be reported, in order and without the lock.
func (s *Sink) tell() {
	for s.untold() && s.telling.TryLock() {
		for {
			s.mu.Lock()
			if len(s.reports) == 0 {
				s.mu.Unlock()
				break
			}
			err := s.reports[0]
			s.reports = s.reports[1:]
			s.mu.Unlock()
			if s.o.OnError != nil {
				s.o.OnError(err)
			}
		}
		s.telling.Unlock()
	}
}

func (s *Sink) untold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reports) > 0
}
