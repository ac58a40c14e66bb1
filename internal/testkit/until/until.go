// Package until waits in tests for conditions instead of fixed times.
package until

import (
	"errors"
	"testing"
	"time"
)

const (
	pause = 2 * time.Millisecond
	// earlier than the test binary's own deadline, so that the output has the
	// message of the test that hangs
	before = 10 * time.Second
	most   = 5 * time.Minute
)

// True returns when ok returns true. Before the deadline of the test program it
// fails the test with a message that has what.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Nil(t, func() error {
		if ok() {
			return nil
		}
		return errors.New("waited in vain: " + what)
	})
}

// Nil is True for a check that returns what is missing as an error.
func Nil(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(most)
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok && end.Add(-before).Before(deadline) {
			deadline = end.Add(-before)
		}
	}
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(pause)
	}
}
