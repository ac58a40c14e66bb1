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

// Stats counts what a Sink did.
type Stats struct {
	Lines   uint64 // in the file or waiting, those of the Format included
	Bytes   uint64 // in the file
	Parts   uint64 // further files, by rotation
	Lost    uint64 // lines
	Outages uint64
	Errors  uint64 // failed operations
	Held    int    // bytes that wait
}

// losses is what is known of what is not in the file. The lock of the Sink guards it.
type losses struct {
	clock
	path    string
	stats   Stats
	part    Part
	outage  *outage
	reports []error // for OnError
	first   error   // that lost lines
	other   error   // the first that lost none
}

// outage is what is known of the current outage.
type outage struct {
	Outage
	since, from, to time.Time
	lost            int // lines that no record reports yet
	waited          time.Duration
}

// clock tells the time of gaps, which is the program's: its clock is asked once.
type clock struct{ ahead time.Duration }

func newClock(now func() time.Time) clock { return clock{time.Until(now())} }

func (c clock) now() time.Time { return time.Now().Add(c.ahead) }

// lose counts lines that will not be in the file.
func (l *losses) lose(lines int) {
	if lines <= 0 {
		return
	}
	l.stats.Lost += uint64(lines)
	l.part.Lost = l.stats.Lost
	var cause error
	if o := l.outage; o != nil {
		o.Lost += lines
		o.lost += lines
		o.to = l.now()
		cause = o.Cause
	}
	if l.first == nil {
		if cause == nil {
			cause = errClosedSink
		}
		l.first = fmt.Errorf("lines were lost: %w", cause)
	}
}

var errClosedSink = errors.New("the file was closed before they were written")

// fail begins an outage, unless there is one.
func (l *losses) fail(cause error, now time.Time) {
	if l.outage != nil {
		return
	}
	at := l.now()
	l.outage = &outage{Outage: Outage{Path: l.path, Cause: cause}, since: now, from: at, to: at}
	l.stats.Outages++
	told := l.outage.Outage
	l.reports = append(l.reports, &told)
}

// known counts an error that loses nothing yet, and reports it.
func (l *losses) known(err error) {
	l.stats.Errors++
	if l.other == nil {
		l.other = err
	}
	l.reports = append(l.reports, err)
}
