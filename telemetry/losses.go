package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/delivery"
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

// Words for what is lost.
const (
	lostSpans   = "spans "
	lostRecords = "log records "
)

// spansLost is told of spans that an OpenTelemetry exporter did not get rid of.
// Every loss is told to the log, the first one to the native exporters too;
// the rest is told to them at the end.
func (r *Recorder) spansLost(cause delivery.Cause, n int64, err error) {
	r.log.Warn("telemetry lost spans on their way to an OpenTelemetry exporter", "spans", n, "cause", cause.String(), "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told != nil || r.ended != nil {
		return
	}
	r.told = tally{lostSpans + cause.String(): n}
	r.exportLoss(r.told, fmt.Sprintf("%d spans were not delivered: %s", n, cause), r.sinks)
}

// exportLoss tells native exporters what was lost. The lock is held.
func (r *Recorder) exportLoss(lost tally, message string, to []*sink) {
	r.stats.DataErrors++
	if r.sinksClosed {
		return
	}
	for _, s := range to {
		rec := s.dataError(message, attributes.Extend(attributes.Int(attributes.LostRecords, lost.total())), r.now())
		rec.Extension = true
		s.export(&rec, r.log)
	}
}

// tellRest tells the local native exporters of the losses that they were not
// told of yet, so that the lost_records of all data errors add up to what was
// lost. Those that send over a network are at their end: what they got now would
// be one loss more.
func (r *Recorder) tellRest(lost tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := tally{}
	for what, n := range lost {
		if n -= r.told[what]; n > 0 {
			rest[what] = n
		}
	}
	if len(rest) == 0 {
		return
	}
	var local []*sink
	for _, s := range r.sinks {
		if _, remote := s.exporter.(Sender); !remote {
			local = append(local, s)
		}
	}
	r.told = lost
	r.exportLoss(rest, "not delivered: "+rest.String(), local)
}

// tellLosses tells everybody what did not arrive: the trace files, the local
// native exporters, and the log, in one line. By now all counts are final.
func (p *Provider) tellLosses() {
	s := p.Stats()
	inTrace, lost := map[string]int64{}, tally{}
	for cause, n := range s.Drops {
		inTrace[cause] = n
		lost[lostSpans+cause] = n
	}
	unwanted := p.unwantedDrops()
	for cause, n := range s.LogDrops {
		inTrace["logs "+cause] = n
		lost[lostRecords+cause] = n - unwanted[cause]
	}
	lostMetrics := s.LostMetricExports
	if lostMetrics > 0 {
		inTrace["metric exports"] = lostMetrics
	}
	if p.metrics != nil && p.metrics.Delivery().Unwanted {
		lostMetrics = 0
	}
	if len(inTrace) > 0 {
		for _, sp := range p.processors {
			if t, ok := sp.(interface{ TellDrops(map[string]int64) }); ok {
				t.TellDrops(inTrace)
			}
		}
	}
	p.rec.tellRest(lost)
	if lost.total() == 0 && lostMetrics == 0 {
		return
	}
	args := []any{"spans", s.DroppedSpans, "of", s.EndedSpans, "causes", s.Drops}
	if s.DroppedLogRecords > 0 {
		args = append(args, "log_records", s.DroppedLogRecords, "of_log_records", s.LogRecords, "log_causes", s.LogDrops)
	}
	if lostMetrics > 0 {
		args = append(args, "metric_exports", lostMetrics)
	}
	p.rec.log.Warn("telemetry lost data on its way to OpenTelemetry backends", args...)
}

// unwantedDrops are those of log records that the backend does not know at all.
func (p *Provider) unwantedDrops() map[string]int64 {
	var all map[string]int64
	for _, sender := range p.senders {
		if d := sender.Delivery(); d.Unwanted {
			for cause, n := range d.Drops {
				count(&all, cause, n)
			}
		}
	}
	return all
}
