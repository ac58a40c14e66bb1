package pfw

import (
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/dftracer"
)

// write writes an ended span. The SDK passes either a snapshot or, at
// Shutdown, the span itself.
func (d *desk) write(e *spanEntry, s sdktrace.ReadOnlySpan, end int64, truncated bool) {
	if e.ambient {
		d.ambient.leave(&e.open, truncated)
	}
	end, level, parent := e.settle(end, d.clock.latest)
	at := dftracer.Span{ID: e.id, TID: d.roots.end(&e.open, end), TS: e.start, Dur: end - e.start, Level: level, Parent: parent}
	if truncated {
		d.truncated.Add(1)
	}
	if !d.writeText(e, s, &at, truncated) {
		d.writeArgs(e, s, &at, truncated)
	}
	d.remainingEvents(e, s, at.TID, level)
	d.open.remove(e)
}

// writeText writes a span whose attributes can be encoded one by one, as those
// of nearly all spans can. It writes nothing where it returns false.
func (d *desk) writeText(e *spanEntry, s sdktrace.ReadOnlySpan, at *dftracer.Span, truncated bool) bool {
	if s.Status().Code != codes.Unset || s.DroppedAttributes() > 0 || len(s.Links()) > 0 {
		return false
	}
	attrs := s.Attributes()
	var stack [stackText]byte
	epoch, step := missingProgress(e.epoch, e.step, attrs)
	text, cat, event, ok := d.args.appendText(appendProgressText(stack[:0], epoch, step), attrs)
	if !ok {
		return false
	}
	if truncated {
		text = appendInt(text, argTruncated, 1)
	}
	if d.opts.TraceIDs {
		sc := s.SpanContext()
		text = appendString(text, argTraceID, sc.TraceID().String())
		text = appendString(text, argSpanID, sc.SpanID().String())
	}
	d.w.WriteEncoded(d.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event), *at, text)
	return true
}

// writeArgs writes any span.
func (d *desk) writeArgs(e *spanEntry, s sdktrace.ReadOnlySpan, at *dftracer.Span, truncated bool) {
	var stack [stackArgs]dftracer.Arg
	attrs := s.Attributes()
	args := appendProgress(stack[:0], e.epoch, e.step, attrs)
	from := len(args)
	args, cat, event := appendSpan(args, s, attrs)
	if truncated && !has(attrs, argTruncated) {
		args = append(args, dftracer.Int(argTruncated, 1))
	}
	if d.opts.TraceIDs {
		args = appendIDs(args, s)
	}
	distinct(args, from, attrs)
	d.w.WriteComplete(d.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event), *at, args...)
}

// writeScope writes a scope that has ended. Shutdown waits for scopes that are in
// the registry.
func (d *desk) writeScope(s *scopeEntry, end int64, truncated bool) {
	if s.ambient {
		d.ambient.leave(&s.open, truncated)
	}
	end, level, parent := s.settle(end, d.clock.latest)
	tid := d.roots.end(&s.open, end)

	at := dftracer.Span{ID: s.id, TID: tid, TS: s.start, Dur: end - s.start, Level: level, Parent: parent}
	var text [stackText]byte
	if text, ok := s.appendText(d, text[:0]); ok {
		if truncated {
			text = appendInt(text, argTruncated, 1)
		}
		d.w.WriteEncoded(s.key, at, text)
	} else {
		var stack [stackArgs]dftracer.Arg
		args := s.appendArgs(d, stack[:0])
		if truncated {
			args = append(args, dftracer.Int(argTruncated, 1))
		}
		d.w.WriteComplete(s.key, at, args...)
	}
	d.open.removeScope(s)
}
