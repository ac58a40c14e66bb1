package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/see"
)

// Kinds of warnings. Each is given once for a provider.
const (
	warnAfterEnd uint32 = 1 << iota
	warnEndedParent
	warnSecondEnd
	warnOutsideLoop
	warnAttributes
	warnStart
)

// section is the part of the documentation about a kind of warnings. Those
// without a kind name theirs themselves.
func section(kind uint32) string {
	switch kind {
	case warnAfterEnd:
		return see.AfterEnd
	case warnEndedParent, warnOutsideLoop:
		return see.Parent
	case warnSecondEnd:
		return see.EndedTwice
	case warnAttributes:
		return see.Attributes
	case warnStart:
		return see.Panics
	}
	return ""
}

// logLimit keeps a misuse in a loop from filling the log: the first, the tenth,
// the hundredth and so on are logged.
type logLimit struct {
	kinds atomic.Uint32

	mu     sync.Mutex
	counts map[string]int64
}

// maxCounted bounds the messages that are told apart.
const maxCounted = 256

// allow reports whether the message is to be logged now, and how often it came.
func (l *logLimit) allow(message string) (times int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = make(map[string]int64)
	}
	if _, known := l.counts[message]; !known && len(l.counts) >= maxCounted {
		message = "" // all the others together
	}
	l.counts[message]++
	times = l.counts[message]
	for n := times; ; n /= 10 {
		if n == 1 {
			return times, true
		}
		if n%10 != 0 {
			return times, false
		}
	}
}

// misuse logs that a call was refused.
func (o *outbox) misuse(call, problem string) {
	if n, ok := o.logged.allow(call + problem); ok {
		args := []any{"call", call, "error", problem, "see", see.Refused}
		if n > 1 {
			args = append(args, "times", n)
		}
		o.log.Error("telemetry error", args...)
	}
}
