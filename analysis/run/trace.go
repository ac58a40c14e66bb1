package run

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// Arguments of records that this package reads.
const (
	argStep       = "step"
	argIteration  = "current_iteration"
	argFirst      = "train_iterations_start"
	argProductive = "productive_train_iterations"
	argBackground = "background"
	argTruncated  = "truncated"
	argAttempt    = "attempt"
	argJobID      = "job_id"
	argSession    = "session_tag"
	argRank       = "rank"
	argWorldSize  = "world_size"
	argNode       = "node_name"
	argTokens     = "tokens"
	argSamples    = "samples"
	argGroup      = "pg"
	argGroupSize  = "group_size"
	argRole       = "role"
	argStage      = "pipeline_stage"
	argPPRank     = "pp_rank"
	argExperts    = "expert_group"
	argDevice     = "device_us"
	argDeviceComm = "device_comm_us"
	argLag        = "lag_us"
	catComm       = "comm"
)

// keyHeartbeat is the metadata of a sign of life: its value is the time in
// microseconds.
const keyHeartbeat = "heartbeat"

type catName struct{ cat, name string }

// standard gives the standard name of each pair of DFTracer category and name.
var standard = func() map[catName]string {
	m := make(map[catName]string)
	for _, info := range spans.All() {
		m[catName{info.Category, info.Event}] = info.Name
	}
	return m
}()

// training are the spans that only the process that trains has.
func training(name string) bool {
	info, ok := spans.Lookup(name)
	return ok && info.Name != spans.DataLoading && info.Name != spans.Application
}

// traceReader turns trace files into spans and events, process by process.
type traceReader struct {
	open    func(*Process) Sink
	group   *group
	procs   map[procKey]*traceProcess
	order   []*traceProcess
	hosts   map[string]string
	paths   map[string]string // of files, by hash
	scale   int64             // nanoseconds of one unit of time
	stopped func() error
	skip    func(path string, err error)
	events  func(*Process) func(*dftracer.Event)
	read4k  int // events since stopped was asked, which costs a lock
	// workers is how many goroutines parse a file.
	workers int
	span    Span
	event   Event
	last    *traceProcess
}

type procKey struct {
	host string
	pid  int64
}

type traceProcess struct {
	*Process
	key    procKey
	sink   Sink
	raw    func(*dftracer.Event)
	events map[string]bool // names of the events that the trace has
	files  map[string]*fileUse
}

// readTraces reads the files of one group and gives their processes. It skips
// those of which nothing can be read.
func (s *Set) readTraces(g *group, open func(*Process) Sink, skip func(path string, err error)) ([]*Process, error) {
	t := &traceReader{
		open: open, group: g, procs: make(map[procKey]*traceProcess), hosts: make(map[string]string), paths: make(map[string]string),
		scale: g.scale, stopped: s.stopped, skip: skip, events: s.Events,
	}
	if len(s.traces) == 1 {
		t.workers = s.workers()
	}
	var failed error
	for _, path := range g.paths {
		failed = errors.Join(failed, t.file(path))
	}
	if x := g.extra; x != nil && len(t.order) > 0 {
		t.order[0].supplement(x)
	}
	var out []*Process
	for _, p := range t.order {
		p.finish()
		t.nameFiles(p)
		if name, ok := t.hosts[p.key.host]; ok {
			p.Host = name
		}
		failed = errors.Join(failed, p.sink.Close())
		out = append(out, p.Process)
	}
	return out, failed
}

// supplement adds what only the JSON lines of the same process say.
func (p *traceProcess) supplement(x *records) {
	from := x.proc
	p.Sources = append(p.Sources, from.Sources...)
	p.Heartbeats = p.Heartbeats || from.Heartbeats
	p.identify(from)
	if p.appEnd == Unknown && p.fileEnd == Unknown && from.appEnd != Unknown {
		p.appEnd = from.appEnd
	}
	p.seen(from.LastSeen)
	for i := range x.events {
		if !p.events[x.events[i].Name] {
			p.sink.Event(&x.events[i])
		}
	}
}

// identify takes over what p does not know itself.
func (p *Process) identify(o *Process) {
	if !p.RankKnown && o.RankKnown {
		p.Rank, p.RankKnown = o.Rank, true
	}
	if !p.AttemptKnown && o.AttemptKnown {
		p.Attempt, p.AttemptKnown = o.Attempt, true
	}
	if p.Host == "" {
		p.Host = o.Host
	}
	if p.JobID == "" {
		p.JobID = o.JobID
	}
	if p.SessionTag == "" {
		p.SessionTag = o.SessionTag
	}
	p.WorldSize = max(p.WorldSize, o.WorldSize)
}

// file reads one file. A job that is a single file is parsed by several
// goroutines; the sink still gets one call at a time.
func (t *traceReader) file(path string) error {
	touched := make(map[*traceProcess]bool)
	t.last = nil
	take := func(ev *dftracer.Event) {
		p := t.process(ev)
		if !touched[p] {
			touched[p] = true
			p.Sources = append(append(p.Sources, path), t.group.same[path]...)
		}
		if p.raw != nil {
			p.raw(ev)
		}
		t.take(p, ev)
	}
	opts := &dftracer.ReaderOptions{NoHashes: true, Workers: t.workers}
	st, err := t.read(path, opts, take)
	for p := range touched {
		p.Torn = p.Torn || st.Torn
		p.Bad += st.Bad
	}
	var unreadable *dftracer.LineError
	if err != nil && len(touched) == 0 && !errors.As(err, &unreadable) {
		t.skip(path, err) // it was renamed or removed since it was found, or cannot be opened
		return nil
	}
	return err
}

func (t *traceReader) read(path string, opts *dftracer.ReaderOptions, take func(*dftracer.Event)) (dftracer.ReadStats, error) {
	if t.workers > 1 {
		var mu sync.Mutex
		return dftracer.Scan(path, opts, func(ev *dftracer.Event) error {
			mu.Lock()
			defer mu.Unlock()
			take(ev)
			return t.goOn()
		})
	}
	r, err := dftracer.OpenReader(path, opts)
	if err != nil {
		return dftracer.ReadStats{}, err
	}
	defer r.Close() //nolint:errcheck // only read
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Stats(), nil
		}
		if err != nil {
			return r.Stats(), err
		}
		take(ev)
		if err := t.goOn(); err != nil {
			return r.Stats(), err
		}
	}
}

// goOn asks every few thousand events whether reading is to go on.
func (t *traceReader) goOn() error {
	if t.read4k++; t.read4k < 4096 {
		return nil
	}
	t.read4k = 0
	return t.stopped()
}

func (t *traceReader) process(ev *dftracer.Event) *traceProcess {
	if p := t.last; p != nil && p.key.pid == ev.PID && p.key.host == ev.HostHash {
		return p
	}
	key := procKey{ev.HostHash, ev.PID}
	p := t.procs[key]
	if p == nil {
		p = &traceProcess{Process: newProcess(), key: key, events: make(map[string]bool)}
		p.PID, p.Host = ev.PID, ev.HostHash
		if len(t.order) == 0 && t.group.rank >= 0 {
			p.Rank, p.RankKnown = t.group.rank, true
		}
		p.sink = t.open(p.Process)
		if t.events != nil {
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
	case ev.Cat == dftracer.CatDFTracer && ev.Name == dftracer.NameStart:
		p.seen(ev.TS * t.scale)
		p.identity(ev)
	case ev.Cat == dftracer.CatDFTracer && ev.Name == dftracer.NameEnd:
		t.end(p, ev)
	case ev.Phase == dftracer.PhaseComplete:
		t.complete(p, ev)
	case ev.TS > 0:
		p.seen(ev.TS * t.scale)
		t.fileCall(p, ev)
	}
}

// identity reads who the process is from the arguments of a record.
func (p *Process) identity(ev *dftracer.Event) {
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case argAttempt:
			p.Attempt, p.AttemptKnown = int(a.Int64())+1, true
		case argJobID:
			p.JobID = a.Text()
		case argSession:
			p.SessionTag = a.Text()
		case argRank:
			p.Rank, p.RankKnown = int(a.Int64()), true
		case argWorldSize:
			p.WorldSize = max(p.WorldSize, int(a.Int64()))
		case argNode:
			p.Host = a.Text()
		case "ppid":
			p.ParentPID = a.Int64()
		}
	}
}

// end reads the last record of a file.
func (t *traceReader) end(p *traceProcess, ev *dftracer.Event) {
	proper := true
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "recovered", "continued":
			proper = false
		case "events_lost", "spans_lost", "spans_unfinished":
			p.Dropped += a.Int64()
		}
	}
	if _, recovered := ev.Arg("recovered"); recovered {
		return // written later, by somebody else
	}
	at := ev.End() * t.scale
	p.seen(at)
	if proper {
		p.fileEnd = max(p.fileEnd, at)
	}
}

func (t *traceReader) metadata(p *traceProcess, ev *dftracer.Event) {
	key, value := ev.Meta()
	switch ev.Name {
	case dftracer.NameHostHash:
		t.hosts[value] = key
	case dftracer.NameFileHash:
		if len(t.paths) < 1<<17 {
			t.paths[value] = key
		}
	case dftracer.NameProcess:
		if n, err := strconv.Atoi(value); err == nil && key == argRank {
			p.Rank, p.RankKnown = n, true
		}
	case dftracer.NameCustom:
		t.custom(p, ev, key, value)
	}
}

func (t *traceReader) custom(p *traceProcess, ev *dftracer.Event, key, value string) {
	switch key {
	case keyHeartbeat:
		if us, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.seen(us * 1000)
			p.Heartbeats = true
		}
		return
	case dftracer.KeyEventsLost:
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.Dropped += n
		}
		return
	case dftracer.KeySpanBegin:
		t.begin(p, ev, value)
		return
	}
	id, ok := ev.Arg("span")
	us, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil {
		return
	}
	e := &t.event
	*e = Event{Name: key, Time: us * 1000, Span: id.Uint64(), Step: Unknown, Through: Unknown}
	p.seen(e.Time)
	productive := Unknown
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case argIteration:
			e.Step = a.Int64()
		case argProductive:
			productive = a.Int64()
		}
	}
	e.through(productive)
	if key == spans.EventOneLoggerInitialization {
		p.identity(ev)
	}
	if len(p.events) < 1024 {
		p.events[key] = true
	}
	p.sink.Event(e)
}

// through says which iterations a saved checkpoint holds: those that were
// productive when it was saved or, without that, those before its step.
func (e *Event) through(productive int64) {
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
