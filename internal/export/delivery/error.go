package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is how an exporter tells the processor what became of a batch. Any
// other error counts as a refusal of the whole batch, except for one that
// comes after the attempt's time ran out, which counts as [Error.Retry].
type Error struct {
	// Err is what happened, in one line.
	Err error
	// Retry: the backend may take the batch later.
	Retry bool
	// NoAnswer: nothing came back. There was no connection, or no answer in
	// time. It goes with Retry.
	NoAnswer bool
	// After is the pause that the backend asks for; zero leaves it to us.
	After time.Duration
	// TooLarge: the backend may take the batch in smaller pieces.
	TooLarge bool
	// Rejected: the backend took the batch except for this many spans of it.
	// It does not tell which. Zero means that it took none.
	Rejected int
}

// Error is the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return "delivery failed"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// judge makes an Error of what an exporter returned, nil for nil. attempt is
// the context of the export.
func judge(attempt context.Context, err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	late := attempt.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	return &Error{Err: err, Retry: late, NoAnswer: late}
}

// guard turns a panic of somebody else's code into an error.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
		}
	}()
	return f()
}

func (s *Stats) lastError() error {
	if s.LastError == nil {
		return errUnknown
	}
	return s.LastError
}

var (
	errHeld     = errors.New("not sent: the backend asked for a pause that ends after the deadline")
	errUnknown  = errors.New("no attempt was made")
	errNoAnswer = errors.New("the backend did not answer before the deadline of the shutdown")
)
