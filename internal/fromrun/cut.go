package fromrun

import (
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/run"
)

// A span is told of when it has lasted for seconds, and again when it has ended. Of one
// that an exception or the end of the process has ended, that is no end: it is where the
// process stood.

// endsWithin is how long the end of a process takes: what it unwinds.
const endsWithin = int64(time.Second)

// maxLong bounds the spans of which it is remembered that they began.
const maxLong = 1 << 16

type longSpans struct {
	ops map[uint64]string // which collective they are, by their ids
}

// span reports whether it was told of before it ended.
func (l *longSpans) span(sp *run.Span) bool {
	_, told := l.ops[sp.ID]
	if sp.End == run.NoEnd && len(l.ops) < maxLong {
		if l.ops == nil {
			l.ops = make(map[uint64]string)
		}
		l.ops[sp.ID] = sp.Kind
		if sp.Kind != "" && sp.Group != "" {
			l.ops[sp.ID] += " of group " + sp.Group
		}
	}
	return told
}

// failed reports whether a process ended with an error of its own.
func failed(p *run.Process) bool {
	return slices.ContainsFunc(p.Failures, func(f run.Failure) bool { return f.Child == 0 })
}

// place is a host in an attempt: the clocks of others may be days apart.
type place struct {
	attempt int
	host    string
}

// interrupts is when a person ended the ranks of a place: what they waited after it,
// while the first of them unwound, nobody kept them waiting.
func interrupts(j *run.Job) map[place]int64 {
	ends := make(map[place]int64)
	for _, p := range j.Processes {
		for i := range p.Failures {
			if f := &p.Failures[i]; f.Interrupt() {
				at := place{p.Attempt, p.Host}
				if before, ok := ends[at]; !ok || f.Time < before {
					ends[at] = f.Time
				}
			}
		}
	}
	return ends
}

// cutOff is from when on spans were ended by the end of their process.
func cutOff(p *run.Process) int64 {
	if p.End != run.NoEnd && !failed(p) {
		return math.MaxInt64
	}
	at := p.LastSeen
	for i := range p.Failures {
		if f := &p.Failures[i]; f.Child == 0 {
			at = min(at, f.Time)
		}
	}
	return at - endsWithin
}
