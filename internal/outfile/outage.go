package outfile

import (
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
