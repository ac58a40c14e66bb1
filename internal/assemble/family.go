package assemble

import (
	"container/list"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// maxMarks bounds the events of a span that are remembered. It is above the
// number of events that SDKs keep for a span.
const maxMarks = 256

// mark is an event of a span that was written.
type mark struct {
	name string
	time int64
}

// relative is what is remembered of a span after something of it was written:
// a child, an event, or itself.
type relative struct {
	key        Key
	id         uint64
	done       bool      // the span itself was written
	touched    bool      // announce it
	start, end int64     // microseconds; of its children and events until it is done
	parent     *relative // once it is known
	marks      []mark    // the newest events written
	begun      *begun    // what its begin said
	announced  int64     // the start that the file knows of a span that is open
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

// marked reports whether an event was noted.
func (r *relative) marked(m mark) bool { return slices.Contains(r.marks, m) }

// mark notes an event.
func (r *relative) mark(m mark) {
	if len(r.marks) >= maxMarks {
		r.marks = append(r.marks[:0], r.marks[maxMarks/2:]...)
	}
	r.marks = append(r.marks, m)
}

// family finds spans by their keys: those that are still open and those that
// are done, each up to a limit; what was not asked for longest is forgotten.
type family struct {
	limit int
	known map[Key]*relative
	open  *list.List // of *relative
	ended *list.List // of *relative
}

func newFamily(limit int) *family {
	return &family{limit: limit, known: make(map[Key]*relative), open: list.New(), ended: list.New()}
}

// find gives what is known of a span, and keeps it from being forgotten.
func (f *family) find(key Key) *relative {
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
	return f.open
}

// expect remembers a span that is to come. The one that is forgotten for it is
// returned, or nil.
func (f *family) expect(key Key, id uint64) (r, forgotten *relative) {
	if f.open.Len() >= f.limit {
		forgotten = f.oldestOpen()
	}
	r = &relative{key: key, id: id}
	f.known[key] = r
	r.element = f.open.PushFront(r)
	return r, forgotten
}

// oldestOpen forgets the open span that was not asked for longest.
func (f *family) oldestOpen() *relative {
	r := f.open.Back().Value.(*relative)
	f.forget(r)
	return r
}

// claim gives what was expected of a span that is about to arrive, nil if
// nothing was. It is not forgotten before it has.
func (f *family) claim(key Key) *relative {
	r := f.known[key]
	if r == nil || r.done {
		return nil
	}
	if r.element != nil {
		f.open.Remove(r.element)
		r.element = nil
	}
	return r
}

// arrived notes that a span is done, after claim.
func (f *family) arrived(r *relative) {
	r.done, r.begun, r.touched = true, nil, false
	f.known[r.key] = r
	r.element = f.ended.PushFront(r)
	f.keepEnded(f.limit)
}

// keepEnded forgets all but so many spans that are done.
func (f *family) keepEnded(limit int) {
	for f.ended.Len() > limit {
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
