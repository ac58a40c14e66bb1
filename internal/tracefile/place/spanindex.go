package place

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
)

// maxMarks bounds the events of a span that are remembered. It is above the
// number of events that SDKs keep for a span.
const maxMarks = 256

// relativeSize is what a relative takes, its place in the map of keys included.
const relativeSize = 240

// relative is what is remembered of a span after something of it was written:
// a child, an event, or itself.
type relative struct {
	key        Key
	id         uint64
	done       bool      // the span itself was written
	touched    bool      // announce it
	start, end int64     // microseconds; of its children and events until it is done
	lane       int       // of the span itself, once it is done
	parent     *relative // once it is known
	marks      []mark    // the newest events written
	begun      *begun    // what its begin said
	announced  int64     // the start that the file knows of a span that is open

	next, prev *relative // in the list that in names
	in         *recent
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

func (r *relative) contains(start, end int64) bool { return r.start <= start && r.end >= end }

// marked reports whether an event was noted.
func (r *relative) marked(m mark) bool { return slices.Contains(r.marks, m) }

// mark notes an event.
func (f *spanIndex) mark(r *relative, m mark) {
	f.marks -= len(r.marks)
	if len(r.marks) >= maxMarks {
		r.marks = append(r.marks[:0], r.marks[maxMarks/2:]...)
	}
	r.marks = append(r.marks, m)
	f.marks += len(r.marks)
}

// spanIndex finds spans by their keys: those that are still open and those that
// are done, each up to a limit; what was not asked for longest is forgotten.
type spanIndex struct {
	limit       int
	known       map[Key]*relative
	open, ended recent
	marks       int // of all relatives
}

func newSpanIndex(limit int) *spanIndex {
	return &spanIndex{limit: limit, known: make(map[Key]*relative)}
}

// recent is a list of relatives, the one asked for last in front.
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

// take takes a relative out of the list it is in, if any.
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

// find returns what is known of a span, and keeps it from being forgotten.
func (f *spanIndex) find(key Key) *relative {
	r := f.known[key]
	if r != nil && r.in != nil && r.prev != nil {
		l := r.in
		r.take()
		l.push(r)
	}
	return r
}

// expect remembers a span that is to come. The one that is forgotten for it is
// returned, or nil.
func (f *spanIndex) expect(key Key, id uint64) (r, forgotten *relative) {
	if f.open.len >= f.limit {
		forgotten = f.oldestOpen()
	}
	r = &relative{key: key, id: id}
	f.known[key] = r
	f.open.push(r)
	return r, forgotten
}

// oldestOpen forgets the open span that was not asked for longest.
func (f *spanIndex) oldestOpen() *relative {
	r := f.open.last
	f.forget(r)
	return r
}

// claim returns what was expected of a span that is about to arrive, nil if
// nothing was. It is not forgotten before it has.
func (f *spanIndex) claim(key Key) *relative {
	r := f.known[key]
	if r == nil || r.done {
		return nil
	}
	r.take()
	return r
}

// arrived notes that a span is done, after claim.
func (f *spanIndex) arrived(r *relative) {
	r.done, r.begun, r.touched = true, nil, false
	f.known[r.key] = r
	f.ended.push(r)
	f.keepEnded(f.limit)
}

// keepEnded forgets all but so many spans that are done.
func (f *spanIndex) keepEnded(limit int) {
	for f.ended.len > limit {
		oldest := f.ended.last
		f.forget(oldest)
		oldest.parent = nil
	}
}

// depths says of spans and of all that is known to be above them how deep they
// lie. A circle, which a sender can make, is cut where it is met.
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
