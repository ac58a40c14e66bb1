// Package segment spreads the spans of a run over traces and cuts long spans
// into segments, so that a backend gets traces of a size that can be opened,
// and sees a training loop that lasts for weeks while it runs.
//
// A [Run] decides, when a span starts, in which trace it is; an [Exporter] is
// the output that brings the spans to one OpenTelemetry exporter, each below
// its parent in that trace.
package segment

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// part is one of the traces of a run.
type part struct {
	id     trace.TraceID
	seq    int          // in the order in which they began
	window int64        // the epoch, or the number of the window of iterations; negative: none
	number int          // how many traces of that window came before
	spans  atomic.Int64 // what span exporters are to get of it
}

// full reports whether the part has come to a limit; zero is no limit. The nil
// part is a trace of somebody else and never full.
func (p *part) full(limit int64) bool { return limit > 0 && p != nil && p.spans.Load() >= limit }

// remembered bounds the parts that can be found by their id.
const remembered = 16

// past is a part that is no longer remembered: nothing more goes there.
var past = func() *part {
	p := &part{seq: -1}
	p.spans.Store(math.MaxInt64 / 2)
	return p
}()

// Options are what a [Run] is made of.
type Options struct {
	Traces    config.Traces
	WorldSize int
	IDs       sdktrace.IDGenerator
	Progress  *outputs.Progress
	// Counted is the output whose spans count for the budget.
	Counted int
	// Job is the trace id of all root spans where ranks share their traces,
	// and PartID that of a part of it; both are zero elsewhere. lap counts how
	// often the windows began again at a smaller number.
	Job    trace.TraceID
	PartID func(lap int, window int64, number int) trace.TraceID
}

// Run spreads the spans of a run over traces. What a span belongs to is
// decided when it starts: below a span of the long kind it goes to the newest
// part, below any other to that one's part, so that an iteration is never torn
// apart; unless that part is full. Its parent then is in another trace, where
// the span has the id of its parent all the same: trace files and records nest
// by span ids alone, and see no difference. Exporters hang it under the
// parent's segment in the new trace.
//
// All methods are safe for concurrent use. A nil Run leaves spans where they
// are.
type Run struct {
	o      Options
	split  string
	window int64 // iterations
	soft   int64 // spans of a part from which the next one is begun; zero: no limit
	hard   int64 // spans of a part; the room above is for segments of long spans

	recent atomic.Pointer[[]*part] // newest first; written under the lock

	mu   sync.Mutex
	key  int64 // the current window; negative: none yet
	lap  int   // how often windows began again at a smaller number
	seq  int
	long map[trace.SpanID]bool // open long spans
}

// NewRun makes a run, nil where all that belongs to a root span is in one
// trace.
func NewRun(o Options) *Run {
	r := &Run{
		o: o, split: cmp.Or(o.Traces.Split, config.TracePerAttempt), window: windowOf(&o.Traces), key: -1,
		long: make(map[trace.SpanID]bool),
	}
	if share := Share(&o.Traces, o.WorldSize); share > 0 {
		r.soft, r.hard = share*3/4, share-8
	}
	if r.split == config.TracePerAttempt && r.soft == 0 {
		return nil
	}
	if o.Job.IsValid() {
		r.remember(&part{id: o.Job, window: -1})
	}
	return r
}

// current is the newest part, nil before there is one.
func (r *Run) current() *part {
	if all := r.recent.Load(); all != nil {
		return (*all)[0]
	}
	return nil
}

// find finds a part by its id, nil if it is long past or not of this run.
func (r *Run) find(id trace.TraceID) *part {
	if r == nil {
		return nil
	}
	if all := r.recent.Load(); all != nil {
		for _, p := range *all {
			if p.id == id {
				return p
			}
		}
	}
	return nil
}

// remember makes p the newest part. The lock is held, or nobody else knows r.
func (r *Run) remember(p *part) *part {
	all := []*part{p}
	if before := r.recent.Load(); before != nil {
		all = append(all, (*before)[:min(len(*before), remembered-1)]...)
	}
	p.seq = r.seq
	r.seq++
	r.recent.Store(&all)
	return p
}

// next begins a part. The lock is held.
func (r *Run) next() *part {
	p := &part{window: r.key}
	if now := r.current(); now != nil && now.window == r.key {
		p.number = now.number + 1
	}
	if r.o.Job.IsValid() {
		p.id = r.o.PartID(r.lap, p.window, p.number)
	} else {
		p.id, _ = r.o.IDs.NewIDs(context.Background())
	}
	return r.remember(p)
}

// enter begins the part of a window, unless it is the current one. The lock is
// held.
func (r *Run) enter(key int64) {
	if key < 0 || key == r.key {
		return
	}
	if key < r.key {
		r.lap++ // another loop: ids must not come again
	}
	r.key = key
	r.next()
}

// Place chooses the trace of a span that is about to start with ctx, which
// holds its parent, and gives the context to start it with. index is that of a
// standard span or -1, to are the outputs that get the span, and root reports that it
// has no parent whatever the context says.
func (r *Run) Place(ctx context.Context, index int, to filter.Set, root bool) context.Context {
	if r == nil {
		return ctx
	}
	carried := trace.SpanFromContext(ctx)
	parent := carried.SpanContext()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case index == epochIndex && r.split == config.TracePerEpoch, index == iterationIndex && r.split == config.TracePerEpoch:
		r.enter(r.o.Progress.Epoch())
	case index == iterationIndex && r.split == config.TracePerWindow:
		r.enter(r.o.Progress.Step() / r.window)
	}
	var in, into *part
	switch {
	case parent.IsValid() && !root:
		in = r.find(parent.TraceID())
		if _, ours := carried.(filter.Span); in == nil && ours && r.seq > remembered {
			in = past
		}
		into = r.partBelow(in, r.long[parent.SpanID()])
		if in == nil && isLong(index) { // the run joins the trace of whoever started it
			in = r.remember(&part{id: parent.TraceID(), window: r.key})
		}
	default:
		into = r.root()
	}
	if into != nil {
		in = into
	}
	if in != nil && in != past && to.Has(r.o.Counted) {
		in.spans.Add(1)
	}
	if into == nil {
		return ctx
	}
	return inTrace(ctx, into, root)
}

// partBelow is the part of a span below one of the given part, if it is not the
// same. The lock is held.
func (r *Run) partBelow(parent *part, long bool) *part {
	limit := r.hard
	if long {
		limit = r.soft
	}
	if parent == nil || !long && !parent.full(limit) {
		return nil
	}
	now := r.current()
	switch {
	case now.full(limit), now == nil && parent.full(limit):
		return r.next()
	case now == parent:
		return nil
	}
	return now
}

// root is the part of a span without a parent, nil where every root span has a
// trace of its own. The lock is held.
func (r *Run) root() *part {
	if !r.o.Job.IsValid() {
		return nil
	}
	if now := r.current(); !now.full(r.soft) {
		return now
	}
	return r.next()
}

// OnStart implements sdktrace.SpanProcessor. It notes a long span that has started,
// which leads the run into its trace, if that is not one of the run's yet.
func (r *Run) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if !isLong(spans.Index(s.Name())) {
		return
	}
	sc := s.SpanContext()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.long[sc.SpanID()] = true
	if r.find(sc.TraceID()) == nil {
		p := r.remember(&part{id: sc.TraceID(), window: r.key})
		if started := filter.Started(ctx); started != nil && started.Outputs().Has(r.o.Counted) {
			p.spans.Add(1)
		}
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (r *Run) OnEnd(s sdktrace.ReadOnlySpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.long, s.SpanContext().SpanID())
}

// ForceFlush implements sdktrace.SpanProcessor.
func (r *Run) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdktrace.SpanProcessor.
func (r *Run) Shutdown(context.Context) error { return nil }

// rotated returns the part for the segments that begin now.
func (r *Run) rotated() *part {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.current()
	if now.full(r.soft) {
		now = r.next()
	}
	return now
}

var (
	epochIndex     = spans.Index(spans.Epoch)
	iterationIndex = spans.Index(spans.TrainingIteration)
)

func isLong(index int) bool { return index >= 0 && spans.At(index).Long }

// partKey is the key of the part that a root span goes to, in the context of
// its start.
type partKey struct{}

// inTrace is the context in which a span of another part than its parent's is
// started.
func inTrace(ctx context.Context, into *part, root bool) context.Context {
	parent := trace.SpanFromContext(ctx)
	if root || !parent.SpanContext().IsValid() {
		return context.WithValue(ctx, partKey{}, into)
	}
	return trace.ContextWithSpan(ctx, &parentElsewhere{parent, parent.SpanContext().WithTraceID(into.id)})
}

// IDs makes ids for the parts of a run; others come from the generator.
func (r *Run) IDs(g sdktrace.IDGenerator) sdktrace.IDGenerator {
	if r == nil {
		return g
	}
	return partIDs{g}
}

type partIDs struct{ sdktrace.IDGenerator }

// NewIDs implements sdktrace.IDGenerator.
func (g partIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if p, ok := ctx.Value(partKey{}).(*part); ok {
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

// windowOf is the number of training iterations in one trace.
func windowOf(t *config.Traces) int64 {
	if t.Window <= 0 {
		return 1000
	}
	return int64(t.Window)
}

// Share is the most spans that one rank of a job of that many ranks may put into one
// trace; zero is no limit.
func Share(t *config.Traces, worldSize int) int64 {
	if t.Budget < 0 {
		return 0
	}
	return int64(max(config.MinTraceBudget, cmp.Or(t.Budget, 20_000)/max(1, worldSize)))
}
