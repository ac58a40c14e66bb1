// Package until waits in tests: for a condition, never for a time.
package until

import (
	"errors"
	"testing"
	"time"
)

const (
	pause = 2 * time.Millisecond
	// before the test binary's own deadline, so that the message of the test that
	// hangs is what is printed.
	before = 10 * time.Second
	most   = 5 * time.Minute
)

// True returns when ok does. Where that never happens it fails the test, which
// then says what it waited for, before the test program's own deadline.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Nil(t, func() error {
		if ok() {
			return nil
		}
		return errors.New("waited in vain: " + what)
	})
}

// Nil is True for a check that says itself what is missing.
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
