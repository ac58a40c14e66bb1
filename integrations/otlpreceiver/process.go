package otlpreceiver

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/vocabulary"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/spans"
)

// Limits of what is remembered of a process.
const (
	maxWaiting = 8192
	maxParents = 16384
)

// process is one process and its file.
type process struct {
	id   identity
	path string

	mu         sync.Mutex
	w          *dftracer.Writer // nil until the first span
	asm        *assemble.Assembler
	names      assemble.Names
	spans      int64
	duplicates int64
}

// take writes the spans of one resource.
func (p *process) take(f *Files, rs *tracepb.ResourceSpans) error {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		if err := p.create(f, rs); err != nil {
			return err
		}
	}
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
	p.count()
	return nil
}

// create makes the file.
func (p *process) create(f *Files, rs *tracepb.ResourceSpans) error {
	res := attrs(rs.GetResource().GetAttributes())
	o := dftracer.Options{
		Process: p.id.process(res), Start: begin(rs), Heartbeat: -1, Attempt: f.o.Attempt,
		SessionTag: cmp.Or(bounded(res.text("training.session_tag")), f.o.SessionTag), JobID: f.o.JobID,
	}
	if p.id.rank >= 0 {
		o.Rank = &p.id.rank
	}
	if n, ok := res.number("training.attempt"); ok {
		o.Attempt = &n
	}
	o.OnError = func(err error) { f.o.Logger.Warn("trace file", "path", p.path, "error", err) }
	w, err := dftracer.Create(p.path, &o)
	if err != nil {
		return fmt.Errorf("otlpreceiver: %w", err)
	}
	p.w = w
	p.asm = assemble.New(w, assemble.Options{TID: int64(p.id.pid), MaxWaiting: maxWaiting, MaxParents: maxParents, LiveEvents: true})
	if n, ok := res.number(vocabulary.WorldSizeKeys()...); ok {
		w.CM("world_size", fmt.Sprint(n))
	}
	for _, kv := range res {
		switch kv.GetKey() {
		case "process.command_args", "process.command_line", "process.command", AttrRecorded:
		default:
			a := arg(kv.GetKey(), kv.GetValue())
			w.CM(a.Key, bounded(a.Text()))
		}
	}
	return nil
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

// settle writes the spans that came by that time.
func (p *process) settle(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asm != nil {
		p.asm.WriteUntil(until)
		p.count()
	}
}

func (p *process) count() {
	c := p.asm.Counts()
	p.spans += c.Spans
	p.duplicates += c.Duplicates
}

func (p *process) add(st *FilesStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return
	}
	lines := p.w.Stats()
	st.Processes++
	st.Spans += p.spans
	st.Duplicates += p.duplicates
	st.Lost += int64(lines.Lost + lines.Late) //nolint:gosec // counts of lines
}

func (p *process) close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil {
		return nil
	}
	p.asm.Finish()
	p.count()
	return p.w.CloseContext(ctx)
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
	p.asm.AddEvent(key, newEvent(e.event, e.src.GetStartTimeUnixNano(), e.src.GetAttributes()))
}
