package place

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// maxMarks bounds the events remembered per span. It exceeds the number of events that
// SDKs keep for a span.
const maxMarks = 256

// relativeSize is the approximate memory of a relative in bytes, including its map
// entry.
const relativeSize = 240

// relative is the index entry of a span. It exists once the span itself, a child or an
// event of it is written.
type relative struct {
	key        Key
	id         uint64
	done       bool      // the span itself was written
	touched    bool      // waits for announce
	start, end int64     // microseconds; until done, those of its children and events
	lane       int       // of the span, once done
	parent     *relative // nil until known
	marks      []mark    // of the newest written events
	begun      *begun    // from Begin, or nil
	announced  int64     // the start in the begin record that announce wrote, or 0

	next, prev *relative // neighbours in the list in
	in         *recent
}

// begun holds the arguments of Begin.
type begun struct {
	key   *dftracer.Key
	start int64
}

// extend extends the span over a child or an event.
func (r *relative) extend(start, end int64) {
	if r.end == 0 {
		r.start, r.end = start, end
		return
	}
	r.start, r.end = min(r.start, start), max(r.end, end)
}

func (r *relative) contains(start, end int64) bool { return r.start <= start && r.end >= end }

// marked reports whether an event is remembered as written.
func (r *relative) marked(m mark) bool { return slices.Contains(r.marks, m) }

// mark remembers a written event. Beyond maxMarks it forgets the oldest half.
func (f *spanIndex) mark(r *relative, m mark) {
	f.marks -= len(r.marks)
	if len(r.marks) >= maxMarks {
		r.marks = append(r.marks[:0], r.marks[maxMarks/2:]...)
	}
	r.marks = append(r.marks, m)
	f.marks += len(r.marks)
}

// spanIndex finds open and finished spans by key. It remembers at most limit of each,
// and forgets the least recently used one first.
type spanIndex struct {
	limit       int
	known       map[Key]*relative
	open, ended recent
	marks       int // number of marks of all relatives
}

func newSpanIndex(limit int) *spanIndex {
	return &spanIndex{limit: limit, known: make(map[Key]*relative)}
}

// recent is a linked list of relatives, most recently used first.
type recent struct {
	first, last *relative
	len         int
}

func (l *recent) push(r *relative) {
	r.in, r.next, r.prev = l, l.first, nil
	if l.first != nil {
		l.first.prev = r
	} else {
		l.last = r
	}
	l.first = r
	l.len++
}

// take removes a relative from its list, if any.
func (r *relative) take() {
	l := r.in
	if l == nil {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.in, r.next, r.prev = nil, nil, nil
	l.len--
}

// find returns the entry of a span, or nil, and marks it as recently used.
func (f *spanIndex) find(key Key) *relative {
	r := f.known[key]
	if r != nil && r.in != nil && r.prev != nil {
		l := r.in
		r.take()
		l.push(r)
	}
	return r
}

// expect adds an entry for a span that has not arrived. forgotten is the entry evicted
// for it, or nil.
func (f *spanIndex) expect(key Key, id uint64) (r, forgotten *relative) {
	if f.open.len >= f.limit {
		forgotten = f.oldestOpen()
	}
	r = &relative{key: key, id: id}
	f.known[key] = r
	f.open.push(r)
	return r, forgotten
}

// oldestOpen forgets and returns the least recently used open span.
func (f *spanIndex) oldestOpen() *relative {
	r := f.open.last
	f.forget(r)
	return r
}

// claim returns the entry of an expected span that is arriving, or nil. The entry is not
// evicted before arrived is called.
func (f *spanIndex) claim(key Key) *relative {
	r := f.known[key]
	if r == nil || r.done {
		return nil
	}
	r.take()
	return r
}

// arrived marks the entry of a span as done, after claim.
func (f *spanIndex) arrived(r *relative) {
	r.done, r.begun, r.touched = true, nil, false
	f.known[r.key] = r
	f.ended.push(r)
	f.keepEnded(f.limit)
}

// keepEnded forgets finished spans until at most limit are left.
func (f *spanIndex) keepEnded(limit int) {
	for f.ended.len > limit {
		oldest := f.ended.last
		f.forget(oldest)
		oldest.parent = nil
	}
}

// depths returns the depth of each span of list and of its known ancestors. Parents that
// form a cycle, which a sender can cause, do not make it loop.
func depths(list []*relative) map[*relative]int {
	depth := make(map[*relative]int, len(list))
	var way []*relative
	for _, r := range list {
		way = way[:0]
		for ; r != nil; r = r.parent {
			if _, known := depth[r]; known {
				break
			}
			depth[r] = 0
			way = append(way, r)
		}
		n := -1
		if r != nil {
			n = depth[r]
		}
		for len(way) > 0 {
			n++
			depth[way[len(way)-1]], way = n, way[:len(way)-1]
		}
	}
	return depth
}

func (f *spanIndex) forget(r *relative) {
	r.take()
	if f.known[r.key] == r {
		delete(f.known, r.key)
	}
	f.marks -= len(r.marks)
	r.marks = nil
}
