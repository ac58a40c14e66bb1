package telemetry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/internal/record/phase"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

type spanState uint8

const (
	spanStarting spanState = iota
	spanOpen
	spanEnded
	spanRefused // never started
)

// Span is a span of the training run: the handle of a scope, and what the
// recorder's Start returns. A nil Span does nothing. All methods are safe for
// concurrent use.
//
// End ends it. There are two ways to record an error: defer sp.EndErr(&err)
// ends the span with the error that the function returns, and sp.Fail(err)
// records an error and leaves the span open. Both make the span a failure: a
// checkpoint is not saved, and an iteration does not count as completed.
//
// Every Span is an OpenTelemetry span too. The context that a start function
// returns carries it, so that spans started with the OpenTelemetry API below
// nest under it, and trace.SpanFromContext returns it.
type Span struct {
	embedded.Span // for the view of this span as a trace.Span, see contextSpan

	rec     *Recorder
	otel    trace.Span
	parent  *Span
	index   int          // spans.Index of its first name
	to      filter.Set   // the outputs that get it
	outside trace.SpanID // its parent, if that is not a span of the recorder

	base     context.Context // the context it was started with
	starting context.Context // the start context of OpenTelemetry, see startContext

	// The options for its start and its end in OpenTelemetry, which does not keep
	// them: here they need no extra memory.
	startOptions [1]trace.SpanStartOption
	endOptions   [1]trace.SpanEndOption

	// Guarded by the recorder's lock.
	data       outputs.SpanData
	state      spanState
	ambient    bool  // it is a parent for callbacks, without a context
	hook       bool  // it stands for an ambient scope of package ai
	scoped     bool  // it belongs to a scope
	settled    bool  // its status is Ok, which an error status does not change
	rare       *rare // nil: nothing
	prev, next *Span
	step       int64 // of a checkpoint save
}

// rare is what few spans have.
type rare struct {
	inner    error             // the latest error with which a span below ended
	last     *failure.Failure  // the latest error of the span itself
	erred    bool              // an error of the span itself is on record
	asOf     int64             // how many spans had started when the latest of these three was set
	failed   *failure.Failure  // the error with which the span ends if its end has none: of Fail, or of its status
	problem  error             // of telemetry with the span
	consumed spantree.Consumed // of a training iteration, set before its end
}

// rarely returns what few spans have, to be set. The lock is held.
func (s *Span) rarely() *rare {
	if s.rare == nil {
		s.rare = new(rare)
	}
	return s.rare
}

// failing returns what few spans have, to set an error. Errors from before the latest
// start of a span are dropped: the program continued after them. The lock is held.
func (s *Span) failing() *rare {
	r := s.rarely()
	if started := s.rec.tree.started; r.asOf != started {
		r.inner, r.last, r.erred, r.asOf = nil, nil, false, started
	}
	return r
}

// erred notes that an error of the span was recorded; f is nil if only its text is
// known. The lock is held.
func (s *Span) erred(f *failure.Failure) {
	r := s.failing()
	r.erred = true
	if f != nil {
		r.last = f
	}
}

// contextSpan is the view of a Span that contexts carry: the OpenTelemetry API
// for it, so that calls through that API reach the records too. After the end
// of a span its methods do nothing, as the API requires.
type contextSpan Span

func (c *contextSpan) owner() *Span { return (*Span)(c) }

var _ filter.Span = (*contextSpan)(nil)

// Outputs implements filter.Span.
func (c *contextSpan) Outputs() filter.Set { return c.to }

// Above implements filter.Span.
func (c *contextSpan) Above() filter.Span {
	if c.parent == nil {
		return nil
	}
	return (*contextSpan)(c.parent)
}

// Outside implements filter.Span.
func (c *contextSpan) Outside() trace.SpanContext {
	if c.parent != nil || !c.data.ParentID.IsValid() {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(c.rec.otel.joined(c.base))
}

// Ambient implements filter.Span.
func (c *contextSpan) Ambient() bool { return c.hook }

// Telemetry implements filter.Span.
func (c *contextSpan) Telemetry() *outputs.Telemetry { return c.rec.otel.offer }

// startContext is the context that OpenTelemetry starts a span with. It needs no memory
// of its own.
type startContext Span

// Value implements context.Context.
func (c *startContext) Value(key any) any {
	if key == (filter.StartedKey{}) {
		return (*contextSpan)(c)
	}
	return c.starting.Value(key)
}

// Deadline implements context.Context.
func (c *startContext) Deadline() (time.Time, bool) { return c.starting.Deadline() }

// Done implements context.Context.
func (c *startContext) Done() <-chan struct{} { return c.starting.Done() }

// Err implements context.Context.
func (c *startContext) Err() error { return c.starting.Err() }

// carryingContext is the context that a span was started with, with the span. It needs no
// memory of its own.
type carryingContext Span

// spanKey is the key under which OpenTelemetry looks for the span of a context. It is nil
// if OpenTelemetry does it in another way.
var spanKey = func() any {
	asked := keyProbe{Context: context.Background()}
	trace.SpanFromContext(&asked)
	if asked.times != 1 {
		return nil
	}
	return asked.key
}()

// keyProbe is a context that notes what it is asked for.
type keyProbe struct {
	context.Context
	key   any
	times int
}

// Value implements context.Context.
func (p *keyProbe) Value(key any) any {
	p.key = key
	p.times++
	return nil
}

// carrying returns the context that s was started with, with s as its span.
func (s *Span) carrying() context.Context {
	if spanKey == nil {
		return trace.ContextWithSpan(s.base, (*contextSpan)(s))
	}
	return (*carryingContext)(s)
}

// Value implements context.Context.
func (c *carryingContext) Value(key any) any {
	if key == spanKey {
		return (*contextSpan)(c)
	}
	return c.base.Value(key)
}

// Deadline implements context.Context.
func (c *carryingContext) Deadline() (time.Time, bool) { return c.base.Deadline() }

// Done implements context.Context.
func (c *carryingContext) Done() <-chan struct{} { return c.base.Done() }

// Err implements context.Context.
func (c *carryingContext) Err() error { return c.base.Err() }

// String implements fmt.Stringer, for contexts that print their parents.
func (c *carryingContext) String() string { return "telemetry.Span" }

// tree holds the open spans of a run. The recorder's lock guards it; only current
// is read without it.
type tree struct {
	first, last *Span                // in the order of their start
	byName      [spans.Count]*Span   // the standard span of each name, from before its start
	finalize    map[int64]*Span      // finalizations by step, from before their start
	current     atomic.Pointer[Span] // the latest ambient span

	started, open int64 // counts of spans
}

// reserve reserves the name of a standard span that is about to start.
func (t *tree) reserve(s *Span) {
	if s.index != phase.Finalization {
		t.byName[s.index] = s
		return
	}
	if t.finalize == nil {
		t.finalize = make(map[int64]*Span)
	}
	t.finalize[s.step] = s
}

// add adds a span to the open ones.
func (t *tree) add(s *Span) {
	s.state = spanOpen
	s.prev = t.last
	if t.last == nil {
		t.first = s
	} else {
		t.last.next = s
	}
	t.last = s
	if s.ambient {
		t.current.Store(s)
	}
	t.started++
	t.open++
}

// remove removes an ended span from the open ones.
func (t *tree) remove(s *Span) {
	s.state = spanEnded
	if s.prev == nil {
		t.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		t.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	if s.index >= 0 && t.byName[s.index] == s {
		t.byName[s.index] = nil
	}
	if s.index == phase.Finalization && t.finalize[s.step] == s {
		delete(t.finalize, s.step)
	}
	t.open--
	if t.current.Load() == s {
		latest := s.parent.nearest(func(a *Span) bool { return a.state == spanOpen && a.ambient })
		for a := t.last; latest == nil && a != nil; a = a.prev { // s was below a span of another process, for instance
			if a.ambient {
				latest = a
			}
		}
		t.current.Store(latest)
	}
}

// nearest returns the first of a span and its ancestors for which wanted
// returns true, or nil.
func (s *Span) nearest(wanted func(*Span) bool) *Span {
	for s != nil && !wanted(s) {
		s = s.parent
	}
	return s
}

// named returns the open standard span with that index.
func (t *tree) named(index int) (*Span, error) {
	if s := t.byName[index]; s != nil && s.state == spanOpen {
		return s, nil
	}
	return nil, spantree.NotOpen(index)
}

// isOpen reports whether the standard span with that index is open.
func (t *tree) isOpen(index int) bool {
	s := t.byName[index]
	return s != nil && s.state == spanOpen
}

// free checks that a standard span can start: that its name is free, and its
// timer does not run.
func (t *tree) free(p *startParams) error {
	open := t.byName[p.index] != nil
	switch {
	case p.index == phase.Finalization:
		if t.finalize[int64(p.step)] != nil {
			return fmt.Errorf("the finalization of the checkpoint of step %d is already active", p.step)
		}
	case p.byHand && phase.Timed(p.index) && !open:
		return fmt.Errorf("Timer for span %s is not active.", p.name)
	case open && !p.byHand && phase.Timed(p.index):
		return errTimerActive
	case open:
		return fmt.Errorf("Cannot start span %s while 1 span(s) with the same name is already active. "+
			"Please ensure the callback is called correctly.", p.name)
	}
	return nil
}

// withoutEnded returns ctx without the ended spans of rec that were put into it last. A
// loop that starts each span with the context of the one before needs no more memory and
// time for that.
func (t *tree) withoutEnded(ctx context.Context, rec *Recorder) context.Context {
	for {
		c, ours := ctx.(*carryingContext)
		if !ours || c.rec != rec || c.state != spanEnded {
			return ctx
		}
		ctx = c.base
	}
}

// list returns the open spans with a name in the order of their start; all open
// spans for the empty name.
func (t *tree) list(name string) (open []*Span) {
	for s := t.first; s != nil; s = s.next {
		if name == "" || s.data.Name == name {
			open = append(open, s)
		}
	}
	return open
}

// parentOf applies the rule of parents. An explicit parent has priority, unless its
// start was refused. A scope is a child of the span of its context; without one, of the
// latest ambient span. A callback is a child of the latest ambient span if that is below the span of
// its context, because programs that call callbacks often hold a single
// context. If the span of the context has ended, its nearest open ancestor
// replaces it, and the ended span is returned too.
func (t *tree) parentOf(rec *Recorder, carried trace.Span, p *startParams) (parent, ended *Span) {
	if p.parent.started() {
		return p.parent, nil
	}
	if p.index == phase.Finalization && t.isOpen(phase.Application) { // it outlives its save, and often the loop
		return t.byName[phase.Application], nil
	}
	current := t.current.Load()
	view, ours := carried.(*contextSpan)
	if !ours {
		outside := carried.SpanContext()
		if !outside.IsValid() {
			return current, nil
		}
		if p.ambient { // the foreign span below which callbacks have begun
			for a := current; a != nil; a = a.parent {
				if a.outside == outside.SpanID() {
					return current, nil
				}
			}
		}
		return nil, nil // the foreign span is the parent
	}
	in := view.owner()
	if in.rec != rec {
		return current, nil
	}
	if p.ambient {
		for a := current; a != nil; a = a.parent {
			if a == in {
				return current, nil
			}
		}
	}
	if in.state != spanEnded {
		return in, nil
	}
	open := in.parent.nearest(func(a *Span) bool { return a.state == spanOpen })
	if open == nil {
		open = current
	}
	return open, in
}
