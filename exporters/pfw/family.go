package pfw

import (
	"container/list"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// spanKey identifies a span among all traces.
type spanKey struct {
	trace trace.TraceID
	span  trace.SpanID
}

// relative is what is remembered of a span: one that children named as their
// parent before it ended, or one that has ended.
type relative struct {
	key        spanKey
	id         uint64
	done       bool
	start, end int64 // of its children until it has ended, then its own
	lanes      []int // where its children are
	parent     *relative
	element    *list.Element
}

// maxLanes bounds the lanes that are tried for a parent.
const maxLanes = 4

// family finds spans by their keys, each kind up to a limit; those that were
// not asked for longest are forgotten.
type family struct {
	limit    int
	known    map[spanKey]*relative
	expected map[uint64]*relative // parents to come, by id
	waiting  *list.List           // of *relative: parents to come
	ended    *list.List           // of *relative
}

func newFamily(limit int) *family {
	return &family{
		limit: limit, known: make(map[spanKey]*relative), expected: make(map[uint64]*relative),
		waiting: list.New(), ended: list.New(),
	}
}

// find gives what is known of a span, and keeps it from being forgotten.
func (f *family) find(key spanKey) *relative {
	r := f.known[key]
	if r != nil {
		f.listOf(r).MoveToFront(r.element)
	}
	return r
}

func (f *family) listOf(r *relative) *list.List {
	if r.done {
		return f.ended
	}
	return f.waiting
}

// expect remembers a parent that is to come. The one that is forgotten for it
// is returned, or nil.
func (f *family) expect(key spanKey, id uint64) (r, forgotten *relative) {
	if f.waiting.Len() >= f.limit {
		forgotten = f.waiting.Back().Value.(*relative)
		f.forget(forgotten)
	}
	r = &relative{key: key, id: id}
	f.known[key] = r
	f.expected[id] = r
	r.element = f.waiting.PushFront(r)
	return r, forgotten
}

// arrived moves a span to those that have ended.
func (f *family) arrived(r *relative) {
	if r.element != nil {
		f.waiting.Remove(r.element)
		delete(f.expected, r.id)
	}
	r.done, r.lanes = true, nil
	f.known[r.key] = r
	r.element = f.ended.PushFront(r)
	if f.ended.Len() > f.limit {
		oldest := f.ended.Back().Value.(*relative)
		f.forget(oldest)
		oldest.parent = nil
	}
}

func (f *family) forget(r *relative) {
	f.listOf(r).Remove(r.element)
	delete(f.expected, r.id)
	if f.known[r.key] == r {
		delete(f.known, r.key)
	}
}

// born notes a child: where it is and when.
func (r *relative) born(lane int, start, end int64) {
	if len(r.lanes) == 0 {
		r.start, r.end = start, end
	}
	r.start, r.end = min(r.start, start), max(r.end, end)
	if len(r.lanes) < maxLanes && !slices.Contains(r.lanes, lane) {
		r.lanes = append(r.lanes, lane)
	}
}
