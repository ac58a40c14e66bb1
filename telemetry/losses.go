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

// tally counts losses by kind and cause: "spans queue full", "log records not
// sent before shutdown".
type tally map[string]int64

func (t tally) total() (n int64) {
	for _, v := range t {
		n += v
	}
	return n
}

// String returns the losses, such as "3 spans queue full, 2 spans not taken in
// time".
func (t tally) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprint(t[what], " ", what))
	}
	return strings.Join(parts, ", ")
}

// losses reports what is lost before a backend, and remembers what was reported
// to the outputs for records.
type losses struct {
	rec *Recorder
	hub *dispatch.Hub

	mu       sync.Mutex
	reported tally
}

// countLoss is called when an output loses something. The first one is reported to the
// other outputs at once, and the rest at the end.
func (l *losses) countLoss(what, cause string, n int64, err error) {
	if times, ok := l.rec.out.logged.allow(what + " " + cause); ok {
		args := []any{what, n, "cause", cause, "error", err, "see", helptopic.Delivery}
		if times > 1 {
			args = append(args, "times", times)
		}
		l.rec.out.warn(0, "data was not delivered to an OpenTelemetry backend", args...)
	}
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

// gap reports to the outputs for records that something is missing.
func (l *losses) gap(lost int64, message string, local bool) {
	l.rec.locked(func() { l.rec.out.gaps++ })
	l.hub.PushDataError(dispatch.DataError{
		Message: message, Attributes: attrvalue.Extend(attrvalue.Int(onelogger.LostRecords, lost)),
		Time: l.rec.time.now(), Extension: true, Local: local,
	})
	l.hub.Drain()
}

// report reports what did not arrive: to the local outputs for records, so that
// the lost_records of all data errors add up to the losses, and to the log in
// one line; the result is for the trace files. All counts are final by now.
// Outputs that send over a network get no report, because it would be lost too.
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

// reportRest reports losses that were not reported yet.
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

// Kinds of warnings. Each is logged once per provider.
const (
	warnAfterEnd uint32 = 1 << iota
	warnEndedParent
	warnSecondEnd
	warnOutsideLoop
	warnAttributes
	warnStart
)

// section returns the help topic of a kind of warnings. Warnings without a kind
// name their topic themselves.
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

// logLimit keeps misuse in a loop, and losses, from filling the log: the first, the
// tenth, the hundredth and so on are logged.
type logLimit struct {
	kinds atomic.Uint32

	mu     sync.Mutex
	counts map[string]int64
}

// maxCounted bounds the messages that are counted separately.
const maxCounted = 256

// allow reports whether the message should be logged now, and how often it
// occurred.
func (l *logLimit) allow(message string) (times int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = make(map[string]int64)
	}
	if _, known := l.counts[message]; !known && len(l.counts) >= maxCounted {
		message = "" // counts all other messages together
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
