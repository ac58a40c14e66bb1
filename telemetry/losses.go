package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
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

// losses remember which losses were reported to the outputs for records.
type losses struct {
	mu       sync.Mutex
	reported tally
}

// lost is called when an output loses something on its way to a backend. Every
// loss is logged, the first one is reported to the other outputs too; the rest
// is reported to them at the end.
func (p *Provider) lost(what, cause string, n int64, err error) {
	p.control.Warn("data was lost on its way to an OpenTelemetry backend", what, n, "cause", cause, "error", err, "see", see.Delivery)
	p.losses.mu.Lock()
	first := p.losses.reported == nil && p.control.Why() == nil
	if first {
		p.losses.reported = tally{what + " " + cause: n}
	}
	p.losses.mu.Unlock()
	if first {
		p.reportGap(n, fmt.Sprintf("%d %s were not delivered: %s", n, what, cause), false)
	}
}

// reportGap tells the outputs for records that something is missing.
func (p *Provider) reportGap(lost int64, message string, local bool) {
	p.control.CountGap()
	p.hub.PushDataError(dispatch.DataError{
		Message: message, Attributes: attributes.Extend(attributes.Int(attributes.LostRecords, lost)),
		Time: p.now().UnixNano(), Extension: true, Local: local,
	})
	p.hub.Drain()
}

func (p *Provider) now() time.Time { return p.clock.Now() }

// reportLosses reports what did not arrive: to the local outputs for records,
// so that the lost_records of all data errors add up to what was lost, and to
// the log in one line; the result is for the trace files. By now all counts
// are final. Those that send over a network are at their end: what they got
// now would be one loss more.
func (p *Provider) reportLosses() outputs.Losses {
	s := p.Stats()
	unwantedLogs, unwantedMetrics := map[string]int64{}, false
	p.hub.Delivery(func(d outputs.Delivery) {
		if d.Unwanted && d.What == outputs.DeliversLogs {
			count(&unwantedLogs, d.Drops)
		}
		unwantedMetrics = unwantedMetrics || d.Unwanted && d.What == outputs.DeliversMetrics
	})
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
	p.reportRest(lost)
	if lost.total() > 0 || lostMetrics > 0 {
		args := []any{"spans", s.DroppedSpans, "of", s.EndedSpans, "causes", s.Drops}
		if s.DroppedLogRecords > 0 {
			args = append(args, "log_records", s.DroppedLogRecords, "of_log_records", s.LogRecords, "log_causes", s.LogDrops)
		}
		if lostMetrics > 0 {
			args = append(args, "metric_exports", lostMetrics)
		}
		p.log.Warn("telemetry lost data on its way to OpenTelemetry backends", append(args, "see", see.Delivery)...)
	}
	return all
}

// reportRest reports the losses that were not reported yet.
func (p *Provider) reportRest(lost tally) {
	p.losses.mu.Lock()
	rest := tally{}
	for what, n := range lost {
		if n -= p.losses.reported[what]; n > 0 {
			rest[what] = n
		}
	}
	p.losses.reported = lost
	p.losses.mu.Unlock()
	if len(rest) > 0 {
		p.reportGap(rest.total(), "not delivered: "+rest.String(), true)
	}
}
