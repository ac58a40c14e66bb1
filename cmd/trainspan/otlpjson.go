package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/identity"
	runs "github.com/trainspan/trainspan/internal/run"
)

// otlpFormat writes spans as OTLP JSON lines, one trace per process. Trace and
// span ids follow from the trace, so that a second conversion gives the same.
type otlpFormat struct {
	from  *survey
	n     int64
	aside int64 // spans with times that OTLP cannot say
	extra uint64
	procs map[runs.Key]*otlpProcess
	order []*otlpProcess

	waiting map[uint64]*spanEvents
}

// otlpProcess gathers the spans of one line.
type otlpProcess struct {
	resource []byte
	trace    string
	seed     uint64
	spans    []byte
	n        int
}

// lineSpans is how many spans a line has at most: a batch of OpenTelemetry's size.
const lineSpans = 512

func newOTLPFormat(s *survey) *otlpFormat {
	return &otlpFormat{from: s, procs: make(map[runs.Key]*otlpProcess), waiting: make(map[uint64]*spanEvents)}
}

func (o *otlpFormat) begin(dst []byte) []byte { return dst }
func (o *otlpFormat) count() int64            { return o.n }

func (o *otlpFormat) end(dst []byte) []byte {
	dst = o.rest(dst)
	for _, p := range o.order {
		dst = p.line(dst)
	}
	return dst
}

func (o *otlpFormat) event(dst []byte, ev *dftracer.Event) []byte {
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

// write appends a span to its process, and the line of that when it is full.
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
	attrs := []dftracer.Arg{dftracer.String(identity.Attribute(identity.Service), program), dftracer.String(identity.Attribute(identity.Host), host),
		dftracer.Int(identity.Attribute(identity.PID), key.PID)}
	attrs = append(attrs, resourceOf(o.from.who.Of(ev))...)
	p.resource = appendAttributes(nil, attrs)
	o.procs[key] = p
	o.order = append(o.order, p)
	return p
}

// resourceOf is what a resource says of the place of a process. Attempts count from 0
// there.
func resourceOf(p *runs.Process) (attrs []dftracer.Arg) {
	word := identity.Attribute
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

// line appends what was gathered.
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
// and never the same for two ids.
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
		switch dft.KindOf(args[i]) {
		case dft.KindInt:
			dst = append(dst, `"intValue":"`...)
			dst = strconv.AppendInt(dst, args[i].Int64(), 10)
			dst = append(dst, '"')
		case dft.KindFloat:
			dst = append(dst, `"doubleValue":`...)
			dst = dft.AppendArg(args[i], dst, dftracer.V2)
		default:
			dst = append(dst, `"stringValue":`...)
			dst = appendText(dst, args[i].Text())
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
