package recorder

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/see"
)

// fail applies the error strategy to a problem that a call met: the outputs
// get their telemetry data error, and either the caller gets the problem, or
// telemetry ends quietly.
func (r *Recorder) fail(call callName, problem error) error {
	message := fmt.Sprintf("Exception in telemetry code when calling %s: %s", call.record, recordText(problem))
	now := r.now()
	if !r.noteFailure(message, now) {
		return nil
	}
	r.hub.Drain()
	if r.strategy == config.DisableQuietly {
		r.log.Error("telemetry met a fatal error and is now disabled", "call", call.text, "error", errorText(problem), "see", see.Refused)
		r.disable()
		return nil
	}
	if n, ok := r.logged.allow(call.text + errorText(problem)); ok {
		args := []any{"call", call.text, "error", errorText(problem), "see", see.Refused}
		if n > 1 {
			args = append(args, "times", n)
		}
		r.log.Error("telemetry error", args...)
	}
	return problem
}

func (r *Recorder) noteFailure(message string, now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return false
	}
	r.stats.Errors++
	r.stats.DataErrors++
	r.hub.PushGap(message, nil, now)
	return true
}

// disable switches telemetry off for good: what is open is stopped, what is
// held back is written, and every output is closed; in the background where
// something has to be sent over a network first.
func (r *Recorder) disable() {
	if !r.stopAll(ErrDisabled) {
		return
	}
	if r.closing != nil {
		_ = r.closing(context.Background()) // logged where it happens
	}
	if r.onStop != nil {
		r.onStop()
	}
}

// Kinds of warnings. Each is given once for a provider.
const (
	warnAfterEnd uint32 = 1 << iota
	warnEndedParent
	warnSecondEnd
	warnOutsideLoop
	warnAttributes
	warnStart
)

// late warns of a start after the end. A program that switched telemetry off
// hears nothing.
func (r *Recorder) late(span string) {
	if r == nil || r.logged.kinds.Load()&warnAfterEnd != 0 {
		return
	}
	r.mu.Lock()
	closed := r.ended == ErrClosed
	r.mu.Unlock()
	if closed {
		r.warn(warnAfterEnd, "a span was started after the end of the application or after Shutdown; it is not recorded", "span", span)
	}
}

// warn logs a warning; one of a kind only once.
func (r *Recorder) warn(kind uint32, text string, args ...any) {
	if kind != 0 && r.logged.kinds.Or(kind)&kind != 0 {
		return
	}
	if s := section(kind); s != "" {
		args = append(args, "see", s)
	}
	r.log.Warn("telemetry: "+text, args...)
}

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
