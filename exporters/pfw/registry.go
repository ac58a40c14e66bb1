package pfw

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// registryShards spreads the open spans over locks; it is a power of two.
const registryShards = 32

// registry knows the open spans by their span id, and the open scopes.
type registry struct {
	spans  [registryShards]spanShard
	scopes [registryShards]scopeShard
}

type spanShard struct {
	mu   sync.Mutex
	open map[trace.SpanID]*spanEntry
	_    [48]byte
}

type scopeShard struct {
	mu    sync.Mutex
	first *scope
	_     [48]byte
}

// Span ids are random: any byte is a good hash.
func (r *registry) spanShard(id trace.SpanID) *spanShard {
	return &r.spans[id[7]&(registryShards-1)]
}

func (r *registry) add(id trace.SpanID, o *spanEntry) {
	s := r.spanShard(id)
	s.mu.Lock()
	if s.open == nil {
		s.open = make(map[trace.SpanID]*spanEntry)
	}
	s.open[id] = o
	s.mu.Unlock()
}

func (r *registry) find(id trace.SpanID) *spanEntry {
	s := r.spanShard(id)
	s.mu.Lock()
	o := s.open[id]
	s.mu.Unlock()
	return o
}

func (r *registry) remove(id trace.SpanID) *spanEntry {
	s := r.spanShard(id)
	s.mu.Lock()
	o := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	return o
}

// addScope adds a scope that began on a lane. Goroutines that run at the same
// time have different lanes and do not meet.
func (r *registry) addScope(sc *scope, tid int64) {
	sc.shard = uint8(tid & (registryShards - 1))
	s := &r.scopes[sc.shard]
	s.mu.Lock()
	sc.next = s.first
	if s.first != nil {
		s.first.prev = sc
	}
	s.first = sc
	s.mu.Unlock()
}

func (r *registry) removeScope(sc *scope) {
	s := &r.scopes[sc.shard]
	s.mu.Lock()
	if sc.prev == nil {
		s.first = sc.next
	} else {
		sc.prev.next = sc.next
	}
	if sc.next != nil {
		sc.next.prev = sc.prev
	}
	sc.prev, sc.next = nil, nil
	s.mu.Unlock()
}

// allSpans copies the table of open spans.
func (r *registry) allSpans() map[trace.SpanID]*spanEntry {
	all := make(map[trace.SpanID]*spanEntry)
	for i := range r.spans {
		s := &r.spans[i]
		s.mu.Lock()
		for id, o := range s.open {
			all[id] = o
		}
		s.mu.Unlock()
	}
	return all
}

func (r *registry) allScopes() []*scope {
	var all []*scope
	for i := range r.scopes {
		s := &r.scopes[i]
		s.mu.Lock()
		for sc := s.first; sc != nil; sc = sc.next {
			all = append(all, sc)
		}
		s.mu.Unlock()
	}
	return all
}
