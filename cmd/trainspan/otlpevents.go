package main

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/dft"
)

// spanEvents is what waits for its other half: the events that came before their
// span, and the span that came before the last of its events.
type spanEvents struct {
	json    []byte // of the events
	n       int32
	dropped int64
	span    *dftracer.Event
}

// note keeps an event, and writes its span when that was all it waited for.
func (o *otlpFormat) note(dst []byte, ev *dftracer.Event) []byte {
	id, name, value, ok := eventOf(ev)
	if !ok || o.from.eventCounts[id] == 0 {
		return dst
	}
	w := o.waiting[id]
	if w == nil {
		w = &spanEvents{}
		o.waiting[id] = w
	}
	w.n++
	switch {
	case name == assemble.ArgDroppedEvents:
		w.dropped = value
	case value < 0 || value > math.MaxInt64/1000:
		w.dropped++ // OTLP cannot say its time
	default:
		if len(w.json) > 0 {
			w.json = append(w.json, ',')
		}
		w.json = append(w.json, `{"timeUnixNano":"`...)
		w.json = strconv.AppendInt(w.json, value*1000, 10)
		w.json = append(w.json, `","name":`...)
		w.json = appendText(w.json, name)
		w.json = append(w.json, `,"attributes":`...)
		w.json = appendAttributes(w.json, slices.DeleteFunc(cloneArgs(ev.Args), func(a dftracer.Arg) bool {
			return a.Key == "name" || a.Key == "value" || a.Key == "span"
		}))
		w.json = append(w.json, '}')
	}
	if w.span != nil && w.n >= o.from.eventCounts[id] {
		delete(o.waiting, id)
		return o.write(dst, w.span, w)
	}
	return dst
}

// span writes a span or, when events of it are still to come, keeps it.
func (o *otlpFormat) span(dst []byte, ev *dftracer.Event) []byte {
	n := o.from.eventCounts[ev.ID]
	if n == 0 || ev.ID == 0 {
		return o.write(dst, ev, nil)
	}
	w := o.waiting[ev.ID]
	if w != nil && w.n >= n {
		delete(o.waiting, ev.ID)
		return o.write(dst, ev, w)
	}
	if w == nil {
		w = &spanEvents{}
		o.waiting[ev.ID] = w
	}
	kept := *ev
	kept.Args = cloneArgs(ev.Args)
	w.span = &kept
	return dst
}

// rest writes the spans that waited in vain.
func (o *otlpFormat) rest(dst []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(o.waiting)) {
		if w := o.waiting[id]; w.span != nil {
			dst = o.write(dst, w.span, w)
		}
	}
	clear(o.waiting)
	return dst
}

// otlpExtras is what OTLP has fields for and a trace has arguments.
type otlpExtras struct {
	status, message      string
	links                []otlpLink
	droppedAttr, dropped int64
	droppedLinks         int64
}

type otlpLink struct {
	TraceID    string                     `json:"trace_id"`
	SpanID     string                     `json:"span_id"`
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// take reports whether an argument has a field of its own.
func (x *otlpExtras) take(arg *dftracer.Arg) bool {
	switch arg.Key {
	case assemble.ArgStatus:
		x.status = map[string]string{"OK": "1", assemble.StatusError: "2"}[arg.Text()]
		return x.status != ""
	case assemble.ArgStatusDescription:
		x.message = arg.Text()
		return true
	case assemble.ArgLinks:
		return json.Unmarshal([]byte(arg.Text()), &x.links) == nil
	case assemble.ArgDroppedAttributes:
		x.droppedAttr = arg.Int64()
		return true
	case assemble.ArgDroppedLinks:
		x.droppedLinks = arg.Int64()
		return true
	}
	return false
}

// append writes the fields.
func (x *otlpExtras) append(b []byte, events *spanEvents) []byte {
	if events != nil {
		b = append(b, `,"events":[`...)
		b = append(b, events.json...)
		b = append(b, ']')
		x.dropped = events.dropped
	}
	if x.status != "" {
		b = append(b, `,"status":{"code":`...)
		b = append(b, x.status...)
		if x.message != "" {
			b = append(b, `,"message":`...)
			b = appendText(b, x.message)
		}
		b = append(b, '}')
	}
	if len(x.links) > 0 {
		b = append(b, `,"links":[`...)
		for i, l := range x.links {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"traceId":`...)
			b = appendText(b, l.TraceID)
			b = append(b, `,"spanId":`...)
			b = appendText(b, l.SpanID)
			b = append(b, `,"attributes":`...)
			b = append(appendAttributes(b, l.args()), '}')
		}
		b = append(b, ']')
	}
	for _, f := range [...]struct {
		key string
		n   int64
	}{{"droppedAttributesCount", x.droppedAttr}, {"droppedEventsCount", x.dropped}, {"droppedLinksCount", x.droppedLinks}} {
		if f.n > 0 {
			b = append(b, `,"`+f.key+`":`...)
			b = strconv.AppendInt(b, f.n, 10)
		}
	}
	return b
}

// args returns the attributes of a link by name.
func (l *otlpLink) args() (args []dftracer.Arg) {
	for _, key := range slices.Sorted(maps.Keys(l.Attributes)) {
		args = append(args, dft.FromJSON(key, l.Attributes[key]))
	}
	return args
}
