package dftracerexporter

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/spans"
)

// folded is a span that stands for an event.
type folded struct {
	src         ptrace.Span
	scope       string
	event, span string // names
}

// foldable reports whether a span stands for an event of its parent.
func foldable(src ptrace.Span, scope string) (f folded, ok bool) {
	f = folded{src: src, scope: scope}
	f.event, f.span, ok = assemble.Folded(scope, src.Name(), !src.ParentSpanID().IsEmpty(), src.EndTimestamp() > src.StartTimestamp(), src.Status().Code() == ptrace.StatusCodeError)
	return f, ok
}

// fold adds the event. That a span starts is news only while it is open: then
// the file learns its name.
func (t *trace) fold(f *folded) {
	key := keyOf(f.src.TraceID(), f.src.ParentSpanID())
	if f.event == spans.EventSpanStart {
		t.asm.Begin(key, assemble.Key{}, t.names.Find(f.scope, f.span, "", ""), micros(f.src.StartTimestamp()))
	}
	t.asm.AddEvent(key, t.newEvent(f.event, f.src.StartTimestamp(), f.src.Attributes(), f.src.DroppedAttributesCount()))
	t.folded++
}
