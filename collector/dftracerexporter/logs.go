package dftracerexporter

import (
	"encoding/hex"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// Attributes of the log record that says that a span has begun. They are no
// arguments of the record in the file.
const (
	logSpanName   = "span.name"
	logParentSpan = "parent_span_id"
)

// eventName is what a log record is an event of: its name, or the attribute
// that came before there was such a field. It is empty for ordinary logs.
func eventName(lr plog.LogRecord) string {
	if name := lr.EventName(); name != "" {
		return name
	}
	return text(lr.Attributes(), "", "event.name")
}

// isEvent tells whether a log record is an event of a span.
func isEvent(lr plog.LogRecord) bool {
	return !lr.SpanID().IsEmpty() && !lr.TraceID().IsEmpty() && eventName(lr) != ""
}

// addLog writes an event of a span that may still be open.
func (t *trace) addLog(scope string, lr plog.LogRecord) {
	at := lr.Timestamp()
	if at == 0 {
		at = lr.ObservedTimestamp()
	}
	key := spanKey{lr.TraceID(), lr.SpanID()}
	name := eventName(lr)
	if s := t.waiting[key]; s != nil {
		t.joinSpan(s, newEvent(name, at, lr.Attributes()))
		return
	}
	r := t.expect(key)
	if name == spans.EventSpanStart && !r.done && r.begun == nil && t.begin(r, scope, at, lr.Attributes()) {
		return
	}
	e := newEvent(name, at, lr.Attributes())
	if r.marked(e.mark) {
		return // the span brought it
	}
	r.mark(e.mark)
	tid := t.pid
	if lane := t.lanes.homeOf(r.id); lane >= 0 {
		tid = t.tid(lane)
	}
	if !r.done {
		us := micros(at)
		r.extend(us, us)
		t.touch(r)
		t.announce()
	}
	t.writeEvent(&e, r.id, tid)
}

// joinSpan adds an event to a span that has not been written yet.
func (t *trace) joinSpan(s *span, e event) {
	for i := range s.events {
		if s.events[i].mark == e.mark {
			return
		}
	}
	if e.mark.name == spans.EventSpanStart {
		return // the span says it all
	}
	size := 64 + argsSize(e.args)
	s.events = append(s.events, e)
	s.size += size
	t.bytes += size
}

// begin writes that a span has begun, if the record says which.
func (t *trace) begin(r *relative, scope string, at pcommon.Timestamp, attrs pcommon.Map) bool {
	name := text(attrs, "", logSpanName)
	if name == "" {
		return false
	}
	var cat, event string
	var args []dftracer.Arg
	for key, v := range attrs.All() {
		switch key {
		case spans.AttrCategory:
			cat = v.AsString()
		case spans.AttrName:
			event = v.AsString()
		case logSpanName, logParentSpan, "event.name", "name", "value":
		default:
			args = append(args, arg(key, v))
		}
	}
	us := micros(at)
	parent := dftracer.NoParent
	if id, ok := spanID(text(attrs, "", logParentSpan)); ok && id != r.key.span {
		p := t.expect(spanKey{r.key.trace, id})
		if !p.done || p.contains(us, us) {
			r.parent, parent = p, int64(p.id)
		}
		if !p.done {
			p.extend(us, us)
		}
	}
	if r.element == nil {
		return true // expecting the parent made it forgotten: the limit is 1
	}
	lane := t.lanes.keep(r.id, us)
	r.begun = &begun{key: t.keys.find(scope, name, cat, event), start: us}
	r.extend(us, us)
	t.w.Begin(&dftracer.Event{
		ID: r.id, Name: r.begun.key.Name(), Cat: r.begun.key.Cat(), TID: t.tid(lane), TS: us, Parent: parent, Args: args,
	})
	t.rec.begins++
	return true
}

func spanID(text string) (id pcommon.SpanID, ok bool) {
	n, err := hex.Decode(id[:], []byte(text)[:min(len(text), 2*len(id))])
	return id, err == nil && n == len(id) && len(text) == 2*len(id)
}
