package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is the result of a failed export. Any other error of an exporter counts
// as a refusal of the whole batch, except after the attempt's time limit, when
// it counts as [Error.Retry].
type Error struct {
	// Err describes the failure in one line.
	Err error
	// Retry means that the backend may take the batch later.
	Retry bool
	// NoAnswer means that no response came: no connection, or no response in time.
	// It is set together with Retry.
	NoAnswer bool
	// After is the pause that the backend asks for; with zero the processor chooses
	// it.
	After time.Duration
	// TooLarge means that the backend may take the batch in smaller pieces.
	TooLarge bool
	// Rejected means that the backend took the batch except for this many spans. It
	// does not report which. Zero means that it took none.
	Rejected int
}

// Error returns the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return "delivery failed"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// judge converts an error of an exporter to an Error, nil to nil. attempt is
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

// guard converts a panic of foreign code to an error.
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
