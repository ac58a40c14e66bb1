package pfw

import (
	"context"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Open implements outputs.Output. It lets events get the epoch and step of the training,
// and scopes without a parent in their context find one.
func (p *Processor) Open(ctx context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	if p != nil {
		p.traces.attach(t)
		dispatch.OfferScopes(ctx, scopes{p}, p.fileLog())
	}
	return outputs.Traits{Snapshots: true, All: true}, nil
}

// Write implements outputs.Output. It handles starts and ends of spans like OnStart and
// OnEnd. It writes an event of an open span at once, as a metadata record whose name is
// the event's and whose value is its time in microseconds; without telemetry the events
// of a span are written when it ends. It repeats the losses of other outputs in the
// trace's end record.
func (p *Processor) Write(records []outputs.Record) error {
	if p == nil {
		return nil
	}
	for i := 0; i < len(records); i++ {
		switch r := &records[i]; r.Kind {
		case outputs.KindStart:
			p.start(r.Context, r.Snapshot)
		case outputs.KindStop:
			if p.traces.endSpan(r.Snapshot) {
				continue
			}
			n := 1 // spans that arrive together are placed together
			for i+n < len(records) && records[i+n].Kind == outputs.KindStop && p.traces.findSpan(records[i+n].Snapshot) == nil {
				n++
			}
			p.writeEnded(records[i : i+n])
			i += n - 1
		case outputs.KindEvent:
			p.event(r.Snapshot, &r.Event)
		case outputs.KindLosses:
			lost := r.Event.Attributes
			p.losses.Store(&lost)
		}
	}
	return nil
}

func (p *Processor) event(s sdktrace.ReadOnlySpan, e *outputs.Event) {
	if p.closed.Load() {
		return
	}
	d := p.traces
	in := d.open.find(s.SpanContext().SpanID())
	if in == nil {
		return
	}
	in.live.Add(1)
	level, _ := in.position()
	var stack [stackArgs]dftracer.Arg
	args := eventArgs(stack[:0], in.id, e.Name, time.Unix(0, e.Time).UnixMicro())
	for i := range e.Attributes {
		args = appendArg(args, &e.Attributes[i].KeyValue)
	}
	writeEvent(d.w, in.id, d.roots.tid(&in.open), level, args)
}

// scopes records the scopes of package ai that are not OpenTelemetry spans.
type scopes struct{ p *Processor }

// ScopeKind implements dispatch.Scopes.
func (s scopes) ScopeKind(category, name string) dispatch.ScopeKind {
	p := s.p
	p.scoped.Store(true)
	info, _ := vocab.ByEvent(category, name)
	return &kind{d: p.traces, key: dftracer.NewKey(vocab.SafeCategory(category), name), long: info.Long}
}

// EndScopes implements dispatch.Scopes.
func (s scopes) EndScopes() { s.p.endScopes() }

// fileLog returns the recorder of file calls, or nil if the options disable it.
func (p *Processor) fileLog() dispatch.FileLog {
	if p.files == nil {
		return nil
	}
	return p.files
}

// endScopes ends the open scopes before their parent spans end, and writes them as
// truncated. Later scopes are not recorded.
func (p *Processor) endScopes() {
	if !p.traces.cut.CompareAndSwap(false, true) {
		return
	}
	p.traces.endScopes()
	p.files.flush(0)
}

// Stats implements outputs.Output.
func (p *Processor) Stats() outputs.Stats {
	if p == nil {
		return outputs.Stats{}
	}
	s := p.traces.w.Stats()
	return outputs.Stats{File: outputs.FileStats{
		Output: "trace", Records: int64(s.Lines), Bytes: int64(s.DiskBytes), Lost: int64(s.Lost + s.Late),
		Errors: int64(s.Errors), Blocked: s.Blocked,
	}}
}
