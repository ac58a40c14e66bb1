package pfw

import (
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// endedSpans writes the spans whose start the Processor has not seen. They arrive after
// they have ended, in any order.
type endedSpans struct {
	first int64 // thread id of the first of their lanes

	mu  sync.Mutex
	asm *place.Assembler // nil until the first span

	// Reused buffers of one batch.
	spans  []place.Span
	args   []dftracer.Arg
	events []place.Event
}

// maxBatch is the maximum number of spans that are placed together.
const maxBatch = 4096

// writeEnded writes the spans of records. They may belong to several trees.
func (p *Processor) writeEnded(records []outputs.Record) {
	e := &p.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed.Load() { // Shutdown has written the last spans, or is about to
		return
	}
	if e.asm == nil {
		o := &p.traces.opts
		e.asm = place.New(p.traces.w, place.Options{TID: e.first, MaxWaiting: maxBatch, MaxParents: o.MaxParents, TraceIDs: o.TraceIDs})
	}
	for len(records) > 0 {
		n := min(len(records), maxBatch)
		if cap(e.spans) < n {
			e.spans = make([]place.Span, n)
		}
		spans := e.spans[:n]
		for i := range spans {
			e.convert(p.traces, &spans[i], records[i].Snapshot)
			if n == 1 {
				e.asm.Write(&spans[i])
			} else {
				e.asm.Add(&spans[i], time.Time{})
			}
		}
		e.asm.WriteAll()
		// Do not keep written spans alive.
		clear(e.args)
		clear(e.events)
		e.args, e.events = e.args[:0], e.events[:0]
		records = records[n:]
	}
}

// convert sets dst to the content of s.
func (e *endedSpans) convert(d *traceWriter, dst *place.Span, s sdktrace.ReadOnlySpan) {
	sc, parent := s.SpanContext(), s.Parent()
	dst.Key = place.Key{Trace: sc.TraceID(), Span: sc.SpanID()}
	dst.Parent = place.Key{}
	if parent.HasSpanID() && !parent.IsRemote() {
		dst.Parent = place.Key{Trace: parent.TraceID(), Span: parent.SpanID()}
	}
	dst.Start, dst.End = s.StartTime().UnixMicro(), s.EndTime().UnixMicro()

	from := len(e.args)
	e.args, dst.Name = d.appendSpan(e.args, s, -1, -1, false)
	if n := s.DroppedEvents(); n > 0 {
		e.args = append(e.args, dftracer.Int(place.ArgDroppedEvents, int64(n)))
	}
	dst.Args = e.args[from:len(e.args):len(e.args)]

	events := s.Events()
	from = len(e.events)
	for i := range events {
		ev := &events[i]
		first := len(e.args)
		for j := range ev.Attributes {
			e.args = appendEventArg(e.args, &ev.Attributes[j])
		}
		e.events = append(e.events, place.Event{Name: ev.Name, Time: ev.Time.UnixNano(), Args: e.args[first:len(e.args):len(e.args)]})
	}
	dst.Events = e.events[from:len(e.events):len(e.events)]
}

// finishEnded writes the parents that did not arrive, as far as they are known, and
// returns their number.
func (p *Processor) finishEnded() (unfinished int64) {
	e := &p.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asm == nil {
		return 0
	}
	e.asm.Finish()
	return e.asm.Counts().Unfinished
}
