package read

import (
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/filetime"
)

// Window is an interval of time, in microseconds since the Unix epoch. The zero
// window is all of time.
type Window struct{ From, To int64 }

func (w Window) all() bool { return w == Window{} }

// has reports whether a span starts in the window.
func (w Window) has(ev *dftracer.Event) bool {
	return w.HasTime(ev.TS)
}

// HasTime reports whether the window contains a time in microseconds.
func (w Window) HasTime(us int64) bool { return w.all() || us >= w.From && us < w.To }

// parseMoment parses a time in the format of RFC 3339, or a date with an
// optional time in UTC, as this program prints it.
func parseMoment(text string) (time.Time, bool) {
	text = strings.TrimSuffix(text, " UTC")
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// CanBe reports whether the times of an event are possible, and counts them for
// the median. Framing is not counted.
func CanBe(times *filetime.Judge, ev *dftracer.Event) bool {
	switch {
	case ev.Phase == dftracer.PhaseMetadata || ev.Cat == dftracer.CatDFTracer:
		return true
	case ev.Phase == dftracer.PhaseComplete:
		return ev.Dur >= 0 && times.Has(ev.TS) && times.Near(ev.End())
	}
	return ev.TS == 0 || times.Has(ev.TS)
}

// JudgeBy returns a judge of the times of a trace. The judge uses median if known
// is true.
func JudgeBy(median int64, known bool) *filetime.Judge {
	if known {
		return filetime.With(time.Microsecond, median)
	}
	return filetime.New(time.Microsecond)
}

// Judging calls pass with a judge of the times of a trace, and a second time if
// the median of all times differs from that of the first ones.
func Judging(pass func(*filetime.Judge) error) error {
	judge := JudgeBy(0, false)
	err := pass(judge)
	if err == nil && !judge.Right() {
		err = pass(JudgeBy(judge.Median(), true))
	}
	return err
}
