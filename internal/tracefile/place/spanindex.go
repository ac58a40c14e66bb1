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

// relative is the index entry of a span. It exists from when the span, or a child or an
// event of it, arrives.
type relative struct {
	key        Key
	id         uint64    // in the file; 0 while only children wait
	span       *Span     // until it is written, once it has arrived
	below      *Span     // its first waiting child
	expected   bool      // a child or an event was written before the span itself
	done       bool      // the span itself was written
	forgotten  bool      // is no longer in the index
	spanned    bool      // start and end are known
	start, end int64     // microseconds; until done, those of its children and events
	lane       int       // of the span, once done
	parent     *relative // nil until known
	marks      []mark    // of the newest written events
	begun      *begun    // from Begin, or nil

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
	if !r.spanned {
		r.start, r.end, r.spanned = start, end, true
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

// spanIndex finds spans by key: those that wait or have waiting children, and those that
// are open, because a child or an event of them is written, or finished. Of open and of
// finished spans it remembers at most limit each, and forgets the least recently used
// one first.
type spanIndex struct {
	limit       int
	known       map[Key]*relative
	open, ended recent
	marks       int // number of marks of all relatives
}

// entry returns the entry of a span, which it makes if there is none.
func (f *spanIndex) entry(key Key) *relative {
	r := f.known[key]
	if r == nil {
		r = &relative{key: key}
		f.known[key] = r
	}
	return r
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

// use marks an entry as recently used.
func (r *relative) use() {
	if l := r.in; l != nil && r.prev != nil {
		r.take()
		l.push(r)
	}
}

// expect makes an entry that of an open span. forgotten is the entry evicted for it, or
// nil.
func (f *spanIndex) expect(r *relative, id uint64) (forgotten *relative) {
	if f.open.len >= f.limit {
		forgotten = f.oldestOpen()
	}
	r.id, r.expected = id, true
	f.open.push(r)
	return forgotten
}

// oldestOpen forgets and returns the least recently used open span.
func (f *spanIndex) oldestOpen() *relative {
	r := f.open.last
	f.forget(r)
	return r
}

// arrived marks a span as written.
func (f *spanIndex) arrived(r *relative) {
	r.done, r.begun, r.span = true, nil, nil
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

// forget removes the entry of an open or finished span. Its waiting children get a new
// one.
func (f *spanIndex) forget(r *relative) {
	r.take()
	r.forgotten = true
	delete(f.known, r.key)
	if r.below != nil {
		again := f.entry(r.key)
		again.below, r.below = r.below, nil
		for c := again.below; c != nil; c = c.next {
			c.over = again
		}
	}
	f.marks -= len(r.marks)
	r.marks = nil
}
