package dftracer

import "sync"

// OpenSpan is the Writer's note about a span that is running. Put it into your
// own span object: it is linked into a list, so it must not be copied while it
// is tracked. The zero value is ready for use, and again after Untrack.
type OpenSpan struct {
	key  Key
	span Span

	home       *openList
	next, prev *OpenSpan
}

// openList holds running spans that have no begin record yet.
type openList struct {
	mu    sync.Mutex
	first *OpenSpan
	_     [48]byte
}

// openLists spreads the spans of busy goroutines; a power of two.
const openLists = 16

// Track notes that a span runs. If it still does at the next flush, the Writer
// writes its begin record, see Begin, so that a killed process shows it and
// Recover closes it. Short spans cost two short locks and leave no record.
// Nothing is kept of s.Dur.
func (w *Writer) Track(o *OpenSpan, key *Key, s Span) {
	if w == nil || o == nil || o.home != nil {
		return
	}
	l := &w.open[s.ID&(openLists-1)]
	o.key, o.span, o.home = *key, s, l
	l.mu.Lock()
	o.next = l.first
	if o.next != nil {
		o.next.prev = o
	}
	l.first = o
	l.mu.Unlock()
}

// Untrack ends Track. Call it before the span is written.
func (w *Writer) Untrack(o *OpenSpan) {
	if w == nil || o == nil || o.home == nil {
		return
	}
	l := o.home
	l.mu.Lock()
	l.remove(o)
	l.mu.Unlock()
	o.home, o.next, o.prev = nil, nil, nil
}

func (l *openList) remove(o *OpenSpan) {
	switch {
	case o.prev != nil:
		o.prev.next = o.next
	case l.first == o:
		l.first = o.next
	default:
		return // it has its begin record
	}
	if o.next != nil {
		o.next.prev = o.prev
	}
}

// beginTracked writes the begin records of the spans that run. The lock is
// held meanwhile, so that none of them ends before its record is written.
func (w *Writer) beginTracked() {
	for i := range w.open {
		l := &w.open[i]
		l.mu.Lock()
		for o := l.first; o != nil; {
			w.Begin(&Event{ID: o.span.ID, Name: o.key.name, Cat: o.key.cat, Type: o.key.typ, TID: o.span.TID, TS: o.span.TS,
				Level: o.span.Level, Parent: o.span.Parent})
			next := o.next
			o.next, o.prev = nil, nil
			o = next
		}
		l.first = nil
		l.mu.Unlock()
	}
}
