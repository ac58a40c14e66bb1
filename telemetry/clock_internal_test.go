package telemetry

import (
	"math"
	"testing"
	"time"
)

// After the start of a provider the wall clock is set forward by an hour.
func TestExplicitTimesAfterAStepOfTheClock(t *testing.T) {
	const step = time.Hour
	base := time.Now()
	// What the program reads with time.Now is on the provider's clock.
	c := systemClock(base, base.UnixNano()-int64(step))
	in := times{now: c.nano, of: c.of, wall: c.wall, window: 10 * time.Minute}
	if got, err := in.instant(base.Add(time.Second), in.now(), false); err != nil || got != base.Add(time.Second-step).UnixNano() {
		t.Errorf("a second after the start: %v, %v; want it on the clock of the provider", time.Unix(0, got), err)
	}
	// A time from elsewhere is near the provider's clock or near the wall clock.
	now := base.Add(-step).UnixNano()
	in = times{of: time.Time.UnixNano, wall: c.wall, window: 10 * time.Minute}
	for _, at := range []time.Duration{-3 * step, -step, -step / 2, 0, 2 * step} {
		got, err := in.instant(base.Add(at).Round(0), now, false)
		if near := at == 0 || at == -step; (err == nil) != near || near && got != base.Add(at).UnixNano() {
			t.Errorf("%v from the wall clock: %v, %v; want accepted: %v", at, time.Unix(0, got), err, near)
		}
	}
}

// A window of any length includes now, and leaves out what is out of it.
func TestLongWindowsOfExplicitTimes(t *testing.T) {
	now := time.Now().UnixNano()
	for _, window := range []time.Duration{time.Hour, 250 * 365 * 24 * time.Hour, math.MaxInt64} {
		in := times{of: time.Time.UnixNano, window: window}
		for _, at := range []time.Duration{-2 * time.Hour, 0, 2 * time.Hour} {
			_, err := in.instant(time.Unix(0, now).Add(at), now, false)
			if want := at.Abs() <= window; (err == nil) != want {
				t.Errorf("window %v: %v from now: %v, want accepted: %v", window, at, err, want)
			}
		}
	}
}
