package pfw

import (
	"strconv"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// findSpan returns the entry of an open span, or nil.
func (d *traceWriter) findSpan(s sdktrace.ReadOnlySpan) *spanEntry {
	return d.open.find(s.SpanContext().SpanID())
}

// endSpan writes a span that has ended. It returns false if the span is not registered
// as open, for example because its start was not seen.
func (d *traceWriter) endSpan(s sdktrace.ReadOnlySpan) bool {
	e := d.findSpan(s)
	if e == nil {
		return false
	}
	if e.finish(&d.beginning) {
		d.write(e, s, s.EndTime().UnixMicro(), d.cut.Load() && has(s.Attributes(), argTruncated))
	}
	return true
}

// write writes an ended span, or at Shutdown an open one. Its line is made on the
// writer's goroutine: see AppendArgs.
func (d *traceWriter) write(e *spanEntry, s sdktrace.ReadOnlySpan, end int64, truncated bool) {
	if e.ambient {
		d.ambient.leave(&e.open, truncated)
	}
	end, level, parent := e.settle(end, d.clock.latest)
	at := dftracer.Span{ID: e.id, TID: d.roots.end(&e.open, end), TS: e.start, Dur: end - e.start, Level: level, Parent: parent}
	if truncated {
		d.truncated.Add(1)
	}
	e.span, e.truncated = s, truncated
	d.w.WriteDeferred(at, sizeOf(s.Attributes()), e)
	if events := s.Events(); len(events) > 0 {
		d.remainingEvents(e, events, s.DroppedEvents(), at.TID, level)
	}
	d.open.remove(e)
}

// sizeOf returns about how much memory a span with these attributes takes.
func sizeOf(attrs []attribute.KeyValue) int {
	n := 0
	for i := range attrs {
		n += 64 + len(attrs[i].Key)
		switch attrs[i].Value.Type() {
		case attribute.STRING:
			n += len(attrs[i].Value.AsString())
		case attribute.BOOL, attribute.INT64, attribute.FLOAT64:
		default:
			n += len(attrs[i].Value.String())
		}
	}
	return n
}

// AppendArgs implements dftracer.Content. The attributes of nearly all spans can be
// encoded one by one.
func (e *spanEntry) AppendArgs(text []byte, args []dftracer.Arg) (key *dftracer.Key, encoded []byte, other []dftracer.Arg) {
	d, s := e.d, e.span
	e.span = nil // children may keep e alive for a while
	attrs := s.Attributes()
	if s.Status().Code == codes.Unset && s.DroppedAttributes() == 0 && len(s.Links()) == 0 {
		epoch, step := missingProgress(e.epoch, e.step, attrs)
		encoded, cat, event, ok := d.args.appendText(appendProgressText(text, epoch, step), attrs)
		if ok {
			if e.truncated {
				encoded = appendInt(encoded, textTruncated, 1)
			}
			if d.opts.TraceIDs {
				sc := s.SpanContext()
				encoded = appendString(encoded, textTraceID, sc.TraceID().String())
				encoded = appendString(encoded, textSpanID, sc.SpanID().String())
			}
			return d.key(s, cat, event), encoded, args
		}
	}
	other, key = d.appendSpan(args, s, e.epoch, e.step, e.truncated)
	return key, text, other
}

// key returns the category and name of a span. cat and event are attributes of the span.
func (d *traceWriter) key(s sdktrace.ReadOnlySpan, cat, event string) *dftracer.Key {
	name := s.Name()
	if cat == "" && event == "" {
		if i := spans.Index(name); i >= 0 {
			return &d.keys.standard[i] // independent of the scope, which is expensive to read
		}
	}
	return d.keys.find(s.InstrumentationScope().Name, name, cat, event)
}

// writeScope writes a scope that has ended, and removes it from the registry. Shutdown
// waits for registered scopes.
func (d *traceWriter) writeScope(s *scopeEntry, end int64, truncated bool) {
	if s.ambient {
		d.ambient.leave(&s.open, truncated)
	}
	end, level, parent := s.settle(end, d.clock.latest)
	tid := d.roots.end(&s.open, end)

	at := dftracer.Span{ID: s.id, TID: tid, TS: s.start, Dur: end - s.start, Level: level, Parent: parent}
	var text [stackText]byte
	if text, ok := s.appendText(d, text[:0]); ok {
		if truncated {
			text = appendInt(text, textTruncated, 1)
		}
		d.w.WriteEncoded(&s.kind.key, at, text)
	} else {
		var stack [stackArgs]dftracer.Arg
		args := s.appendArgs(d, stack[:0])
		if truncated {
			args = append(args, dftracer.Int(argTruncated, 1))
		}
		d.w.WriteComplete(&s.kind.key, at, args...)
	}
	d.open.removeScope(s)
}

// begin writes the begin record of a span. The span must not have ended: readers treat a
// begin without an end as a span that was cut short.
func (d *traceWriter) begin(o *open, key *dftracer.Key, tid, epoch, step int64, attrs []attribute.KeyValue) {
	level, parent := o.position()
	args := appendProgress(nil, epoch, step, attrs)
	tracefile.WriteBegin(d.w, &dftracer.Event{
		ID: o.id, Name: tracefile.KeyName(*key), Cat: tracefile.KeyCat(*key), TID: tid, TS: o.start,
		Level: level, Parent: parent, Args: appendAttrs(args, attrs),
	})
}

// beginOld writes the begin records of spans and scopes that began before the given
// time.
func (d *traceWriter) beginOld(before int64) {
	for _, e := range d.open.allSpans() {
		d.beginLate(&e.open, before, func() { d.beginSpan(e) })
	}
	for _, s := range d.open.allScopes() {
		d.beginLate(&s.open, before, func() { d.beginScope(s) })
	}
}

// beginLate writes the begin record of o unless it is already written, o began at or
// after before, or o has ended.
func (d *traceWriter) beginLate(o *open, before int64, write func()) {
	if o.begun || o.start >= before {
		return
	}
	d.whileOpen(o, func() {
		o.begun = true
		write()
	})
}

// whileOpen calls write unless o has ended, and keeps o from ending until write returns.
func (d *traceWriter) whileOpen(o *open, write func()) {
	d.roots.lift(o) // children of o must not wait for the disk
	d.beginning.Lock()
	defer d.beginning.Unlock()
	if o.hold() {
		defer o.release()
		write()
	}
}

func (d *traceWriter) beginSpan(e *spanEntry) {
	attrs := e.span.Attributes()
	var cat, event string
	for i := range attrs {
		switch attrs[i].Key {
		case spans.AttrCategory:
			cat = attrs[i].Value.AsString()
		case spans.AttrName:
			event = attrs[i].Value.AsString()
		}
	}
	d.begin(&e.open, d.key(e.span, cat, event), d.roots.tid(&e.open), e.epoch, e.step, attrs)
}

func (d *traceWriter) beginScope(s *scopeEntry) {
	args := s.current()
	var shared []attribute.KeyValue
	if args != nil {
		shared = args.Attrs
	}
	epoch, step := d.standing(args)
	d.begin(&s.open, &s.kind.key, d.roots.tid(&s.open), epoch, step, shared)
}

// spanEntry is an open span.
type spanEntry struct {
	open
	epoch, step int64 // -1 if unknown
	spanID      trace.SpanID
	span        sdktrace.ReadOnlySpan // nil once its line is made
	d           *traceWriter
	truncated   bool // it is written before its end
}

// scopeEntry is an open scope.
type scopeEntry struct {
	open
	kind  *kind
	args  *dispatch.LiveArgs
	count int64
	outer trace.SpanID // the innermost span of the context
	own   atomic.Pointer[ownArgs]
}

// argSpan is the argument of an event's record that holds the id of its span.
const argSpan = "span"

// remainingEvents writes the events that were not written when they happened. The SDK
// has dropped the oldest events of a span with too many.
func (d *traceWriter) remainingEvents(e *spanEntry, events []sdktrace.Event, dropped int, tid int64, level int) {
	written := e.events()
	var stack [stackArgs]dftracer.Arg
	for i := max(written-dropped, 0); i < len(events); i++ {
		ev := &events[i]
		args := eventArgs(stack[:0], e.id, ev.Name, ev.Time.UnixMicro())
		for i := range ev.Attributes {
			args = appendEventArg(args, &ev.Attributes[i])
		}
		writeEvent(d.w, e.id, tid, level, args)
	}
	if written == 0 && dropped > 0 {
		d.w.Write(&dftracer.Event{
			Phase: dftracer.PhaseMetadata, Name: tracefile.NameCustom, Cat: dftracer.CatDFTracer,
			TID: tid, Level: levelBelow(level), Parent: int64(e.id),
			Args: []dftracer.Arg{
				dftracer.String("name", place.ArgDroppedEvents), dftracer.String("value", strconv.Itoa(dropped)),
				dftracer.Int(argSpan, int64(e.id)),
			},
		})
	}
}

// levelBelow returns the level of the children of a span at level; 0 means unknown.
func levelBelow(level int) int {
	if level == 0 {
		return 0
	}
	return level + 1
}

func writeEvent(w *dftracer.Writer, id uint64, tid int64, level int, args []dftracer.Arg) {
	tracefile.Distinct(args, ownEventArgs, len(args), "event.")
	w.Write(&dftracer.Event{
		Phase: dftracer.PhaseMetadata, Name: tracefile.NameCustom, Cat: dftracer.CatDFTracer,
		TID: tid, Level: levelBelow(level), Parent: int64(id), Args: args,
	})
}

// ownEventArgs is the number of arguments that eventArgs appends.
const ownEventArgs = 3

// eventArgs appends the arguments of an event that are not its attributes.
func eventArgs(dst []dftracer.Arg, id uint64, name string, micro int64) []dftracer.Arg {
	return append(dst, dftracer.String("name", name), dftracer.String("value", strconv.FormatInt(micro, 10)), dftracer.Int(argSpan, int64(id)))
}
