package pfw

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/dftracer"
)

// Exporter is a trace file. A telemetry builder is given one with any of
// WithExporter, WithSpanExporter and WithSpanProcessor; it gets everything that
// the program records, the moment it happens:
//
//	builder.WithExporter(pfw.New("trace.pfw.gz", nil))
//
// It is a span exporter for any OpenTelemetry program too:
//
//	sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New("trace.pfw.gz", nil)))
//
// There, spans are written as they come. A child that comes before its parent names
// it by an id that is given out there and then and kept for the parent. A
// child that ended after its parent hangs under the nearest ancestor that
// contains it. A parent that never comes, because it is open at the end or was
// dropped on the way, is written as the event "unfinished" around its
// children, with the argument truncated. Events have no level: it is not known
// before the parents are.
//
// It has to remember spans for that, see Options.MaxParents; a child that
// comes after its parent was forgotten gets an "unfinished" parent of its own.
//
// The methods are safe for concurrent use. A [Processor] shows more of a
// program that is killed and does not lose spans when it is busy.
type Exporter struct {
	path string
	opts Options

	mu     sync.Mutex
	w      *dftracer.Writer // nil until there is something to write
	live   *Processor       // once it is attached to telemetry
	keys   keyTable
	family *family
	lanes  endLanes
	closed bool
	err    error
}

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// New makes an exporter that creates the file at path, which may contain
// {rank}, {pid} and {host}, when the first spans come. An error in doing so is
// that of every ExportSpans.
func New(path string, o *Options) *Exporter {
	e := newExporter(o)
	e.path, e.opts.OwnWriter = path, true
	return e
}

// NewExporter makes an exporter over a writer, which Shutdown closes only if
// the options say so.
func NewExporter(w *dftracer.Writer, o *Options) *Exporter {
	e := newExporter(o)
	e.w = w
	return e
}

func newExporter(o *Options) *Exporter {
	opts := o.withDefaults()
	e := &Exporter{opts: opts, family: newFamily(opts.MaxParents)}
	e.keys.standard = standardKeys()
	e.lanes = endLanes{first: int64(os.Getpid()), waiting: func(id uint64) bool {
		_, expected := e.family.expected[id]
		return expected
	}}
	return e
}

// ExportSpans implements sdktrace.SpanExporter. It waits for the disk only if
// that is slower than the program.
func (e *Exporter) ExportSpans(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil || len(batch) == 0 {
		return e.err
	}
	if e.w == nil {
		if e.w, e.err = dftracer.Create(e.path, e.opts.Trace); e.err != nil {
			return e.err
		}
	}
	// A batch is in the order of ends. Where ends are equal, the one that began
	// later is the child.
	ordered := slices.Clone(batch)
	slices.SortStableFunc(ordered, func(a, b sdktrace.ReadOnlySpan) int {
		if c := a.EndTime().Compare(b.EndTime()); c != 0 {
			return c
		}
		return b.StartTime().Compare(a.StartTime())
	})
	for _, s := range ordered {
		e.export(s)
	}
	return nil
}

func (e *Exporter) export(s sdktrace.ReadOnlySpan) {
	start, end := s.StartTime().UnixMicro(), s.EndTime().UnixMicro()
	end = max(start, end)
	sc := s.SpanContext()
	self := e.family.find(spanKey{sc.TraceID(), sc.SpanID()})
	var below []int
	switch {
	case self == nil || self.done: // a span exported twice gets two ids
		self = &relative{key: spanKey{sc.TraceID(), sc.SpanID()}, id: e.w.NextID()}
	default:
		below = self.lanes
		// The clocks of parent and child may have been read apart.
		if self.start < start && start-self.start <= slack {
			start = self.start
		}
		if self.end > end && self.end-end <= slack {
			end = self.end
		}
	}
	parent := e.parentOf(s, start, end)
	self.parent = parent
	self.start, self.end = start, end
	parentID := dftracer.NoParent
	if parent != nil {
		parentID = int64(parent.id)
	}
	lane := e.lanes.place(self.id, parentID, start, end, below)
	if parent != nil && !parent.done {
		parent.born(lane, start, end)
	}
	e.family.arrived(self)
	e.write(s, dftracer.Span{
		ID: self.id, TID: e.lanes.tid(lane), TS: start, Dur: end - start, Parent: parentID,
	})
}

// parentOf finds the ancestor that a span is written under, nil for a root.
func (e *Exporter) parentOf(s sdktrace.ReadOnlySpan, start, end int64) *relative {
	sc := s.Parent()
	if !sc.HasSpanID() || sc.IsRemote() {
		return nil
	}
	key := spanKey{sc.TraceID(), sc.SpanID()}
	r := e.family.find(key)
	if r == nil {
		var forgotten *relative
		if r, forgotten = e.family.expect(key, e.w.NextID()); forgotten != nil {
			e.unfinished(forgotten)
		}
		return r
	}
	for r != nil && r.done && (r.start > start || r.end < end) {
		r = r.parent
	}
	return r
}

func (e *Exporter) write(s sdktrace.ReadOnlySpan, at dftracer.Span) {
	var stack [stackText]byte
	args, cat, event := appendSpan(stack[:0], s, s.Attributes())
	if n := s.DroppedEvents(); n > 0 {
		args = dftracer.AppendInt(args, argDroppedEv, int64(n))
	}
	if e.opts.TraceIDs {
		args = appendIDs(args, s)
	}
	e.w.WriteEncoded(e.keys.find(s.InstrumentationScope().Name, s.Name(), cat, event), at, args)
	events := s.Events()
	for i := range events {
		writeEvent(e.w, at.ID, at.TID, 0, &events[i])
	}
}

// unfinishedKey is the name of a parent that did not come.
var unfinishedKey = dftracer.NewKey(noScope, "unfinished")

// unfinished writes a parent that did not come.
func (e *Exporter) unfinished(r *relative) {
	lane := e.lanes.place(r.id, dftracer.NoParent, r.start, r.end, r.lanes)
	args := []dftracer.Arg{dftracer.Int(argTruncated, 1)}
	if e.opts.TraceIDs {
		args = append(args, dftracer.String(argTraceID, r.key.trace.String()), dftracer.String(argSpanID, r.key.span.String()))
	}
	e.w.WriteComplete(&unfinishedKey, dftracer.Span{
		ID: r.id, TID: e.lanes.tid(lane), TS: r.start, Dur: r.end - r.start, Parent: dftracer.NoParent,
	}, args...)
}

// Shutdown implements sdktrace.SpanExporter. It completes the file, and closes
// it unless it belongs to somebody else. An exporter that got no spans made no
// file.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live != nil {
		e.closed = true
		return e.live.Shutdown(ctx)
	}
	if e.closed || e.w == nil {
		e.closed = true
		return e.err
	}
	e.closed = true
	lost := 0
	for el := e.family.waiting.Back(); el != nil; el = el.Prev() {
		e.unfinished(el.Value.(*relative))
		lost++
	}
	if lost > 0 {
		e.w.SetEndArgs(dftracer.Int("spans_unfinished", int64(lost)))
	}
	last := e.w.FlushContext
	if e.opts.OwnWriter {
		last = e.w.CloseContext
	}
	e.err = errors.Join(e.err, last(ctx))
	return e.err
}
