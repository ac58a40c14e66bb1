package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// otlpFormat writes spans as OTLP JSON lines, one trace per process. Trace and
// span ids are derived from the trace, so that a second conversion gives the
// same.
type otlpFormat struct {
	from  *survey
	n     int64
	aside int64 // spans with times that OTLP cannot represent
	extra uint64
	procs map[job.Key]*otlpProcess
	order []*otlpProcess

	waiting map[uint64]*spanEvents

	begun map[uint64]dftracer.Event // open spans
	last  map[job.Key]int64         // last activity
	beat  map[job.Key]int64         // last heartbeat
}

// otlpProcess collects the spans of one line.
type otlpProcess struct {
	resource []byte
	trace    string
	seed     uint64
	spans    []byte
	n        int
}

// lineSpans is the maximum number of spans in a line: OpenTelemetry's batch
// size.
const lineSpans = 512

func newOTLPFormat(s *survey) *otlpFormat {
	return &otlpFormat{from: s, procs: make(map[job.Key]*otlpProcess), waiting: make(map[uint64]*spanEvents),
		begun: make(map[uint64]dftracer.Event), last: make(map[job.Key]int64), beat: make(map[job.Key]int64)}
}

func (o *otlpFormat) begin(dst []byte) []byte { return dst }
func (o *otlpFormat) count() int64            { return o.n }

func (o *otlpFormat) end(dst []byte) []byte {
	dst = o.appendWaiting(o.appendOpen(dst))
	for _, p := range o.order {
		dst = p.line(dst)
	}
	return dst
}

func (o *otlpFormat) event(dst []byte, ev *dftracer.Event) []byte {
	o.alive(ev)
	switch {
	case ev.Phase == dftracer.PhaseMetadata:
		return o.note(dst, ev)
	case ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer:
		return dst
	case ev.Dur < 0 || ev.TS > math.MaxInt64/1000 || ev.TS+ev.Dur > math.MaxInt64/1000 || ev.TS+ev.Dur < ev.TS:
		o.aside++
		return dst
	}
	return o.span(dst, ev)
}

// alive notes activity, and which spans are open.
func (o *otlpFormat) alive(ev *dftracer.Event) {
	at := ev.End()
	if ev.Phase == dftracer.PhaseMetadata {
		at = 0
		if begun, ok := tracefile.BeginOf(ev); ok {
			begun.Args = cloneArgs(begun.Args)
			o.begun[begun.ID] = begun
			at = begun.TS
		} else if name, value := ev.Meta(); ev.Name == tracefile.NameCustom && name == tracefile.KeyHeartbeat {
			if at, _ = strconv.ParseInt(value, 10, 64); o.from.has(at) {
				o.beat[o.from.who.Key(ev)] = at
			}
		}
	} else if ev.ID != 0 {
		delete(o.begun, ev.ID)
	}
	if at > 0 && o.from.has(at) {
		key := o.from.who.Key(ev)
		o.last[key] = max(o.last[key], at)
	}
}

// appendOpen appends the open spans: up to the last activity, with the argument
// that marks them, and with the last heartbeat as an event.
func (o *otlpFormat) appendOpen(dst []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(o.begun)) {
		ev := o.begun[id]
		key := o.from.who.Key(&ev)
		ev.Dur = max(o.last[key]-ev.TS, 0)
		ev.Args = append(ev.Args, dftracer.Int(place.ArgTruncated, 1))
		if !o.from.has(ev.TS) || ev.TS > math.MaxInt64/1000-ev.Dur {
			continue
		}
		w := o.waiting[id]
		if delete(o.waiting, id); w == nil {
			w = &spanEvents{}
		}
		if at, ok := o.beat[key]; ok {
			w.event(tracefile.KeyHeartbeat, at, nil)
		}
		dst = o.write(dst, &ev, w)
	}
	return dst
}

// write adds a span to its process, and appends the line when it is full.
func (o *otlpFormat) write(dst []byte, ev *dftracer.Event, events *spanEvents) []byte {
	o.n++
	p := o.process(ev)
	id := ev.ID
	if id == 0 {
		o.extra++
		id = 1<<63 | o.extra
	}
	if p.n > 0 {
		p.spans = append(p.spans, ',')
	}
	p.span(ev, id, o.from, events)
	if p.n++; p.n == lineSpans {
		dst = p.line(dst)
	}
	return dst
}

func (o *otlpFormat) process(ev *dftracer.Event) *otlpProcess {
	key := o.from.who.Key(ev)
	if p := o.procs[key]; p != nil {
		return p
	}
	host, program := o.from.hostName(key.Host), o.from.process().Exec
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", host, key.PID, o.from.startTime, program))
	p := &otlpProcess{trace: hex.EncodeToString(sum[:16]), seed: binary.BigEndian.Uint64(sum[16:])}
	attrs := []dftracer.Arg{dftracer.String(identity.Service.Attribute(), program), dftracer.String(identity.Host.Attribute(), host),
		dftracer.Int(identity.PID.Attribute(), key.PID)}
	attrs = append(attrs, resourceOf(o.from.who.Of(ev))...)
	p.resource = appendAttributes(nil, attrs)
	o.procs[key] = p
	o.order = append(o.order, p)
	return p
}

// resourceOf returns the resource attributes for the place of a process.
// Attempts count from 0 there.
func resourceOf(p *job.Process) (attrs []dftracer.Arg) {
	word := identity.Field.Attribute
	if p.RankKnown {
		attrs = append(attrs, dftracer.Int(word(identity.Rank), int64(p.Rank)))
	}
	if p.WorldSize > 0 {
		attrs = append(attrs, dftracer.Int(word(identity.WorldSize), int64(p.WorldSize)))
	}
	if p.AttemptKnown {
		attrs = append(attrs, dftracer.Int(word(identity.Attempt), int64(p.Attempt-1)))
	}
	if p.JobID != "" {
		attrs = append(attrs, dftracer.String(word(identity.Job), p.JobID))
	}
	if p.SessionTag != "" {
		attrs = append(attrs, dftracer.String(word(identity.Session), p.SessionTag))
	}
	return attrs
}

// line appends the collected spans.
func (p *otlpProcess) line(dst []byte) []byte {
	if p.n == 0 {
		return dst
	}
	dst = append(dst, `{"resourceSpans":[{"resource":{"attributes":`...)
	dst = append(dst, p.resource...)
	dst = append(dst, `},"scopeSpans":[{"scope":{"name":"github.com/trainspan/trainspan/cmd/trainspan"},"spans":[`...)
	dst = append(dst, p.spans...)
	p.spans, p.n = p.spans[:0], 0
	return append(dst, "]}]}]}\n"...)
}

func (p *otlpProcess) span(ev *dftracer.Event, id uint64, from *survey, events *spanEvents) {
	b := p.spans
	b = append(b, `{"traceId":"`...)
	b = append(b, p.trace...)
	b = append(b, `","spanId":"`...)
	b = appendID(b, p.seed, id)
	if ev.Parent > 0 {
		b = append(b, `","parentSpanId":"`...)
		b = appendID(b, p.seed, uint64(ev.Parent))
	}
	b = append(b, `","name":`...)
	b = appendText(b, ev.Name)
	b = append(b, `,"kind":1,"startTimeUnixNano":"`...)
	b = strconv.AppendInt(b, ev.TS*1000, 10)
	b = append(b, `","endTimeUnixNano":"`...)
	b = strconv.AppendInt(b, ev.End()*1000, 10)
	b = append(b, `","attributes":`...)
	attrs := make([]dftracer.Arg, 0, 2+len(ev.Args))
	attrs = append(attrs, dftracer.String("dftracer.cat", ev.Cat), dftracer.Int("thread.id", ev.TID))
	chrome := chromeFormat{from: from}
	var extras otlpExtras
	for i := range ev.Args {
		arg := ev.Args[i]
		if extras.take(&arg) {
			continue
		}
		if isHashKey(arg.Key) {
			_, arg = chrome.named(arg.Key, &arg)
		}
		attrs = append(attrs, arg)
	}
	b = appendAttributes(b, attrs)
	p.spans = append(extras.append(b, events), '}')
}

// appendID appends a span id: the event's id mixed with its process, never zero
// and unique for each id.
func appendID(dst []byte, seed, id uint64) []byte {
	z := id + seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	if z == 0 {
		z = seed | 1
	}
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], z)
	return hex.AppendEncode(dst, raw[:])
}

func appendAttributes(dst []byte, args []dftracer.Arg) []byte {
	dst = append(dst, '[')
	for i := range args {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = appendText(dst, args[i].Key)
		dst = append(dst, `,"value":{`...)
		switch tracefile.KindOf(args[i]) {
		case tracefile.KindInt:
			dst = append(dst, `"intValue":"`...)
			dst = strconv.AppendInt(dst, args[i].Int64(), 10)
			dst = append(dst, '"')
		case tracefile.KindFloat:
			dst = append(dst, `"doubleValue":`...)
			dst = tracefile.AppendArg(args[i], dst, dftracer.V2)
		default:
			dst = append(dst, `"stringValue":`...)
			dst = appendText(dst, args[i].Text())
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

// spanEvents is a span or its events that wait for the other: events that came
// before their span, or a span that came before the last of its events.
type spanEvents struct {
	json    []byte // of the events
	n       int32
	dropped int64
	span    *dftracer.Event
}

// event appends an event, at a time in microseconds.
func (w *spanEvents) event(name string, at int64, args []dftracer.Arg) {
	if len(w.json) > 0 {
		w.json = append(w.json, ',')
	}
	w.json = append(w.json, `{"timeUnixNano":"`...)
	w.json = strconv.AppendInt(w.json, at*1000, 10)
	w.json = append(w.json, `","name":`...)
	w.json = appendText(w.json, name)
	w.json = append(w.json, `,"attributes":`...)
	w.json = append(appendAttributes(w.json, args), '}')
}

// note keeps an event, and writes its span if that was the last missing one.
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
	case name == place.ArgDroppedEvents:
		w.dropped = value
	case value < 0 || value > math.MaxInt64/1000:
		w.dropped++ // OTLP cannot represent its time
	default:
		w.event(name, value, slices.DeleteFunc(cloneArgs(ev.Args), func(a dftracer.Arg) bool {
			return a.Key == "name" || a.Key == "value" || a.Key == "span"
		}))
	}
	if w.span != nil && w.n >= o.from.eventCounts[id] {
		delete(o.waiting, id)
		return o.write(dst, w.span, w)
	}
	return dst
}

// span writes a span or, if events of it are missing, keeps it.
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

// appendWaiting appends the spans whose events did not come.
func (o *otlpFormat) appendWaiting(dst []byte) []byte {
	for _, id := range slices.Sorted(maps.Keys(o.waiting)) {
		if w := o.waiting[id]; w.span != nil {
			dst = o.write(dst, w.span, w)
		}
	}
	clear(o.waiting)
	return dst
}

// otlpExtras are arguments of a trace that are fields in OTLP.
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

// take reports whether an argument is a field.
func (x *otlpExtras) take(arg *dftracer.Arg) bool {
	switch arg.Key {
	case place.ArgStatus:
		x.status = map[string]string{"OK": "1", place.StatusError: "2"}[arg.Text()]
		return x.status != ""
	case place.ArgStatusDescription:
		x.message = arg.Text()
		return true
	case place.ArgLinks:
		return json.Unmarshal([]byte(arg.Text()), &x.links) == nil
	case place.ArgDroppedAttributes:
		x.droppedAttr = arg.Int64()
		return true
	case place.ArgDroppedLinks:
		x.droppedLinks = arg.Int64()
		return true
	}
	return false
}

// append appends the fields.
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
		args = append(args, tracefile.FromJSON(key, l.Attributes[key]))
	}
	return args
}
