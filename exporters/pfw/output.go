package pfw

import (
	"context"
	"maps"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/direct"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Attach implements outputs.Output: events get the epoch and step of the
// training, and scopes whose context carries no parent find theirs.
func (p *Processor) Attach(ctx context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	if p != nil {
		p.desk.attach(t)
		direct.OfferShortcuts(ctx, direct.Shortcuts{Scopes: scopes{p}, Files: p.fileLog()})
	}
	return outputs.Wants{Spans: true, All: true}, nil
}

// OnEvent implements outputs.Output. It writes an event of an open span at once, as a
// metadata record whose name is the event's and whose value is its time in microseconds.
// Without telemetry, which calls OnEvent, the events of a span are written when it ends.
func (p *Processor) OnEvent(s sdktrace.ReadOnlySpan, ev sdktrace.Event) {
	if p == nil || p.closed.Load() {
		return
	}
	d := p.desk
	e := d.open.find(s.SpanContext().SpanID())
	if e == nil {
		return
	}
	e.live.Add(1)
	level, _ := e.position()
	writeEvent(d.w, e.id, d.roots.tid(&e.open), level, &ev)
}

// scopes records scopes of package ai that are not OpenTelemetry spans.
type scopes struct{ p *Processor }

// ScopeKind implements direct.Scopes.
func (s scopes) ScopeKind(category, name string) direct.ScopeKind {
	p := s.p
	p.scoped.Store(true)
	info, _ := vocab.ByEvent(category, name)
	return &kind{d: p.desk, key: dftracer.NewKey(vocab.SafeCategory(category), name), long: info.Long}
}

// EndScopes implements direct.Scopes.
func (s scopes) EndScopes() { s.p.endScopes() }

// fileLog returns what records calls on files, nil if the options switch them off.
func (p *Processor) fileLog() direct.FileLog {
	if p.files == nil {
		return nil
	}
	return p.files
}

// endScopes ends the open scopes before the spans around them end, and writes them as
// truncated. Later scopes are not recorded.
func (p *Processor) endScopes() {
	if !p.desk.cut.CompareAndSwap(false, true) {
		return
	}
	p.desk.endScopes()
	p.files.flush(0)
}

// Export implements outputs.Output; a trace file asks for no records.
func (p *Processor) Export(*outputs.Record) error { return nil }

// ReportLosses implements outputs.Output. The trace's end record repeats what
// was lost.
func (p *Processor) ReportLosses(lost outputs.Losses) {
	if p != nil {
		lost = maps.Clone(lost)
		p.dropped.Store(&lost)
	}
}

// Stats implements outputs.Output.
func (p *Processor) Stats() outputs.Stats {
	if p == nil {
		return outputs.Stats{}
	}
	s := p.desk.w.Stats()
	return outputs.Stats{File: outputs.FileStats{
		Output: "trace", Records: int64(s.Lines), Bytes: int64(s.DiskBytes), Lost: int64(s.Lost + s.Late),
		Errors: int64(s.Errors), Blocked: s.Blocked,
	}}
}
