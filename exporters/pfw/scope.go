package pfw

import (
	"context"
	"strconv"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// kind is a category and name of scopes that are written directly to the file.
type kind struct {
	d    *traceWriter
	key  dftracer.Key
	long bool
}

// caller names the embedded context, so that a scope can have a method Context.
type caller = context.Context

// scope is a scope that is not an OpenTelemetry span. It is also the context that
// carries it, which saves an allocation.
type scope struct {
	scopeEntry
	caller // the context it was started with
}

// Start implements dispatch.ScopeKind.
func (k *kind) Start(ctx context.Context, args *dispatch.LiveArgs, o dispatch.ScopeStart) dispatch.Scope {
	d := k.d
	if d.cut.Load() {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s := &scope{scopeEntry: scopeEntry{kind: k, args: args, count: o.Count}, caller: ctx}
	long := k.long && !d.opts.NoBegin
	s.begun = long
	s.place(d.enclosing(ctx, &s.outer), d.clock.now(), o.Ambient)
	if d.cut.Load() { // Shutdown may have missed the scope
		if s.finish(&d.beginning) {
			s.revoke(long)
		}
		return nil
	}
	if long {
		d.whileOpen(&s.open, func() { d.beginScope(&s.scopeEntry) })
	}
	return s
}

// revoke removes a scope as if it was not started. If the watcher already wrote its
// begin, revoke writes the scope as truncated.
func (s *scope) revoke(long bool) {
	d := s.kind.d
	if s.begun && !long {
		d.writeScope(&s.scopeEntry, d.clock.now(), true)
		return
	}
	d.roots.end(&s.open, s.start)
	d.open.removeScope(&s.scopeEntry)
}

// place assigns the scope's id, parent and lane, and registers it.
func (s *scope) place(carried *open, start int64, ambient bool) {
	d := s.kind.d
	parent := d.ambient.innermost(carried, start)
	s.id = d.w.NextID()
	s.beginBelow(parent, start)
	tid := d.roots.begin(&s.open, parent)
	if ambient {
		d.ambient.enter(&s.open, parent)
	}
	if !d.scoped.Load() {
		d.scoped.Store(true)
	}
	d.open.addScope(&s.scopeEntry, tid)
}

// Record implements dispatch.ScopeKind.
func (k *kind) Record(ctx context.Context, args *dispatch.LiveArgs, count, start int64) {
	d := k.d
	if d.cut.Load() {
		return
	}
	at := d.leaf(ctx, start/1000, d.clock.now())
	s := scopeEntry{args: args, count: count} // only for its arguments
	var text [stackText]byte
	if text, ok := s.appendText(d, text[:0]); ok {
		d.w.WriteEncoded(&k.key, at, text)
		return
	}
	var stack [stackArgs]dftracer.Arg
	d.w.WriteComplete(&k.key, at, s.appendArgs(d, stack[:0])...)
}

// Now implements dispatch.ScopeKind.
func (k *kind) Now() int64 { return k.d.clock.nanoseconds() }

// enclosing returns the open span or scope around a new scope with context ctx, or nil.
// It sets outer to the innermost span of the context.
func (d *traceWriter) enclosing(ctx context.Context, outer *trace.SpanID) *open {
	if ctx == context.Background() { // carries no span
		return d.current(outer)
	}
	if sc, ok := ctx.(*scope); ok && sc.kind.d == d {
		*outer = sc.outer
		if o := sc.alive(); o != nil {
			return o
		}
	} else if span := trace.SpanContextFromContext(ctx); span.HasSpanID() {
		*outer = span.SpanID()
		if span.IsRemote() {
			return nil
		}
		if o := d.parentOf(ctx, span); o != nil {
			return o
		}
	} else if d.scoped.Load() {
		// The program may have added values to a scope's context.
		if sc, _ := ctx.Value(d).(*scopeEntry); sc != nil {
			*outer = sc.outer
			if o := sc.alive(); o != nil {
				return o
			}
		}
	}
	return d.current(outer)
}

// leaf returns the place of a scope or call that has ended and has no children. It is
// never in the registry.
func (d *traceWriter) leaf(ctx context.Context, start, end int64) dftracer.Span {
	var outer trace.SpanID
	var parent *open
	if ctx == nil {
		parent = d.current(&outer)
	} else {
		parent = d.enclosing(ctx, &outer)
	}
	parent = d.ambient.innermost(parent, start)
	for parent != nil && parent.start > start+crossing { // it began later, on another goroutine
		parent = parent.openAncestor()
	}
	if parent != nil {
		start = max(start, parent.start)
	}
	end = max(end, start)
	at := dftracer.Span{ID: d.w.NextID(), TS: start, Dur: end - start}
	at.TID = d.roots.leaf(parent, start, end)
	at.Level, at.Parent = parent.levelAndParent(end)
	return at
}

// Note implements dispatch.ScopeKind.
func (k *kind) Note(_ context.Context, key string) {
	d := k.d
	if !d.cut.Load() {
		tracefile.WriteCustom(d.w, key, strconv.FormatInt(d.clock.now(), 10))
	}
}

// Value implements context.Context. The key d returns the innermost scope of the
// traceWriter d.
func (s *scope) Value(key any) any {
	if d, ok := key.(*traceWriter); ok && d == s.kind.d {
		return &s.scopeEntry
	}
	return s.caller.Value(key)
}

// String implements fmt.Stringer, for contexts that print their parents.
func (s *scope) String() string { return "pfw.scope(" + tracefile.KeyName(s.kind.key) + ")" }

// maxExtra bounds the arguments of one scope.
const maxExtra = 512

// ownArgs are the arguments of one scope. They are immutable.
type ownArgs struct {
	attrs []attribute.KeyValue
	over  int // number of dropped arguments
}

// none are the arguments of a scope without arguments of its own.
var none ownArgs

// extra returns the scope's own arguments.
func (s *scopeEntry) extra() *ownArgs {
	if own := s.own.Load(); own != nil {
		return own
	}
	return &none
}

// set sets arguments of the scope. It does nothing after the scope has ended.
func (s *scopeEntry) set(attrs []attribute.KeyValue) {
	if len(attrs) == 0 || s.ended() {
		return
	}
	for {
		old := s.own.Load()
		next := &ownArgs{attrs: attrs[:1:1]} // a single attribute cannot repeat a key
		if old != nil || len(attrs) > 1 {
			next = s.extra().with(attrs)
		}
		if s.own.CompareAndSwap(old, next) {
			return
		}
	}
}

// with returns the arguments with attrs added or replaced. It drops and counts the
// excess over maxExtra.
func (o *ownArgs) with(attrs []attribute.KeyValue) *ownArgs {
	next := &ownArgs{attrs: o.attrs, over: o.over}
	copied := false
	for _, kv := range attrs {
		if len(next.attrs) >= maxExtra && !has(next.attrs, kv.Key) {
			next.over++
			continue
		}
		if !copied {
			next.attrs = append(make([]attribute.KeyValue, 0, min(len(o.attrs)+len(attrs), maxExtra)), o.attrs...)
			copied = true
		}
		next.attrs = upsert(next.attrs, kv)
	}
	return next
}

// upsert sets an attribute. It may modify attrs.
func upsert(attrs []attribute.KeyValue, kv attribute.KeyValue) []attribute.KeyValue {
	for i := range attrs {
		if attrs[i].Key == kv.Key {
			attrs[i] = kv
			return attrs
		}
	}
	return append(attrs, kv)
}

// current returns the arguments that the scope shares with others of its kind, or nil.
func (s *scopeEntry) current() *dispatch.ScopeArgs {
	if s.args == nil {
		return nil
	}
	return s.args.Load()
}

// arguments returns the scope's own arguments, those of its kind, and epoch and step (-1
// if unknown or among the arguments).
func (s *scopeEntry) arguments(d *traceWriter) (extra, shared []attribute.KeyValue, epoch, step int64) {
	args := s.current()
	epoch, step = d.standing(args)
	if args != nil {
		shared = args.Attrs
	}
	extra = s.extra().attrs
	epoch, step = missingProgress(epoch, step, extra)
	epoch, step = missingProgress(epoch, step, shared)
	return extra, shared, epoch, step
}

// appendText is appendArgs in encoded form. ok is false if the keys do not allow that.
func (s *scopeEntry) appendText(d *traceWriter, dst []byte) (text []byte, ok bool) {
	if s.extra().over > 0 {
		return nil, false
	}
	names := &d.args
	extra, shared, epoch, step := s.arguments(d)
	dst = appendProgressText(dst, epoch, step)
	if s.count > 0 && !has(extra, argCount) {
		dst = appendInt(dst, textCount, s.count)
	}
	for i := range shared {
		kv := &shared[i]
		if has(extra, kv.Key) || s.count > 0 && kv.Key == argCount {
			continue
		}
		if dst, ok = names.appendPlain(dst, kv); !ok {
			return nil, false
		}
	}
	for i := range extra {
		if dst, ok = names.appendPlain(dst, &extra[i]); !ok {
			return nil, false
		}
	}
	return dst, true
}

// appendArgs appends the arguments of the scope. Its own take precedence over those of
// its kind.
func (s *scopeEntry) appendArgs(d *traceWriter, dst []dftracer.Arg) []dftracer.Arg {
	extra, shared, epoch, step := s.arguments(d)
	if epoch >= 0 {
		dst = append(dst, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 {
		dst = append(dst, dftracer.Int(attributes.Step, step))
	}
	if s.count > 0 && !has(extra, argCount) {
		dst = append(dst, dftracer.Int(argCount, s.count))
	}
	for i := range shared {
		kv := &shared[i]
		if !has(extra, kv.Key) && !(s.count > 0 && kv.Key == argCount) {
			dst = appendArg(dst, kv)
		}
	}
	for i := range extra {
		dst = appendArg(dst, &extra[i])
	}
	if n := s.extra().over; n > 0 {
		dst = append(dst, dftracer.Int(place.ArgDroppedAttributes, int64(n)))
	}
	return dst
}

var _ dispatch.Scope = (*scope)(nil)

// Context implements dispatch.Scope.
func (s *scope) Context() context.Context { return s }

// Set implements dispatch.Scope.
func (s *scope) Set(attrs []attribute.KeyValue) { s.set(attrs) }

// Fail implements dispatch.Scope.
func (s *scope) Fail(err error) {
	if s.ended() {
		return
	}
	s.set([]attribute.KeyValue{
		attribute.String(place.ArgStatus, place.StatusError), attribute.String(place.ArgStatusDescription, failure.Text(err)),
	})
}

// End implements dispatch.Scope.
func (s *scope) End() {
	if s.finish(&s.kind.d.beginning) {
		s.kind.d.writeScope(&s.scopeEntry, s.kind.d.clock.now(), false)
	}
}

// Abandon implements dispatch.Scope.
func (s *scope) Abandon() {
	if s.finish(&s.kind.d.beginning) {
		s.kind.d.writeScope(&s.scopeEntry, s.kind.d.clock.now(), true)
	}
}
