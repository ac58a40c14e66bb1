package telemetry_test

import (
	"context"
	"testing"
)

// A nil context is the background.
func TestNilContextAtTheEnd(t *testing.T) {
	var none context.Context
	j := newJob(t)
	started(t)(j.cb.OnAppStart(none))
	_, s := j.tel.StartSpan(none, "span")
	s.End()
	check(t, j.tel.ForceFlush(none))
	check(t, j.cb.OnAppEnd(none))
	check(t, j.tel.Shutdown(none))
	if j.mem.shutdown != 1 {
		t.Errorf("the output was shut down %d times, want 1", j.mem.shutdown)
	}
	closed := newJob(t)
	check(t, closed.tel.Recorder().Close(none))
	check(t, closed.tel.Shutdown(none))
}
