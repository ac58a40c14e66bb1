package read

import (
	"maps"
	"sync"

	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/filetime"
	runs "github.com/trainspan/trainspan/internal/run"
)

// Tally is what info and index know of a file.
type Tally struct {
	Lines, Text, Bad           int64
	Events, Counters, Metadata int64
	Start, End                 int64
	Lost                       int64
	Categories                 map[string]int64
	Torn                       bool

	cause     string
	damagedAt int64 // byte of the file
	firstBad  string
	ended     bool // an end record was seen
	part      bool // continues another file
	repaired  bool // by recover
	Aligned   bool // every member ends on a line end

	metadata bool // metadata was seen, so that the dialect is sure
	dialect  dftracer.Dialect

	who   *sharedTracker
	judge *filetime.Judge // of the whole file; a chunk has the times instead
	times []stretch
	Aside int64

	procs    map[runs.Key]*procTally
	order    []runs.Key
	names    map[string]string // of hashes
	begun    map[uint64]dftracer.Event
	finished []uint64  // ids of the spans of a chunk
	program  [3]string // hashes of program, command line and folder
	version  string
}

// stretch is the time of a span.
type stretch struct{ start, end int64 }

type procTally struct {
	Events int64
	lanes  map[int64]struct{}
}

func newTally(who *sharedTracker) *Tally {
	return &Tally{who: who, Categories: make(map[string]int64), procs: make(map[runs.Key]*procTally), names: make(map[string]string)}
}

func (t *Tally) torn(cause error) {
	t.Torn = true
	if cause != nil {
		t.cause = cause.Error()
	}
}

// sharedTracker is a tracker of a file that several goroutines parse.
type sharedTracker struct {
	*runs.FileTracker
	mu sync.Mutex
}

// hear takes what a record says of its process.
func (s *sharedTracker) hear(ev *dftracer.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Of(ev)
}

func (t *Tally) proc(key runs.Key) *procTally {
	p := t.procs[key]
	if p == nil {
		p = &procTally{lanes: make(map[int64]struct{})}
		t.procs[key] = p
		t.order = append(t.order, key)
	}
	return p
}

func (t *Tally) add(ev *dftracer.Event) {
	if ev.Phase == dftracer.PhaseMetadata {
		t.fact(ev)
		return
	}
	if ev.Cat == dftracer.CatDFTracer {
		t.framing(ev)
		return
	}
	t.Categories[ev.Cat]++
	if ev.Phase != dftracer.PhaseComplete {
		t.Counters++
		return
	}
	t.Events++
	if at := (stretch{ev.TS, ev.End()}); t.judge != nil {
		t.time(at)
	} else {
		t.times = append(t.times, at)
		t.span(at)
	}
	p := t.proc(t.who.Key(ev))
	p.Events++
	p.lanes[ev.TID] = struct{}{}
	t.finished = append(t.finished, ev.ID)
}

// span takes a time into that of the whole.
func (t *Tally) span(at stretch) {
	if t.Start == 0 || at.start < t.Start {
		t.Start = at.start
	}
	t.End = max(t.End, at.end)
}

// time takes a time that can be.
func (t *Tally) time(at stretch) {
	if at.end < at.start || !t.judge.Has(at.start) || !t.judge.Near(at.end) {
		t.Aside++
		return
	}
	t.span(at)
}

func (t *Tally) framing(ev *dftracer.Event) {
	t.Metadata++
	text := func(key string) string {
		a, _ := ev.Arg(key)
		return a.Text()
	}
	switch ev.Name {
	case dft.NameStart:
		t.who.hear(ev)
		t.program = [3]string{text("exec_hash"), text("cmd_hash"), text("cwd")}
		t.version = text("version")
	case dft.NameEnd:
		t.ended = true
		_, repaired := ev.Arg("recovered")
		t.repaired = t.repaired || repaired
		if a, ok := ev.Arg("events_lost"); ok {
			t.Lost = max(t.Lost, a.Int64())
		}
	}
}

func (t *Tally) fact(ev *dftracer.Event) {
	t.Metadata++
	t.metadata = true
	key, value := ev.Meta()
	switch ev.Name {
	case dft.NameHostHash, dft.NameFileHash, dft.NameStringHash:
		if ev.Name != dft.NameFileHash || len(t.names) < 1<<12 {
			t.names[value] = key
		}
	case dft.NameProcess:
		t.who.hear(ev)
		if key == "rank" {
			t.proc(t.who.Key(ev)) // also one without an event
		}
	case dft.NameCustom:
		t.who.hear(ev)
		switch key {
		case dft.KeyPart:
			t.part = true
		case dft.KeyEventsLost:
			n := dftracer.String("", value)
			t.Lost += n.Int64()
		}
		if b, ok := dft.BeginOf(ev); ok {
			if t.begun == nil {
				t.begun = make(map[uint64]dftracer.Event)
			}
			b.Args = nil
			t.begun[b.ID] = b
		}
	}
}

// forget drops what only merge needs.
func (t *Tally) forget() {
	for _, id := range t.finished {
		delete(t.begun, id)
	}
	t.finished = t.finished[:0]
}

// merge adds what a chunk has. Chunks come in the order of the file.
func (t *Tally) merge(c *Tally) {
	t.Lines += c.Lines
	if c.Bad > 0 && t.Bad == 0 {
		t.firstBad = c.firstBad
	}
	t.Bad += c.Bad
	t.Events += c.Events
	t.Counters += c.Counters
	t.Metadata += c.Metadata
	t.Lost += c.Lost
	for cat, n := range c.Categories {
		t.Categories[cat] += n
	}
	for _, at := range c.times {
		t.time(at)
	}
	if c.Torn {
		t.Torn, t.cause = true, c.cause
	}
	t.ended, t.part, t.repaired = t.ended || c.ended, t.part || c.part, t.repaired || c.repaired
	if c.metadata && !t.metadata {
		t.metadata, t.dialect = true, c.dialect
	}
	if c.version != "" {
		t.program, t.version = c.program, c.version
	}
	maps.Copy(t.names, c.names)
	for id, ev := range c.begun {
		if t.begun == nil {
			t.begun = make(map[uint64]dftracer.Event)
		}
		t.begun[id] = ev
	}
	if len(t.begun) > 0 {
		for _, id := range c.finished {
			delete(t.begun, id)
		}
	}
	for _, key := range c.order {
		from, to := c.procs[key], t.proc(key)
		to.Events += from.Events
		maps.Copy(to.lanes, from.lanes)
	}
}

// RankText returns the rank of a process as it is printed, empty without one.
func RankText(p *runs.Process) string {
	if !p.RankKnown {
		return ""
	}
	return strconv.Itoa(p.Rank)
}
