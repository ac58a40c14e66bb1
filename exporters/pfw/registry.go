package pfw

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

const (
	// spanSlots is the number of open spans that can be found without a lock; a power of
	// two.
	spanSlots = 512
	// laneSlots and depthSlots are the same for scopes. The slots of a lane fill one
	// cache line: goroutines that run at the same time have different lanes, so they do
	// not share cache lines.
	laneSlots, depthSlots = 64, 8
	// registryShards is the number of locked tables for the others; a power of two.
	registryShards = 32
)

// registry holds the open spans by span id, and the open scopes. The id of a span, or
// the lane and depth of a scope, select a slot. If the slot is taken, the entry goes to
// a table with a lock. Spans and scopes are registered until they are written, so that
// Shutdown knows what to wait for.
type registry struct {
	spans  [spanSlots]atomic.Pointer[spanEntry]
	scopes [laneSlots * depthSlots]atomic.Pointer[scopeEntry]

	others     atomic.Int64 // number of spans in moreSpans
	moreSpans  [registryShards]spanShard
	moreScopes [registryShards]scopeShard
}

type spanShard struct {
	mu   sync.Mutex
	open map[trace.SpanID]*spanEntry
}

type scopeShard struct {
	mu   sync.Mutex
	open map[*scopeEntry]struct{}
}

// spanSlot returns the slot of a span. Span ids are random: any of their bits are a good
// hash.
func (r *registry) spanSlot(id *trace.SpanID) *atomic.Pointer[spanEntry] {
	return &r.spans[binary.LittleEndian.Uint16(id[6:])&(spanSlots-1)]
}

func (r *registry) spanShard(id *trace.SpanID) *spanShard {
	return &r.moreSpans[id[5]&(registryShards-1)]
}

// add adds an open span under its id.
func (r *registry) add(e *spanEntry) {
	slot := r.spanSlot(&e.spanID)
	if slot.Load() == nil && slot.CompareAndSwap(nil, e) {
		return
	}
	r.others.Add(1)
	s := r.spanShard(&e.spanID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[trace.SpanID]*spanEntry)
	}
	s.open[e.spanID] = e
}

// find returns the open span with the given id, or nil.
func (r *registry) find(id trace.SpanID) *spanEntry {
	if e := r.spanSlot(&id).Load(); e != nil && e.spanID == id {
		if e.ended() {
			return nil
		}
		return e
	}
	if r.others.Load() == 0 {
		return nil
	}
	s := r.spanShard(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.open[id]; e != nil && !e.ended() {
		return e
	}
	return nil
}

// remove removes a written span. It is called once per span.
func (r *registry) remove(e *spanEntry) {
	if slot := r.spanSlot(&e.spanID); slot.Load() == e {
		slot.Store(nil)
		return
	}
	s := r.spanShard(&e.spanID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[e.spanID] == e {
		delete(s.open, e.spanID)
		r.others.Add(-1)
	}
}

// holdsSpan reports whether a span is still registered.
func (r *registry) holdsSpan(e *spanEntry) bool {
	if r.spanSlot(&e.spanID).Load() == e {
		return true
	}
	s := r.spanShard(&e.spanID)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[e.spanID] == e
}

// addScope adds a scope that began on lane tid.
func (r *registry) addScope(sc *scopeEntry, tid int64) {
	i := (tid&(laneSlots-1))*depthSlots + int64(sc.depth&(depthSlots-1))
	slot := &r.scopes[i]
	if slot.Load() == nil {
		sc.slotted = int16(i + 1) // before other goroutines see it
		if slot.CompareAndSwap(nil, sc) {
			return
		}
	}
	sc.slotted = -int16(tid & (registryShards - 1))
	s := &r.moreScopes[-sc.slotted]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*scopeEntry]struct{})
	}
	s.open[sc] = struct{}{}
}

// removeScope removes a scope. It is called once per scope.
func (r *registry) removeScope(sc *scopeEntry) {
	if sc.slotted > 0 {
		r.scopes[sc.slotted-1].Store(nil)
		return
	}
	s := &r.moreScopes[-sc.slotted]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, sc)
}

// holds reports whether a scope is still registered.
func (r *registry) holds(sc *scopeEntry) bool {
	if sc.slotted > 0 {
		return r.scopes[sc.slotted-1].Load() == sc
	}
	s := &r.moreScopes[-sc.slotted]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[sc]
	return open
}

// allSpans returns the spans that are open or being written.
func (r *registry) allSpans() []*spanEntry {
	var all []*spanEntry
	for i := range r.spans {
		if e := r.spans[i].Load(); e != nil {
			all = append(all, e)
		}
	}
	for i := range r.moreSpans {
		s := &r.moreSpans[i]
		s.mu.Lock()
		for _, e := range s.open {
			all = append(all, e)
		}
		s.mu.Unlock()
	}
	return all
}

// allScopes returns the scopes that are open or being written.
func (r *registry) allScopes() []*scopeEntry {
	var all []*scopeEntry
	for i := range r.scopes {
		if sc := r.scopes[i].Load(); sc != nil {
			all = append(all, sc)
		}
	}
	for i := range r.moreScopes {
		s := &r.moreScopes[i]
		s.mu.Lock()
		for sc := range s.open {
			all = append(all, sc)
		}
		s.mu.Unlock()
	}
	return all
}
