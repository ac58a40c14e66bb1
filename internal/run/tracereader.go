package run

import (
	"cmp"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/filetime"
	"github.com/trainspan/trainspan/internal/vocab"
)

// traceReader turns trace files into spans and events, process by process.
type traceReader struct {
	open    func(*Process) Sink
	group   *group
	procs   map[Key]*traceProcess
	order   []*traceProcess
	hosts   map[string]string
	paths   map[string]string // of files, by hash
	scale   int64             // nanoseconds of one unit of time
	latest  int64             // that nanoseconds can say, in units of time
	times   *filetime.Judge   // of the file that is read
	medians map[string]int64  // of the times of files that are read again
	wrong   bool              // a file was not judged by the median of all its times
	stopped func() error
	skip    func(path string, err error)
	events  func(*Process) func(*dftracer.Event)
	read4k  int // events since stopped was asked, which costs a lock
	// workers is how many goroutines parse a file.
	workers int
	names   vocab.Book
	span    Span
	event   Event
	last    *traceProcess
}

type traceProcess struct {
	*Process
	key    Key
	sink   Sink
	raw    func(*dftracer.Event)
	events map[string]bool // names of the events that the trace has
	files  map[string]*fileUse

	begun map[uint64]Span     // by ID, of which the end was not read yet
	ended map[uint64]struct{} // IDs of spans, where an end may be read before its begin
}

// maxBegun bounds the begins that wait for their ends.
const maxBegun = 1 << 14

// hold keeps a span that has begun until its end is read, because only the end says
// what it was: a program may call it otherwise when it knows what it did. Beyond
// maxBegun the begin is delivered at once.
func (t *traceReader) hold(p *traceProcess, s *Span) {
	if _, ended := p.ended[s.ID]; ended {
		return
	}
	if _, again := p.begun[s.ID]; !again && len(p.begun) >= maxBegun {
		t.deliver(p, s)
		return
	}
	if p.begun == nil {
		p.begun = make(map[uint64]Span)
	}
	p.begun[s.ID] = *s
}

// mayBeRenamed reports whether spans of a class may be called otherwise when they end.
func mayBeRenamed(c vocab.Class) bool {
	switch c {
	case vocab.ClassFrame, vocab.ClassStep, vocab.ClassBody, vocab.ClassEvaluation, vocab.ClassTesting:
		return true
	}
	return false
}

// settle takes the place of the begin of a span that has ended, and keeps from it what
// the end does not repeat.
func (t *traceReader) settle(p *traceProcess, s *Span) {
	if t.workers > 1 && mayBeRenamed(s.Class) {
		if p.ended == nil {
			p.ended = make(map[uint64]struct{})
		}
		p.ended[s.ID] = struct{}{}
	}
	b, ok := p.begun[s.ID]
	if !ok || b.Start != s.Start {
		return
	}
	delete(p.begun, s.ID)
	if b.Name != s.Name || b.Cat != s.Cat {
		return
	}
	s.Step, s.Within, s.Epoch, s.First, s.Tokens = max(s.Step, b.Step), max(s.Within, b.Within), max(s.Epoch, b.Epoch), max(s.First, b.First), max(s.Tokens, b.Tokens)
	s.Role, s.Group = cmp.Or(s.Role, b.Role), cmp.Or(s.Group, b.Group)
	s.Parent, s.Thread = cmp.Or(s.Parent, b.Parent), cmp.Or(s.Thread, b.Thread)
}

// unfinished delivers the spans that have begun and did not end.
func (t *traceReader) unfinished(p *traceProcess) {
	for _, s := range slices.SortedFunc(maps.Values(p.begun), func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID)) }) {
		t.deliver(p, &s)
	}
	p.begun, p.ended = nil, nil
}

// seen notes a sign of life, unless its time cannot be.
func (t *traceReader) seen(p *traceProcess, at int64) bool {
	if !t.has(p, at) {
		return false
	}
	p.seen(at * t.scale)
	return true
}

// framed is seen for a record of the trace itself: no event is set aside with it.
func (t *traceReader) framed(p *traceProcess, at int64) bool {
	if at < 0 || at > t.latest || !t.times.Has(at) {
		return false
	}
	p.seen(at * t.scale)
	return true
}

// has reports whether a time can be; it counts where not.
func (t *traceReader) has(p *traceProcess, at int64) bool {
	if at < 0 || at > t.latest || !t.times.Has(at) {
		p.Aside++
		return false
	}
	return true
}

// near is has for another time of the same record.
func (t *traceReader) near(p *traceProcess, at int64) bool {
	if at < 0 || at > t.latest || !t.times.Near(at) {
		p.Aside++
		return false
	}
	return true
}
