package otlpreceiver

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/spans"
)

// Limits of what is remembered of a process.
const (
	maxWaiting = 8192
	maxParents = 16384
)

// process is one process and its file, while spans of it are taken.
type process struct {
	id     assemble.Sender // of the process; the file may be that of several
	asm    *assemble.Assembler
	names  *assemble.Names
	limits assemble.Limits
	shared bool // the file
}

// take writes the spans of one resource.
func (p *process) take(rs *tracepb.ResourceSpans, now time.Time) {
	var events []folded
	for _, ss := range rs.GetScopeSpans() {
		scope := ss.GetScope().GetName()
		for _, src := range ss.GetSpans() {
			if e, ok := foldable(src, scope); ok {
				events = append(events, e)
			} else {
				p.asm.Add(p.newSpan(src, scope), now)
			}
		}
	}
	for i := range events { // after the spans, which bring the same events
		p.fold(&events[i])
	}
}

// create makes the file of a process.
func (f *Files) create(from assemble.Sender, rs *tracepb.ResourceSpans) (assemble.Made, error) {
	res := attrs(rs.GetResource().GetAttributes())
	if from == assemble.SharedSender {
		res = nil // it is not that of the one that came first
	}
	o := dftracer.Options{Start: begin(rs), Heartbeat: -1, Attempt: f.o.Attempt, Pool: f.pool, SessionTag: f.o.SessionTag, JobID: f.o.JobID}
	id := res.identity()
	from.Trace(&o, &id)
	path := filepath.Join(f.o.Dir, fileName(from))
	o.OnError = func(err error) { f.o.Logger.Warn("trace file", "path", path, "error", err, "see", see.File) }
	w, err := assemble.Create(path, &o)
	if err != nil {
		return assemble.Made{}, fmt.Errorf("otlpreceiver: %w", err)
	}
	facts := assemble.Facts{Writer: w, Limit: f.limits.Attributes}
	for _, kv := range res {
		switch kv.GetKey() {
		case "process.command_args", "process.command_line", "process.command", AttrRecorded:
		default:
			if facts.Room() {
				a := arg(kv.GetKey(), kv.GetValue())
				facts.Add(a.Key, a.Text())
			}
		}
	}
	return assemble.Made{Writer: w, TID: int64(from.PID), Cut: facts.End()}, nil
}

// begin is the earliest start of some spans, or now.
func begin(rs *tracepb.ResourceSpans) time.Time {
	var first uint64
	for _, ss := range rs.GetScopeSpans() {
		for _, s := range ss.GetSpans() {
			if at := s.GetStartTimeUnixNano(); at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	if first == 0 {
		return time.Now()
	}
	return time.UnixMicro(micros(first))
}

// The OpenTelemetry exporter of NVIDIA's one-logger sends each event of a span
// twice: as an event when the span ends, and at once as a span without length
// below it, whose name says which event of which span it stands for.
const (
	oneLoggerScope = "one_logger"
	eventInfix     = "_event_for_"
	errorPrefix    = "error_for_"
)

// folded is a span that stands for an event.
type folded struct {
	src         *tracepb.Span
	scope       string
	event, span string // names
}

// foldable reports whether a span stands for an event of its parent.
func foldable(src *tracepb.Span, scope string) (e folded, ok bool) {
	if scope != oneLoggerScope || len(src.GetParentSpanId()) == 0 || src.GetEndTimeUnixNano() > src.GetStartTimeUnixNano() {
		return e, false
	}
	e = folded{src: src, scope: scope}
	if e.span, ok = strings.CutPrefix(src.GetName(), errorPrefix); ok && src.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		e.event = spans.EventError
	} else {
		e.event, e.span, ok = strings.Cut(src.GetName(), eventInfix)
	}
	return e, ok && e.event != "" && e.span != ""
}

// fold adds the event. That a span starts is news only while it is open: then
// the file learns its name.
func (p *process) fold(e *folded) {
	key := keyOf(e.src.GetTraceId(), e.src.GetParentSpanId())
	if e.event == spans.EventSpanStart {
		p.asm.Begin(key, assemble.Key{}, p.names.Find(e.scope, e.span, "", ""), micros(e.src.GetStartTimeUnixNano()))
	}
	p.asm.AddEvent(key, p.newEvent(e.event, e.src.GetStartTimeUnixNano(), e.src.GetAttributes(), e.src.GetDroppedAttributesCount()))
}
