package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/internal/attrvalue"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/telemetry/internal/dispatch"
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
	rec *recorder
	hub *dispatch.Hub

	mu       sync.Mutex
	reported tally
}

// lost is called when an output loses something on its way to a backend. Every
// loss is logged, the first one is reported to the other outputs too; the rest
// is reported to them at the end.
func (l *losses) lost(what, cause string, n int64, err error) {
	l.rec.out.warn(0, "data was lost on its way to an OpenTelemetry backend", what, n, "cause", cause, "error", err, "see", see.Delivery)
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
		Message: message, Attributes: attrvalue.Extend(attrvalue.Int(grammar.LostRecords, lost)),
		Time: l.rec.time.now(), Extension: true, Local: local,
	})
	l.hub.Drain()
}

// report reports what did not arrive: to the local outputs for records,
// so that the lost_records of all data errors add up to what was lost, and to
// the log in one line; the result is for the trace files. By now all counts
// are final. Those that send over a network are at their end: what they got
// now would be one loss more.
func (l *losses) report() outputs.Losses {
	s := statsOf(l.rec, l.hub)
	unwantedLogs, unwantedMetrics := map[string]int64{}, false
	for all := range l.hub.Stats {
		d := &all.Delivery
		if d.Unwanted && d.What == outputs.DeliversLogs {
			count(&unwantedLogs, d.Drops)
		}
		unwantedMetrics = unwantedMetrics || d.Unwanted && d.What == outputs.DeliversMetrics
	}
	all, lost := outputs.Losses{}, tally{}
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
	l.rest(lost)
	if lost.total() > 0 || lostMetrics > 0 {
		args := []any{"spans", s.DroppedSpans, "of", s.EndedSpans, "causes", s.Drops}
		if s.DroppedLogRecords > 0 {
			args = append(args, "log_records", s.DroppedLogRecords, "of_log_records", s.LogRecords, "log_causes", s.LogDrops)
		}
		if lostMetrics > 0 {
			args = append(args, "metric_exports", lostMetrics)
		}
		l.rec.out.log.Warn("telemetry lost data on its way to OpenTelemetry backends", append(args, "see", see.Delivery)...)
	}
	return all
}

// rest reports the losses that were not reported yet.
func (l *losses) rest(lost tally) {
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
