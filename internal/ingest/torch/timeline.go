package torch

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// step is one ProfilerStep#N window on the host.
type step struct {
	n          int64
	start, end int64
	lane       uint32
}

// envelope is an interval of autograd engine work.
type envelope struct {
	start, end int64
	lane       uint32
	step       int32
}

// timeline holds when the rows of a file happened. Its times are those of the
// file, in nanoseconds.
type timeline struct {
	base        int64 // added to the times of the file
	clock       clock // maps the times of the ranks to one axis
	nanos       bool  // times have digits below a microsecond
	first, last int64 // of all rows
	window      [2]int64
	hasWindow   bool
	steps       []step
	tail        step // of the profiler, not a step of the training
	hasTail     bool
	sorted      []int64 // numbers of the steps, computed at the first call
}

// wall converts a time of the file to nanoseconds since 1970 on the common
// axis.
func (t *timeline) wall(at int64) int64 {
	if t.clock.drift == 0 { // nearly always; small enough to be inlined
		return at + t.base + t.clock.offset
	}
	return t.clock.toTrace(at + t.base)
}

// micros converts a time of the file to microseconds since 1970.
func (t *timeline) micros(at int64) int64 { return max(floorMicros(t.wall(at)), 0) }

func floorMicros(t int64) int64 {
	m := t / 1000
	if t%1000 < 0 {
		m--
	}
	return m
}

func (t *timeline) hasRows() bool { return t.last >= t.first }

// strayTime is how far outside the profiler's window a row may be before its
// time counts as wrong: the profiler writes times before its base as 0.
const strayTime = int64(time.Hour)

// bounds returns the first and the last moment of a file.
func (t *timeline) bounds() (lo, hi int64) {
	lo, hi = t.first, t.last
	if t.hasWindow {
		if lo = min(lo, t.window[0]); lo < t.window[0]-strayTime {
			lo = t.window[0]
		}
		if hi = max(hi, t.window[1]); hi > t.window[1]+strayTime {
			hi = t.window[1]
		}
	}
	return lo, hi
}

// stepAt returns the index of the step at a time, or -1.
func (t *timeline) stepAt(at int64) int32 {
	i, found := slices.BinarySearchFunc(t.steps, at, func(s step, t int64) int { return cmp.Compare(s.start, t) })
	if found {
		return int32(i)
	}
	if i > 0 && at <= t.steps[i-1].end {
		return int32(i - 1)
	}
	return -1
}

func (t *timeline) stepNumber(i int32) (int64, bool) {
	if i < 0 || int(i) >= len(t.steps) {
		return 0, false
	}
	return t.steps[i].n, true
}

// stepNumbers returns the sorted, distinct steps of a file. Each file is
// compared with many.
func (t *timeline) stepNumbers() []int64 {
	if t.sorted == nil {
		for _, s := range t.steps {
			t.sorted = append(t.sorted, s.n)
		}
		slices.Sort(t.sorted)
		t.sorted = slices.Compact(t.sorted)
	}
	return t.sorted
}

// gap returns the time between two windows, 0 if they overlap.
func (t *timeline) gap(o *timeline) int64 {
	return max(t.window[0]+t.base-o.window[1]-o.base, o.window[0]+o.base-t.window[1]-t.base, 0)
}

// distance returns how much the bounds of two windows differ.
func (t *timeline) distance(o *timeline) int64 {
	return abs(t.window[0]+t.base-o.window[0]-o.base) + abs(t.window[1]+t.base-o.window[1]-o.base)
}

var stampPattern = regexp.MustCompile(`\.(\d{13}|\d{16}|\d{19})\.pt\.trace\.json`)

// fileStamp returns the time in the name that the profiler gave to the file:
// milliseconds up to torch 2.0, nanoseconds later.
func fileStamp(name string) (unixNanos int64, ok bool) {
	m := stampPattern.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, false
	}
	switch len(m[1]) {
	case 13:
		n *= int64(time.Millisecond)
	case 16:
		n *= int64(time.Microsecond)
	}
	return n, true
}
