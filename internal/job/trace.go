package job

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// readTraces reads the files of one group and returns their processes. It skips
// unreadable ones.
func (s *Set) readTraces(g *group, open func(*Process) Sink, skip func(path string, err error)) ([]*Process, error) {
	t := &traceReader{
		open: open, group: g, procs: make(map[Key]*traceProcess), hosts: make(map[string]string), paths: make(map[string]string),
		medians: make(map[string]int64), stopped: s.stopped, skip: skip, events: s.Events,
	}
	switch {
	case g.otlp:
		g.workers = s.workers()
	case len(s.traces) == 1:
		t.workers = s.workers()
	default:
		t.workers = 1 // several groups are read at a time
	}
	failed := t.all()
	if t.wrong && failed == nil {
		failed = errors.Join(t.reset(), t.all())
	}
	// Several goroutines may have parsed: they come in any order.
	slices.SortFunc(t.order, func(a, b *traceProcess) int { return compareKeys(a.key, b.key) })
	slices.SortFunc(g.extra, func(a, b *records) int { return ByTime(a.proc, b.proc) })
	for _, p := range t.order {
		t.unfinished(p)
	}
	for _, x := range g.extra {
		if p := t.procs[g.owner]; p != nil && p.sink != nil {
			p.supplement(x)
		}
	}
	var out []*Process
	for _, p := range t.order {
		t.nameFiles(p)
		p.Dropped += max(p.gaps, p.lost)
		p.Samples.settle()
		if name, ok := t.hosts[p.key.Host]; ok {
			p.Host = name
		}
		failed = errors.Join(failed, p.shut(p.sink))
		out = append(out, p.Process)
	}
	return out, failed
}

// all reads the files of the group.
func (t *traceReader) all() (failed error) {
	if t.group.otlp {
		return t.readExported()
	}
	for _, path := range t.group.paths {
		failed = errors.Join(failed, t.file(path))
	}
	return failed
}

// reset resets the reader to the state before any file was read, except for
// what it knows about their times. Receivers of raw events have them already.
func (t *traceReader) reset() (failed error) {
	for _, p := range t.order {
		failed = errors.Join(failed, p.sink.Close())
		*p.Process = *newProcess()
		p.raw, p.files, p.begun, p.ended, p.lastLoss, p.gaps, p.lost = nil, nil, nil, nil, 0, 0, 0
		clear(p.events)
		p.sink = nil
	}
	t.order, t.last = nil, nil
	return failed
}

// supplement adds what only the JSON lines of the same process have.
func (p *traceProcess) supplement(x *records) {
	from := x.proc
	p.Sources = append(p.Sources, from.Sources...)
	p.Heartbeats = p.Heartbeats || from.Heartbeats
	p.who.Add(from.who)
	p.applyEvidence()
	if p.appEnd == Unknown && p.fileEnd == Unknown && from.appEnd != Unknown {
		p.appEnd = from.appEnd
	}
	p.Bad, p.Torn = p.Bad+from.Bad, p.Torn || from.Torn // not Cut: the trace has what is missing in the lines
	p.widen(from.LastSeen)
	for i := range x.events {
		if !p.events[x.events[i].Name] {
			p.deliver(&x.events[i], p.sink)
		}
	}
}

// file reads one file. A job that is a single file is parsed by several
// goroutines; the sink still gets one call at a time.
func (t *traceReader) file(path string) error {
	touched := make(map[*traceProcess]bool)
	var last *traceProcess
	t.last = nil
	take := func(ev *dftracer.Event) {
		p := t.process(ev)
		if p != last && !touched[p] {
			touched[p] = true
			p.Sources = append(append(p.Sources, path), t.group.same[path]...)
		}
		if last = p; p.raw != nil {
			p.raw(ev)
		}
		t.take(p, ev)
	}
	median, known := t.medians[path]
	if t.times = filetime.New(time.Microsecond); known {
		t.times = filetime.With(time.Microsecond, median)
	}
	// For equal spans the order in the file decides how they nest.
	opts := &dftracer.ReaderOptions{Workers: t.workers, Concurrent: t.workers > 1 && t.events == nil}
	st, err := t.read(path, opts, take)
	if !known {
		median = t.times.Median()
		t.medians[path] = median
		t.wrong = t.wrong || !t.times.Right()
	}
	if t.exported != nil && last != nil {
		last.OtherSignals += int64(t.exported.takeSignals())
	}
	for p := range touched {
		p.Torn = p.Torn || st.Torn
		p.tear(path, st.Torn, st.Cause)
		p.Bad += st.Bad
		p.RelativeClock = p.RelativeClock || p.LastSeen != Unknown && median < earliest/micro
	}
	var unreadable *dftracer.LineError
	if err != nil && len(touched) == 0 && !errors.As(err, &unreadable) {
		t.skip(path, err) // it was renamed or removed since it was found, or cannot be opened
		return nil
	}
	return err
}

func (t *traceReader) read(path string, opts *dftracer.ReaderOptions, take func(*dftracer.Event)) (dftracer.ReadStats, error) {
	if t.exported != nil {
		return t.exported.read(path, func(ev *dftracer.Event) error {
			take(ev)
			return t.goOn()
		})
	}
	var mu sync.Mutex
	return dftracer.Scan(path, opts, func(ev *dftracer.Event) error {
		mu.Lock()
		defer mu.Unlock()
		take(ev)
		return t.goOn()
	})
}

// goOn calls Stop every few thousand events.
func (t *traceReader) goOn() error {
	if t.read4k++; t.read4k < 4096 {
		return nil
	}
	t.read4k = 0
	return t.stopped()
}

func (t *traceReader) process(ev *dftracer.Event) *traceProcess {
	key := t.group.key(ev)
	if p := t.last; p != nil && p.key == key {
		return p
	}
	p := t.procs[key]
	if p == nil || p.sink == nil {
		if p == nil {
			p = &traceProcess{Process: newProcess(), key: key, events: make(map[string]bool)}
		}
		p.PID, p.Host, p.Exported = key.PID, key.Host, t.group.otlp
		if key == t.group.owner {
			p.named(t.group.paths[0])
		}
		p.sink = t.open(p.Process)
		if t.events != nil && !t.wrong {
			p.raw = t.events(p.Process)
		}
		t.procs[key] = p
		t.order = append(t.order, p)
	}
	t.last = p
	return p
}

func (t *traceReader) take(p *traceProcess, ev *dftracer.Event) {
	switch {
	case ev.Phase == dftracer.PhaseMetadata:
		t.metadata(p, ev)
	case ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameStart:
		t.framed(p, ev.TS)
		p.note(ev)
	case ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameEnd:
		t.end(p, ev)
	case ev.Phase == dftracer.PhaseComplete:
		t.complete(p, ev)
	case ev.TS > 0 && t.noteHeartbeat(p, ev.TS):
		if ev.Cat == catResources {
			t.sample(p, ev)
		} else {
			t.fileCall(p, ev)
		}
	}
}

// end reads the last record of a file.
func (t *traceReader) end(p *traceProcess, ev *dftracer.Event) {
	proper, later := true, false // written later, by another program
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "recovered", tracefile.ArgEndUnknown:
			later = true
		case "continued":
			proper = false
		case tracefile.ArgLost:
			p.lost = max(p.lost, a.Int64()) // of the whole process, so far
		case "spans_lost", "spans_unfinished":
			p.Dropped += a.Int64()
		}
	}
	if later {
		return
	}
	if at := ev.End(); t.framed(p, at) && proper {
		p.fileEnd = max(p.fileEnd, at*micro)
	}
}

func (t *traceReader) metadata(p *traceProcess, ev *dftracer.Event) {
	key, value := ev.Meta()
	switch ev.Name {
	case tracefile.NameHostHash:
		t.hosts[value] = key
	case tracefile.NameFileHash:
		if len(t.paths) < 1<<17 {
			t.paths[value] = key
		}
	case tracefile.NameProcess:
		p.note(ev)
	case tracefile.NameCustom:
		t.custom(p, ev, key, value)
	}
}

func (t *traceReader) custom(p *traceProcess, ev *dftracer.Event, key, value string) {
	switch key {
	case keyHeartbeat:
		if us, err := strconv.ParseInt(value, 10, 64); err == nil && t.noteHeartbeat(p, us) {
			p.Heartbeats = true
		}
		return
	case tracefile.KeyFlushInterval:
		if us, err := strconv.ParseInt(value, 10, 64); err == nil && us > 0 && us <= mostFlush {
			p.Flush = max(p.Flush, us*1000)
		}
		return
	case tracefile.KeyEventsLost:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.gaps += n
		}
		return
	case tracefile.KeyDamaged:
		p.Cut = true
		return
	case tracefile.KeySpanBegin:
		t.begin(p, ev, value)
		return
	case FactInjected, FactCode, FactDataset, FactMissing, FactSampled:
		if p.Facts == nil {
			p.Facts = make(map[string]string)
		}
		p.Facts[key] = value // the last one is complete
		return
	}
	if group, ok := strings.CutPrefix(key, tracefile.KeyGroup); ok {
		p.member(group, value)
		return
	}
	p.note(ev)
	id, ok := ev.Arg(argSpan)
	us, err := strconv.ParseInt(value, 10, 64)
	if !ok && key != spans.EventError || err != nil || !t.noteHeartbeat(p, us) {
		return
	}
	e := &t.event
	*e = Event{Name: key, Time: us * 1000, Span: tracefile.Uint64(id), Step: Unknown, Through: Unknown}
	e.arguments(ev.Args)
	if len(p.events) < 1024 {
		p.events[key] = true
	}
	p.deliver(e, p.sink)
}

// member notes the first member of a process group from the list of its ranks.
func (p *Process) member(group, ranks string) {
	list, ok := strings.CutPrefix(ranks, "[")
	if !ok || len(p.Groups) >= mostGroups {
		return
	}
	first, err := strconv.Atoi(list[:strings.IndexAny(list+"]", ",]")])
	if err != nil || first < 0 {
		return
	}
	if p.Groups == nil {
		p.Groups = make(map[string]int)
	}
	p.Groups[group] = first
}

// mostGroups bounds the process groups of a process whose members are known.
const mostGroups = 1 << 14

// mostFlush bounds the recorded flush interval, in microseconds.
const mostFlush = int64(time.Hour / time.Microsecond)

// arguments sets the fields from an event's record.
func (e *Event) arguments(args []dftracer.Arg) {
	if e.Name == spans.EventError {
		e.failure = failure(e.Time, args)
		return
	}
	productive := Unknown
	for i := range args {
		a := &args[i]
		switch a.Key {
		case argIteration:
			e.Step = number(a)
		case argProductive:
			productive = number(a)
		case argIterations:
			e.Iterations = max(a.Int64(), 0)
		case argTook:
			e.Took = inSeconds(a.Float64())
		case argFinished:
			e.Finished = inSeconds(a.Float64())
		}
	}
	e.setSavedThrough(productive)
}

// inSeconds converts seconds to nanoseconds, impossible values to zero.
func inSeconds(s float64) int64 {
	if !(s > 0 && s < 9e9) {
		return 0
	}
	whole, part := math.Modf(s)
	return int64(whole)*1e9 + int64(math.Round(part*1e9))
}

// setSavedThrough sets which iterations a saved checkpoint has: those that were
// productive when it was saved or, without that, those before its step.
func (e *Event) setSavedThrough(productive int64) {
	if e.Name != spans.EventSaveCheckpointSuccess {
		return
	}
	switch {
	case productive >= 0:
		e.Through = productive - 1
	case e.Step >= 0:
		e.Through = e.Step - 1
	}
}

// traceReader converts trace files to spans and events, process by process.
type traceReader struct {
	open    func(*Process) Sink
	group   *group
	procs   map[Key]*traceProcess
	order   []*traceProcess
	hosts   map[string]string
	paths   map[string]string // of files, by hash
	times   *filetime.Judge   // of the current file
	medians map[string]int64  // of the times of files that are read again
	wrong   bool              // a file was not judged by the median of all its times
	stopped func() error
	skip    func(path string, err error)
	events  func(*Process) func(*dftracer.Event)
	// exported makes the events if the files are OTLP.
	exported *otlpReader
	read4k   int // events since the last check of stopped, which costs a lock
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
	events map[string]bool // names of the events in the trace
	files  map[string]*fileUse

	begun map[uint64]Span     // by ID, those without an end so far
	ended map[uint64]struct{} // IDs of ended spans, because an end may be read before its begin

	lastLoss int64 // when the last finite loss was

	gaps, lost int64 // missing lines: the sum of the recorded gaps, and the total of the end record, which has all of them
}

// maxBegun bounds the begins that wait for their ends.
const maxBegun = 1 << 14

// hold keeps an open span until its end is read, because the name may change at
// the end, when the program knows what it did. Above maxBegun the begin is
// delivered at once.
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

// mayBeRenamed reports whether spans of a class may have another name at their
// end.
func mayBeRenamed(c vocab.Class) bool {
	switch c {
	case vocab.ClassFrame, vocab.ClassStep, vocab.ClassBody, vocab.ClassEvaluation, vocab.ClassTesting:
		return true
	}
	return false
}

// settle removes the held begin of an ended span, and copies from it what the
// end does not repeat. A begin may be later than the span: a sender of OTLP
// reports it with an event of its own.
func (t *traceReader) settle(p *traceProcess, s *Span) {
	if t.workers > 1 && mayBeRenamed(s.Class) {
		if p.ended == nil {
			p.ended = make(map[uint64]struct{})
		}
		p.ended[s.ID] = struct{}{}
	}
	b, ok := p.begun[s.ID]
	if !ok || b.Start < s.Start || b.Start > s.End {
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

// unfinished delivers the open spans.
func (t *traceReader) unfinished(p *traceProcess) {
	for _, s := range slices.SortedFunc(maps.Values(p.begun), func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID)) }) {
		t.deliver(p, &s)
	}
	p.begun, p.ended = nil, nil
}

// noteHeartbeat notes a heartbeat, unless its time is impossible.
func (t *traceReader) noteHeartbeat(p *traceProcess, at int64) bool {
	if !t.has(p, at) {
		return false
	}
	p.widen(at * micro)
	return true
}

// framed is seen for framing records: no event is dropped with it.
func (t *traceReader) framed(p *traceProcess, at int64) bool {
	if at < 0 || at > lastMicro || !t.times.Has(at) {
		return false
	}
	p.widen(at * micro)
	return true
}

// has reports whether a time is possible; it counts impossible ones.
func (t *traceReader) has(p *traceProcess, at int64) bool {
	if at < 0 || at > lastMicro || !t.times.Has(at) {
		p.Aside++
		return false
	}
	return true
}

// isNear is has for another time of the same record.
func (t *traceReader) isNear(p *traceProcess, at int64) bool {
	if at < 0 || at > lastMicro || !t.times.Near(at) {
		p.Aside++
		return false
	}
	return true
}
