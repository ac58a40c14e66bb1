package dftracerexporter

import (
	"container/list"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/trainspan/trainspan/dftracer"
)

// spanKey identifies a span among all traces.
type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// maxMarks bounds the events of a span that are remembered. It is above the
// number of events that SDKs keep for a span.
const maxMarks = 256

// mark is an event of a span that was written.
type mark struct {
	name string
	time pcommon.Timestamp
}

// relative is what is remembered of a span after something of it was written:
// a child, an event, or itself.
type relative struct {
	key        spanKey
	id         uint64
	done       bool      // the span itself was written
	start, end int64     // microseconds; of its children and events until it is done
	parent     *relative // once it is known
	marks      []mark    // the newest events written
	begun      *begun    // what its start event said
	announced  int64     // the start that the file knows of a span that is open
	touched    bool      // announce it
	element    *list.Element
}

// begun is a span as it began.
type begun struct {
	key   *dftracer.Key
	start int64
}

// extend makes room for a child or an event.
func (r *relative) extend(start, end int64) {
	if r.end == 0 {
		r.start, r.end = start, end
		return
	}
	r.start, r.end = min(r.start, start), max(r.end, end)
}

// depth is how many spans above it are known.
func (r *relative) depth() (n int) {
	for p := r.parent; p != nil && n < maxClimb; p = p.parent {
		n++
	}
	return n
}

func (r *relative) contains(start, end int64) bool { return r.start <= start && r.end >= end }

func (r *relative) marked(m mark) bool {
	for i := range r.marks {
		if r.marks[i] == m {
			return true
		}
	}
	return false
}

func (r *relative) mark(m mark) {
	if len(r.marks) >= maxMarks {
		r.marks = append(r.marks[:0], r.marks[maxMarks/2:]...)
	}
	r.marks = append(r.marks, m)
}

// family finds spans by their keys: those that are still open and those that
// are done, each up to a limit; what was not asked for longest is forgotten.
type family struct {
	limit   int
	known   map[spanKey]*relative
	waiting *list.List // of *relative
	ended   *list.List // of *relative
}

func newFamily(limit int) *family {
	return &family{limit: limit, known: make(map[spanKey]*relative), waiting: list.New(), ended: list.New()}
}

// find gives what is known of a span, and keeps it from being forgotten.
func (f *family) find(key spanKey) *relative {
	r := f.known[key]
	if r != nil && r.element != nil {
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

// expect remembers a span that is to come. The one that is forgotten for it is
// returned, or nil.
func (f *family) expect(key spanKey, id uint64) (r, forgotten *relative) {
	if f.waiting.Len() >= f.limit {
		forgotten = f.waiting.Back().Value.(*relative)
		f.forget(forgotten)
	}
	r = &relative{key: key, id: id}
	f.known[key] = r
	r.element = f.waiting.PushFront(r)
	return r, forgotten
}

// claim gives what was expected of a span that is about to arrive, nil if
// nothing was. It is not forgotten before it has.
func (f *family) claim(key spanKey) *relative {
	r := f.known[key]
	if r == nil || r.done {
		return nil
	}
	if r.element != nil {
		f.waiting.Remove(r.element)
		r.element = nil
	}
	return r
}

// arrived notes that a span is done, after claim.
func (f *family) arrived(r *relative) {
	r.done, r.begun, r.touched = true, nil, false
	f.known[r.key] = r
	r.element = f.ended.PushFront(r)
	if f.ended.Len() > f.limit {
		oldest := f.ended.Back().Value.(*relative)
		f.forget(oldest)
		oldest.parent, oldest.marks = nil, nil
	}
}

func (f *family) forget(r *relative) {
	f.listOf(r).Remove(r.element)
	r.element = nil
	if f.known[r.key] == r {
		delete(f.known, r.key)
	}
}
