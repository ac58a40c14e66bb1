// Package segment distributes the spans of a run over several traces and cuts long spans
// into segments, so that the traces in a backend are small enough to open, and a
// training loop that lasts for weeks is visible while it runs.
//
// A [Run] decides in which trace a span is, when the span starts; an [Exporter] is the
// output that passes the spans to one OpenTelemetry exporter, each below its parent in
// that trace.
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
	seq    int          // order of creation
	window int64        // the epoch, or the number of the window of iterations; negative if none
	number int          // number of earlier traces of that window
	spans  atomic.Int64 // number of spans for exporters
}

// full reports whether the part has reached limit; zero means no limit. A nil part is a
// foreign trace and never full.
func (p *part) full(limit int64) bool { return limit > 0 && p != nil && p.spans.Load() >= limit }

// remembered is the number of parts that can be found by id.
const remembered = 16

// past represents all parts that are no longer remembered. It is full, so no span is
// added.
var past = func() *part {
	p := &part{seq: -1}
	p.spans.Store(math.MaxInt64 / 2)
	return p
}()

// Options configures a [Run].
type Options struct {
	Traces    config.Traces
	WorldSize int
	IDs       sdktrace.IDGenerator // the program's
	Random    sdktrace.IDGenerator // used if that panics
	Progress  *outputs.Progress
	// Counted is the index of the output whose spans count for the budget.
	Counted int
	// Job is the trace id of all root spans if ranks share their traces, and PartID
	// returns the trace id of a part; both are zero otherwise. lap is the number of
	// times that the windows restarted at a smaller number.
	Job    trace.TraceID
	PartID func(lap int, window int64, number int) trace.TraceID
}

// Run distributes the spans of a run over traces. The trace of a span is decided when it
// starts: a child of a long span goes to the newest part, any other child to its
// parent's part, so that an iteration is never split, unless that part is full. In that
// case the parent is in another trace, but the span keeps the span id of its parent:
// trace files and records nest by span ids alone and do not see the difference.
// Exporters put the span under the parent's segment in the new trace.
//
// All methods are safe for concurrent use. A nil Run does not change the trace of spans.
type Run struct {
	o      Options
	split  string
	window int64 // iterations
	soft   int64 // number of spans in a part at which the next part begins; zero means no limit
	hard   int64 // maximum number of spans in a part; the margin above is for segments of long spans

	recent atomic.Pointer[[]*part] // newest first; written with mu held

	mu   sync.Mutex
	key  int64 // the current window; negative before the first
	lap  int   // number of times that windows restarted at a smaller number
	seq  int
	ids  []trace.TraceID       // for the next parts
	long map[trace.SpanID]bool // open long spans
}

// NewRun returns a run, or nil if all spans under a root span stay in one trace.
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

// current returns the newest part, or nil before the first.
func (r *Run) current() *part {
	if all := r.recent.Load(); all != nil {
		return (*all)[0]
	}
	return nil
}

// find returns the part with a trace id, or nil if it is no longer remembered or not
// part of this run.
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

// remember makes p the newest part and returns it. r.mu must be held, unless r is not
// shared yet.
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

// lock locks r.mu with enough trace ids for two new parts. The generator is the program's:
// it may panic, and may start spans.
func (r *Run) lock(ctx context.Context) {
	r.mu.Lock()
	for !r.o.Job.IsValid() && len(r.ids) < 2 {
		r.mu.Unlock()
		id := r.newID(ctx)
		r.mu.Lock()
		r.ids = append(r.ids, id)
	}
}

// newID returns a trace id of the program's generator, or a random one if that panics.
func (r *Run) newID(ctx context.Context) (id trace.TraceID) {
	defer func() {
		if recover() != nil {
			id, _ = r.o.Random.NewIDs(ctx)
		}
	}()
	id, _ = r.o.IDs.NewIDs(ctx)
	return id
}

// next creates the next part. r.mu must be held by lock.
func (r *Run) next() *part {
	p := &part{window: r.key}
	if now := r.current(); now != nil && now.window == r.key {
		p.number = now.number + 1
	}
	if r.o.Job.IsValid() {
		p.id = r.o.PartID(r.lap, p.window, p.number)
	} else {
		p.id, r.ids = r.ids[0], r.ids[1:]
	}
	return r.remember(p)
}

// enter creates the first part of a window, unless it is the current window. r.mu must
// be held.
func (r *Run) enter(key int64) {
	if key < 0 || key == r.key {
		return
	}
	if key < r.key {
		r.lap++ // another loop: ids must not repeat
	}
	r.key = key
	r.next()
}

// Place chooses the trace of a span that is about to start with ctx, which holds its
// parent, and returns the context to start it with. index is that of a standard span or
// -1, to are the outputs that get the span, and root reports that it has no parent, even
// if ctx carries one.
func (r *Run) Place(ctx context.Context, index int, to filter.Set, root bool) context.Context {
	if r == nil {
		return ctx
	}
	carried := trace.SpanFromContext(ctx)
	parent := carried.SpanContext()
	r.lock(ctx)
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
		if in == nil && isLong(index) { // the run joins the trace of its parent process
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

// partBelow returns the part for a child of a span in parent, or nil if it stays in
// parent. long reports that the parent is a long span. r.mu must be held.
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

// root returns the part for a span without a parent, or nil if every root span gets a
// new trace. r.mu must be held.
func (r *Run) root() *part {
	if !r.o.Job.IsValid() {
		return nil
	}
	if now := r.current(); !now.full(r.soft) {
		return now
	}
	return r.next()
}

// Start records a long span that has started. If its trace is not a part of the run yet,
// it becomes the newest part. to are the outputs that get the span.
func (r *Run) Start(name string, sc trace.SpanContext, to filter.Set) {
	if r == nil || !isLong(spans.Index(name)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.long[sc.SpanID()] = true
	if r.find(sc.TraceID()) == nil {
		p := r.remember(&part{id: sc.TraceID(), window: r.key})
		if to.Has(r.o.Counted) {
			p.spans.Add(1)
		}
	}
}

// Stop forgets a span that has ended.
func (r *Run) Stop(id trace.SpanID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.long, id)
}

// OnStart implements sdktrace.SpanProcessor, for spans that are not the recorder's.
func (r *Run) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	r.Start(s.Name(), s.SpanContext(), 0)
}

// OnEnd implements sdktrace.SpanProcessor.
func (r *Run) OnEnd(s sdktrace.ReadOnlySpan) { r.Stop(s.SpanContext().SpanID()) }

// ForceFlush implements sdktrace.SpanProcessor.
func (r *Run) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdktrace.SpanProcessor.
func (r *Run) Shutdown(context.Context) error { return nil }

// rotated returns the part for segments that begin now.
func (r *Run) rotated() *part {
	if r == nil {
		return nil
	}
	r.lock(context.Background())
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

// partKey is the context key of the part that a root span goes to, in the context of its
// start.
type partKey struct{}

// inTrace returns the context for starting a span in a part other than its parent's.
func inTrace(ctx context.Context, into *part, root bool) context.Context {
	parent := trace.SpanFromContext(ctx)
	if root || !parent.SpanContext().IsValid() {
		return context.WithValue(ctx, partKey{}, into)
	}
	return trace.ContextWithSpan(ctx, &parentElsewhere{parent, parent.SpanContext().WithTraceID(into.id)})
}

// IDs returns a generator that uses the trace ids of the run's parts, and g for all
// other ids.
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

// parentElsewhere is a parent with the trace id of another trace. It is only in the
// context of the start of a span.
type parentElsewhere struct {
	trace.Span
	as trace.SpanContext
}

// SpanContext implements trace.Span.
func (p *parentElsewhere) SpanContext() trace.SpanContext { return p.as }

// windowOf returns the number of training iterations in one trace.
func windowOf(t *config.Traces) int64 {
	if t.Window <= 0 {
		return 1000
	}
	return int64(t.Window)
}

// Share returns the maximum number of spans that one rank of a job with worldSize ranks
// may put into one trace; zero means no limit.
func Share(t *config.Traces, worldSize int) int64 {
	if t.Budget < 0 {
		return 0
	}
	return int64(max(config.MinTraceBudget, cmp.Or(t.Budget, 20_000)/max(1, worldSize)))
}
