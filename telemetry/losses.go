package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// tally counts what was lost by what it was and why: "spans queue full",
// "log records not sent before shutdown".
type tally map[string]int64

func (t tally) total() (n int64) {
	for _, v := range t {
		n += v
	}
	return n
}

// String is "3 spans queue full, 2 spans not taken in time".
func (t tally) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprint(t[what], " ", what))
	}
	return strings.Join(parts, ", ")
}

// losses report what gets lost on the way to a backend, and remember what they
// have reported to the outputs for records.
type losses struct {
	rec *Recorder
	hub *dispatch.Hub

	mu       sync.Mutex
	reported tally
}

// countLoss is called when an output loses something on its way to a backend. Every
// loss is logged, the first one is reported to the other outputs too; the rest
// is reported to them at the end.
func (l *losses) countLoss(what, cause string, n int64, err error) {
	l.rec.out.warn(0, "data was not delivered to an OpenTelemetry backend", what, n, "cause", cause, "error", err, "see", helptopic.Delivery)
	l.mu.Lock()
	first := l.reported == nil && l.rec.why() == nil
	if first {
		l.reported = tally{what + " " + cause: n}
	}
	l.mu.Unlock()
	if first {
		l.gap(n, fmt.Sprintf("%d %s were not delivered: %s", n, what, cause), false)
	}
}

// gap tells the outputs for records that something is missing.
func (l *losses) gap(lost int64, message string, local bool) {
	l.rec.locked(func() { l.rec.out.gaps++ })
	l.hub.PushDataError(dispatch.DataError{
		Message: message, Attributes: attrvalue.Extend(attrvalue.Int(onelogger.LostRecords, lost)),
		Time: l.rec.time.now(), Extension: true, Local: local,
	})
	l.hub.Drain()
}

// report reports what did not arrive: to the local outputs for records,
// so that the lost_records of all data errors add up to what was lost, and to
// the log in one line; the result is for the trace files. By now all counts
// are final. Those that send over a network are at their end: what they got
// now would be one loss more.
func (l *losses) report() map[string]int64 {
	s := statsOf(l.rec, l.hub)
	unwantedLogs, unwantedMetrics := map[string]int64{}, false
	for all := range l.hub.Stats {
		d := &all.Delivery
		if d.Unwanted && d.What == outputs.DeliversLogs {
			count(&unwantedLogs, d.Drops)
		}
		unwantedMetrics = unwantedMetrics || d.Unwanted && d.What == outputs.DeliversMetrics
	}
	all, lost := map[string]int64{}, tally{}
	for cause, n := range s.Drops {
		all[cause] = n
		lost[outputs.DeliversSpans+" "+cause] = n
	}
	for cause, n := range s.LogDrops {
		all["logs "+cause] = n
		lost[outputs.DeliversLogs+" "+cause] = n - unwantedLogs[cause]
	}
	lostMetrics := s.LostMetricExports
	if lostMetrics > 0 {
		all["metric exports"] = lostMetrics
	}
	if unwantedMetrics {
		lostMetrics = 0
	}
	l.reportRest(lost)
	if lost.total() > 0 || lostMetrics > 0 {
		args := []any{"spans", s.DroppedSpans, "of", s.EndedSpans, "causes", s.Drops}
		if s.DroppedLogRecords > 0 {
			args = append(args, "log_records", s.DroppedLogRecords, "of_log_records", s.LogRecords, "log_causes", s.LogDrops)
		}
		if lostMetrics > 0 {
			args = append(args, "metric_exports", lostMetrics)
		}
		l.rec.out.log.Warn("telemetry could not deliver all data to OpenTelemetry backends", append(args, "see", helptopic.Delivery)...)
	}
	return all
}

// reportRest reports the losses that were not reported yet.
func (l *losses) reportRest(lost tally) {
	l.mu.Lock()
	rest := tally{}
	for what, n := range lost {
		if n -= l.reported[what]; n > 0 {
			rest[what] = n
		}
	}
	l.reported = lost
	l.mu.Unlock()
	if len(rest) > 0 {
		l.gap(rest.total(), "not delivered: "+rest.String(), true)
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

// section is the part of the documentation about a kind of warnings. Those
// without a kind name theirs themselves.
func section(kind uint32) string {
	switch kind {
	case warnAfterEnd:
		return helptopic.AfterEnd
	case warnEndedParent, warnOutsideLoop:
		return helptopic.Parent
	case warnSecondEnd:
		return helptopic.EndedTwice
	case warnAttributes:
		return helptopic.Attributes
	case warnStart:
		return helptopic.Panics
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
		args := []any{"call", call, "error", problem, "see", helptopic.Refused}
		if n > 1 {
			args = append(args, "times", n)
		}
		o.log.Error("telemetry error", args...)
	}
}
