package telemetry

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
)

// tracePart is one of the traces of a run.
type tracePart struct {
	id     trace.TraceID // zero until its root has started
	seq    int           // in the order in which they began; negative: of a root span on its own
	window int64         // the epoch, or the number of the window of iterations; negative: none
	part   int           // how many traces of that window came before
	spans  atomic.Int64  // what span exporters are to get of it
}

// full tells whether the part has come to a limit; zero is no limit. The nil
// part is a trace of somebody else and never full.
func (p *tracePart) full(limit int64) bool { return limit > 0 && p != nil && p.spans.Load() >= limit }

// remembered bounds the parts that can be found by their id.
const remembered = 16

// runTraces spreads the spans of a run over traces. What a span belongs to is
// decided when it starts: below a span of the long kind it goes to the newest
// part, below any other to that one's part, so that an iteration is never torn
// apart; unless that part is full. Its parent then is in another trace, where
// the span has the id of its parent all the same: trace files and native
// records nest by span ids alone, and see no difference. Span exporters hang it
// under the parent's segment in the new trace (see filterProcessor).
//
// The fields below are guarded by the recorder's lock.
type runTraces struct {
	split  string
	window int64 // iterations
	soft   int64 // spans of a part from which the next one is begun; zero: no limit
	hard   int64 // spans of a part; the room above is for segments of long spans
	ids    sdktrace.IDGenerator

	key    int64 // the window of now; negative: none yet
	lap    int   // how often windows began again at a smaller number
	seq    int
	recent atomic.Pointer[[]*tracePart] // newest first; written under the lock
}

func newRunTraces(t config.Traces, worldSize int, ids sdktrace.IDGenerator) *runTraces {
	r := &runTraces{split: t.EffectiveSplit(), window: int64(t.EffectiveWindow()), ids: ids, key: -1}
	if share := int64(t.Share(worldSize)); share > 0 {
		r.soft, r.hard = share*3/4, share-8
	}
	if r.split == config.TracePerAttempt && r.soft == 0 {
		return nil
	}
	if g, ok := r.job(); ok {
		r.remember(&tracePart{id: g.job, window: -1})
	}
	return r
}

// current is the newest part, nil before there is one.
func (t *runTraces) current() *tracePart {
	if all := t.recent.Load(); all != nil {
		return (*all)[0]
	}
	return nil
}

// find finds a part by its id, nil if it is long past or not of this run.
func (t *runTraces) find(id trace.TraceID) *tracePart {
	if t == nil {
		return nil
	}
	if all := t.recent.Load(); all != nil {
		for _, p := range *all {
			if p.id == id {
				return p
			}
		}
	}
	return nil
}

func (t *runTraces) remember(p *tracePart) {
	all := []*tracePart{p}
	if before := t.recent.Load(); before != nil {
		all = append(all, (*before)[:min(len(*before), remembered-1)]...)
	}
	p.seq = t.seq
	t.seq++
	t.recent.Store(&all)
}

// next begins a part.
func (t *runTraces) next() *tracePart {
	p := &tracePart{window: t.key}
	if now := t.current(); now != nil && now.window == t.key {
		p.part = now.part + 1
	}
	if g, ok := t.job(); ok {
		p.id = g.partOf(p, t.lap)
	} else {
		p.id, _ = t.ids.NewIDs(context.Background())
	}
	t.remember(p)
	return p
}

// enter begins the part of a window, unless it is the one of now.
func (t *runTraces) enter(key int64) {
	if key < 0 || key == t.key {
		return
	}
	if key < t.key {
		t.lap++ // another loop: ids must not come again
	}
	t.key = key
	t.next()
}

// place chooses the part of a span that is about to start, and sets p.into to
// it where it is not the parent's. The recorder's lock is held.
func (r *Recorder) place(ctx context.Context, s *Span, p *startParams, exported bool) {
	t := r.traces
	switch {
	case s.index == indexEpoch && t.split == config.TracePerEpoch:
		t.enter(int64(p.step))
	case s.index == indexIteration && t.split == config.TracePerEpoch:
		t.enter(r.progress.Epoch())
	case s.index == indexIteration && t.split == config.TracePerWindow:
		t.enter(r.progress.Step() / t.window)
	}
	outside := trace.SpanContextFromContext(ctx)
	switch {
	case s.parent != nil:
		s.trace = s.parent.trace
		p.into = t.below(s.trace, isLong(s.parent.index))
	case outside.IsValid() && !p.root:
		s.trace = t.find(outside.TraceID())
		p.into = t.below(s.trace, false)
		if s.trace == nil && isLong(s.index) { // the run joins the trace of whoever started it
			s.trace = &tracePart{id: outside.TraceID(), seq: -1, window: t.key}
		}
	default:
		p.into = t.root()
	}
	if p.into != nil {
		s.trace = p.into
	}
	t.lead(s)
	if s.trace != nil && exported {
		s.trace.spans.Add(1)
	}
}

// lead makes the part of a span of the long kind the newest one, if it is not
// among those of the run yet.
func (t *runTraces) lead(s *Span) {
	if isLong(s.index) && s.trace != nil && s.trace.seq < 0 && s.trace.id.IsValid() {
		t.remember(s.trace)
	}
}

// below is the part of a span below one of the given part, if it is not the
// same.
func (t *runTraces) below(parent *tracePart, long bool) *tracePart {
	limit := t.hard
	if long {
		limit = t.soft
	}
	if parent == nil || !long && !parent.full(limit) {
		return nil
	}
	now := t.current()
	switch {
	case now.full(limit), now == nil && parent.full(limit):
		return t.next()
	case now == parent:
		return nil
	}
	return now
}

// root is the part of a span without a parent. Where every root span has a
// trace of its own, its id is not known yet.
func (t *runTraces) root() *tracePart {
	if _, ok := t.job(); !ok {
		return &tracePart{seq: -1, window: t.key}
	}
	now := t.current()
	if now.full(t.soft) {
		now = t.next()
	}
	return now
}

// job is the generator of ids that derive from the job, if that is in use.
func (t *runTraces) job() (*idGenerator, bool) {
	g, ok := t.ids.(*idGenerator)
	return g, ok && g.job.IsValid()
}

// started notes the trace in which a root span was started.
func (t *runTraces) started(s *Span) {
	if s.trace != nil && !s.trace.id.IsValid() {
		s.trace.id = s.data.TraceID
		t.lead(s)
	}
}

// elsewhere is the context for a span that the recorder does not keep.
func (r *Recorder) elsewhere(ctx context.Context) context.Context {
	parent := FromContext(ctx)
	if r.traces == nil || parent == nil || parent.rec != r {
		return ctx
	}
	r.mu.Lock()
	into := r.traces.below(parent.trace, isLong(parent.index))
	r.mu.Unlock()
	if into == nil {
		return ctx
	}
	return inTrace(ctx, into, false)
}

// rotate gives the part for the segments that begin now.
func (r *Recorder) rotate() *tracePart {
	if r.traces == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.traces.current()
	if now.full(r.traces.soft) {
		now = r.traces.next()
	}
	return now
}

func isLong(index int) bool { return index >= 0 && spans.At(index).Long }

// tracePartKey is the key of the part that a root span goes to, in the context
// of its start.
type tracePartKey struct{}

// inTrace is the context in which a span of another part than its parent's is
// started.
func inTrace(ctx context.Context, into *tracePart, root bool) context.Context {
	if !into.id.IsValid() {
		return ctx
	}
	parent := trace.SpanFromContext(ctx)
	if root || !parent.SpanContext().IsValid() {
		return context.WithValue(ctx, tracePartKey{}, into)
	}
	return trace.ContextWithSpan(ctx, &parentElsewhere{parent, parent.SpanContext().WithTraceID(into.id)})
}

// partIDs makes ids for the parts of a run.
type partIDs struct{ sdktrace.IDGenerator }

// NewIDs implements sdktrace.IDGenerator.
func (g partIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if p, ok := ctx.Value(tracePartKey{}).(*tracePart); ok {
		return p.id, g.NewSpanID(ctx, p.id)
	}
	return g.IDGenerator.NewIDs(ctx)
}

// parentElsewhere is a parent as it seems from another trace. It is only in
// the context of the start of a span.
type parentElsewhere struct {
	trace.Span
	as trace.SpanContext
}

// SpanContext implements trace.Span.
func (p *parentElsewhere) SpanContext() trace.SpanContext { return p.as }

// parentIn gives the parent that a context of the start of a span holds, and
// the identity under which it really is known.
func parentIn(ctx context.Context) (parent *Span, known trace.SpanContext) {
	carried := trace.SpanFromContext(ctx)
	if p, ok := carried.(*parentElsewhere); ok {
		carried = p.Span
	}
	if view, ok := carried.(*contextSpan); ok {
		parent = view.owner()
	}
	return parent, carried.SpanContext()
}
