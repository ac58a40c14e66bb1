package telemetry

import "time"

// clock tells the time of a run.
type clock struct {
	now  func() time.Time
	nano func() int64 // the same in nanoseconds since the Unix epoch
}

// clockOf returns the program's own clock, or the wall clock of this moment,
// carried on by the monotonic clock: a wall clock that is set while the job runs
// moves no span. Where the program's panics it is the system's.
func clockOf(own func() time.Time) clock {
	base := time.Now()
	wall := base.UnixNano()
	system := func() time.Time { return base.Add(time.Since(base)) }
	if own == nil {
		return clock{system, func() int64 { return wall + int64(time.Since(base)) }}
	}
	calm := func() (now time.Time) {
		defer func() {
			if recover() != nil {
				now = system()
			}
		}()
		return own()
	}
	return clock{calm, func() int64 { return calm().UnixNano() }}
}
