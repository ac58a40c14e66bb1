package dftracerexporter

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/spans"
)

// The OpenTelemetry exporter of NVIDIA's one-logger sends each event of a span
// twice: as an event when the span ends, and at once as a span without length
// below it, whose name says which event of which span it stands for.
const (
	oneLoggerScope = "one_logger"
	eventInfix     = "_event_for_"
	errorPrefix    = "error_for_"
	errorEvent     = "error"
)

// folded is a span that stands for an event.
type folded struct {
	src         ptrace.Span
	scope       string
	event, span string // names
}

// foldable reports whether a span stands for an event of its parent.
func foldable(src ptrace.Span, scope string) (f folded, ok bool) {
	if scope != oneLoggerScope || src.ParentSpanID().IsEmpty() || src.EndTimestamp() > src.StartTimestamp() {
		return f, false
	}
	f = folded{src: src, scope: scope}
	if f.span, ok = strings.CutPrefix(src.Name(), errorPrefix); ok && src.Status().Code() == ptrace.StatusCodeError {
		f.event = errorEvent
	} else {
		f.event, f.span, ok = strings.Cut(src.Name(), eventInfix)
	}
	return f, ok && f.event != "" && f.span != ""
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
