package run

import (
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
