package pyring

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxHeld is how many spans of a process wait for the spans around them.
	maxHeld = 8192
	// flushEvery is how many spans are passed on before they are sent, if the
	// process that recorded them is gone: they come faster than any backend takes
	// them.
	flushEvery = 256
)

// relay passes the spans of a process to its provider, if that sends them: by
// default few, so that unsent spans cost almost nothing. A ring buffer has most
// spans only after their end, inner ones first. A span that is sent waits until
// everything around it is known: by its end, a begin slot, or after a while.
// The spans of callbacks come from their replay; their spans in the ring buffer
// only mark the place. A nil relay does nothing.
type relay struct {
	src    *source
	calls  *calls // nil before the first callback
	cfg    config.Config
	live   bool
	tel    *telemetry.Provider   // nil until there is something to send
	own    []*telemetry.Provider // providers made for spans alone
	failed bool
	clock  atomic.Int64
	ending atomic.Bool
	held   int
	sent   int // since the last flush
}

// newRelay returns nil if nothing is sent.
func newRelay(src *source, live bool) *relay {
	cfg, read := src.settings(config.Config{})
	if !read || !settings.OTLPActive(&cfg) || !cfg.EnableForCurrentRank.Or(true) {
		return nil
	}
	r := &relay{src: src, cfg: cfg, live: live}
	r.clock.Store(src.ring.Opened)
	return r
}

// sends reports whether spans with a name are sent.
func (r *relay) sends(n *node) bool {
	if n.asked == 0 {
		n.asked = 1
		if _, ok := settings.SentName(&r.cfg.Export, tracefile.KeyCat(n.key), tracefile.KeyName(n.key)); ok {
			n.asked = 2
		}
	}
	return n.asked == 2 && !r.called(n)
}

// called reports whether the spans with a name are those of callbacks, which
// their replay sends.
func (r *relay) called(n *node) bool {
	c := r.calls
	return n.calls && c != nil && (c.tel != nil || !c.opened)
}

// begun handles the begin slot of a span. What waits at its depth belongs to an
// earlier span whose end was lost.
func (r *relay) begun(t *thread, s *span, depth int) {
	if r == nil {
		return
	}
	if lost := r.take(t, depth, false); len(lost) > 0 {
		ctx, outer, ok := r.outerContext(t, depth)
		for i := range lost {
			r.place(ctx, t, &lost[i], outer, ok)
		}
	}
	r.began(t, s.node, s.start, depth, s.args)
}

// began handles an open span.
func (r *relay) began(t *thread, n *node, start int64, depth int, args []dftracer.Arg) {
	if r == nil {
		return
	}
	at, found := t.openAt(depth)
	if found && t.open[at].start == start && t.open[at].node == n {
		return
	}
	r.cut(t, at)
	r.pass(start)
	k := known{depth: depth, start: start, node: n, waits: r.sends(n)}
	if k.waits {
		k.attrs, _ = keyValues(args)
	}
	t.open = append(t.open, k)
	r.settle(t)
}

// cut forgets open spans from an index on: their ends were lost.
func (r *relay) cut(t *thread, from int) {
	end := r.src.last
	for i := range t.open[from:] {
		end = max(end, t.open[from+i].start)
	}
	for i := len(t.open) - 1; i >= from; i-- {
		if k := &t.open[i]; k.span != nil {
			k.span.SetAttributes(attribute.Int(attributes.Truncated, 1))
			k.span.End(trace.WithTimestamp(time.Unix(0, end)))
		}
	}
	clear(t.open[from:])
	t.open = t.open[:from]
}

// settle passes on waiting spans if everything around them is known.
func (r *relay) settle(t *thread) {
	for i := range t.open {
		k := &t.open[i]
		if !k.waits {
			continue
		}
		ctx, _, ok := r.outerContext(t, k.depth)
		if !ok {
			break
		}
		r.start(ctx, k)
	}
	if len(t.held) == 0 {
		return
	}
	held := t.held
	t.held = nil
	for _, w := range held {
		r.held -= w.size()
		ctx, at, ok := r.outerContext(t, w.depth+1)
		for i := range w.spans {
			r.place(ctx, t, &w.spans[i], at, ok)
		}
	}
}

// start starts an open span.
func (r *relay) start(ctx context.Context, k *known) {
	if kind := r.kind(k.node); kind != nil {
		k.ctx, k.span = kind(ctx, time.Unix(0, k.start), k.attrs...)
	}
	k.waits, k.attrs = false, nil
}

// outerContext returns the context for a depth: that of the nearest sent span
// around it. It returns false, and the depth, if something around it is
// unknown.
func (r *relay) outerContext(t *thread, depth int) (ctx context.Context, unknown int, ok bool) {
	for {
		if depth, _ = t.outerSpan(depth); depth == 0 {
			return context.Background(), 0, true
		}
		at, found := t.openAt(depth)
		switch {
		case !found || t.open[at].waits:
			return nil, depth, false
		case r.called(t.open[at].node): // the open span of the callbacks
			return context.Background(), 0, true
		case t.open[at].span != nil:
			return t.open[at].ctx, 0, true
		}
	}
}

// place passes a span on, or lets it wait.
func (r *relay) place(ctx context.Context, t *thread, s *relayed, at int, ok bool) {
	if ok {
		r.hand(ctx, s)
		return
	}
	i, found := slices.BinarySearchFunc(t.held, at, func(w waiting, depth int) int { return cmp.Compare(w.depth, depth) })
	if !found {
		t.held = slices.Insert(t.held, i, waiting{depth: at})
	}
	t.held[i].spans = append(t.held[i].spans, *s)
	r.held += s.size
}

// ended handles a span that ended at a depth, before nest does.
func (r *relay) ended(t *thread, s *span, depth int, crossed bool) {
	if r == nil {
		return
	}
	sends := r.sends(s.node)
	if !sends && len(t.held) == 0 && (len(t.open) == 0 || t.open[len(t.open)-1].depth < depth) {
		return
	}
	sent := relayed{node: s.node, start: s.start, end: s.end}
	if sends {
		sent.attrs, sent.failed = keyValues(s.args)
	}
	r.leaveSpan(t, &sent, sends, depth, crossed, false)
}

// dropped handles an open span that the program has dropped.
func (r *relay) dropped(t *thread, s *span, depth int, crossed bool) {
	if r != nil {
		r.leaveSpan(t, &relayed{node: s.node, start: s.start, end: s.end}, false, depth, crossed, true)
	}
}

// leaveSpan removes a span, and passes on what waits inside it.
func (r *relay) leaveSpan(t *thread, s *relayed, sends bool, depth int, crossed, dropped bool) {
	var k known
	if b, ok := t.known[s.start]; ok && b.depth != depth { // it was announced at a guessed depth
		if at, found := t.openAt(b.depth); found && t.open[at].is(s) {
			k = t.open[at]
			t.open = slices.Delete(t.open, at, at+1)
		}
	}
	at, found := t.openAt(depth)
	if inside := at; !crossed {
		if found {
			inside++
		}
		r.cut(t, inside)
	}
	if found {
		switch o := t.open[at]; {
		case o.is(s):
			k = o
		case o.span != nil: // its end was lost
			o.span.SetAttributes(attribute.Int(attributes.Truncated, 1))
			o.span.End(trace.WithTimestamp(time.Unix(0, max(s.start, o.start))))
		}
		t.open = slices.Delete(t.open, at, at+1)
	}
	below := r.take(t, depth, crossed)
	if k.span != nil {
		for i := range below {
			r.hand(k.ctx, &below[i])
		}
		if k.span.SetAttributes(s.attrs...); dropped {
			k.span.SetAttributes(attribute.Int(attributes.Truncated, 1))
		}
		r.end(k.span, s)
		return
	}
	ctx, outer, ok := context.Background(), 0, true
	if !r.called(s.node) { // otherwise below the open span of the callbacks
		ctx, outer, ok = r.outerContext(t, depth)
	}
	if sends {
		s.attrs, s.below, s.size = append(k.attrs, s.attrs...), below, 1
		for i := range below {
			s.size += below[i].size
		}
		below = []relayed{*s}
	}
	for i := range below {
		r.place(ctx, t, &below[i], outer, ok)
	}
	if r.held > maxHeld {
		r.src.limit("more than 8,192 spans of a Python process wait for their parents: further spans get other parents")
		r.release(t)
	}
}

// take returns what waits inside a depth.
func (r *relay) take(t *thread, depth int, crossed bool) (below []relayed) {
	t.held = slices.DeleteFunc(t.held, func(w waiting) bool {
		if w.depth != depth && (crossed || w.depth < depth) {
			return false
		}
		below, r.held = append(below, w.spans...), r.held-w.size()
		return true
	})
	return below
}

// hand starts and ends a span and the spans inside it.
func (r *relay) hand(ctx context.Context, s *relayed) {
	r.pass(s.end)
	kind := r.kind(s.node)
	if kind == nil {
		return
	}
	ctx, span := kind(ctx, time.Unix(0, s.start), s.attrs...)
	if span == nil {
		return
	}
	for i := range s.below {
		r.hand(ctx, &s.below[i])
	}
	r.end(span, s)
}

func (r *relay) end(span trace.Span, s *relayed) {
	if s.failed {
		span.SetStatus(codes.Error, "it ended with an exception")
	}
	span.End(trace.WithTimestamp(time.Unix(0, s.end)))
	r.flush(r.tel)
}

// flush sends what was passed on from time to time, if the process that
// recorded it is gone. It waits once for an unreachable backend.
func (r *relay) flush(tel *telemetry.Provider) {
	if r == nil || r.live {
		return
	}
	if r.sent++; r.sent < flushEvery {
		return
	}
	r.sent = 0
	err := tel.ForceFlush(context.Background())
	r.live = err != nil || tel.Stats().DroppedSpans > 0
}

// release passes on everything that waits on a thread, below what is known.
func (r *relay) release(t *thread) {
	above := context.Background()
	for i := range t.open {
		k := &t.open[i]
		if k.waits {
			r.start(above, k)
		}
		above = r.innerContext(above, k)
	}
	held := t.held
	t.held = nil
	for _, w := range held {
		r.held -= w.size()
		ctx := context.Background()
		for i := range t.open {
			if k := &t.open[i]; k.depth <= w.depth {
				ctx = r.innerContext(ctx, k)
			}
		}
		for i := range w.spans {
			r.hand(ctx, &w.spans[i])
		}
	}
}

// innerContext returns the context for spans inside an open span whose own
// context is outer.
func (r *relay) innerContext(outer context.Context, k *known) context.Context {
	switch {
	case r.called(k.node): // the open span of the callbacks
		return context.Background()
	case k.span != nil:
		return k.ctx
	}
	return outer
}

// kind returns the sender for spans with a name, or nil.
func (r *relay) kind(n *node) dispatch.Sender {
	if c := r.calls; c != nil && c.ended && r.tel == c.tel {
		r.tel = nil // for spans after the end of the application
	}
	if r.tel == nil && !r.failed {
		r.src.news() // updates the identity
		tel, err := r.src.provider(r.cfg, config.Config{}, &r.ending, func() time.Time { return time.Unix(0, r.clock.Load()) }, nil)
		if err != nil {
			r.failed = true
			r.src.log.Warn("cannot send the spans of a Python process", "error", err, "see", helptopic.Delivery)
			return nil
		}
		r.tel, r.own = tel, append(r.own, tel)
	}
	if n.sentBy != r.tel {
		n.sender, n.sentBy = dispatch.SourceOf(r.tel.TracerProvider()).Sender(tracefile.KeyCat(n.key), tracefile.KeyName(n.key)), r.tel
	}
	return n.sender
}

// identified notes that the rank is known: later spans are sent with that rank.
func (r *relay) identified() {
	if r != nil && slices.Contains(r.own, r.tel) {
		r.tel = nil
	}
}

// use sets the provider of the callbacks, and the program's export
// customization.
func (r *relay) use(tel *telemetry.Provider, export *config.Export, nodes map[uint32]*node) {
	if r == nil {
		return
	}
	r.tel, r.cfg.Export = tel, *export
	for _, n := range nodes {
		n.asked = 0
	}
}

// replays notes that the program uses callbacks.
func (r *relay) replays(c *calls) {
	if r != nil {
		r.calls = c
	}
}

// pass notes the current time.
func (r *relay) pass(now int64) {
	if r != nil {
		r.clock.Store(max(now, r.clock.Load()))
	}
}

// finish passes on everything that waits.
func (r *relay) finish(threads map[uint32]*thread) {
	if r == nil {
		return
	}
	r.pass(r.src.last)
	for _, t := range threads {
		r.settle(t)
		r.release(t)
		r.cut(t, 0) // the process's open spans
	}
}

// close ends the provider that was made for spans alone. Its losses are
// counted.
func (r *relay) close(ctx context.Context) {
	if r == nil {
		return
	}
	r.ending.Store(true)
	for _, tel := range r.own {
		_ = tel.Shutdown(ctx)
	}
}

// known is an open span with a known name.
type known struct {
	depth int
	start int64
	node  *node
	attrs []attribute.KeyValue
	waits bool            // what is around it is unknown so far
	ctx   context.Context // the context with it, if it is sent
	span  trace.Span
}

// is reports whether it is the span that ended.
func (k *known) is(s *relayed) bool { return k.start == s.start && k.node == s.node }

// openAt returns the index of the open span at a depth.
func (t *thread) openAt(depth int) (at int, found bool) {
	return slices.BinarySearchFunc(t.open, depth, func(k known, depth int) int { return cmp.Compare(k.depth, depth) })
}

// waiting holds ended spans inside an unknown one.
type waiting struct {
	depth int
	spans []relayed
}

func (w *waiting) size() (n int) {
	for i := range w.spans {
		n += w.spans[i].size
	}
	return n
}

// relayed is an ended span to be sent, with the spans inside it.
type relayed struct {
	node       *node
	start, end int64
	attrs      []attribute.KeyValue
	failed     bool
	below      []relayed
	size       int // the number of those, plus one
}

// keyValues returns a span's arguments as attributes, and whether it has
// failed.
func keyValues(args []dftracer.Arg) (kvs []attribute.KeyValue, failed bool) {
	kvs = make([]attribute.KeyValue, 0, len(args))
	for _, a := range args {
		key := attribute.Key(a.Key)
		switch tracefile.KindOf(a) {
		case tracefile.KindInt:
			kvs = append(kvs, key.Int64(a.Int64()))
		case tracefile.KindFloat:
			kvs = append(kvs, key.Float64(a.Float64()))
		default:
			if a.Key == place.ArgStatus {
				failed = true
				continue
			}
			kvs = append(kvs, key.String(a.Text()))
		}
	}
	return kvs, failed
}
