package main

import (
	"maps"
	"strconv"

	runs "github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/dftracer"
)

// tally is what info and index know of a file.
type tally struct {
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
	mended    bool // by recover
	aligned   bool // every member ends on a line end

	facts   bool // metadata was seen, so that the dialect is sure
	dialect dftracer.Dialect

	procs    map[procKey]*procTally
	order    []procKey
	names    map[string]string // of hashes
	begun    map[uint64]dftracer.Event
	finished []uint64  // ids of the spans of a chunk
	program  [3]string // hashes of program, command line and folder
	version  string
}

type procKey struct {
	host string // hash
	pid  int64
}

type procTally struct {
	Events int64
	Rank   string
	lanes  map[int64]struct{}
}

func newTally() *tally {
	return &tally{Categories: make(map[string]int64), procs: make(map[procKey]*procTally), names: make(map[string]string)}
}

func (t *tally) torn(cause error) {
	t.Torn = true
	if cause != nil {
		t.cause = cause.Error()
	}
}

func (t *tally) proc(host string, pid int64) *procTally {
	key := procKey{host, pid}
	p := t.procs[key]
	if p == nil {
		p = &procTally{lanes: make(map[int64]struct{})}
		t.procs[key] = p
		t.order = append(t.order, key)
	}
	return p
}

func (t *tally) add(ev *dftracer.Event) {
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
	t.span(ev.TS, ev.End())
	p := t.proc(ev.HostHash, ev.PID)
	p.Events++
	p.lanes[ev.TID] = struct{}{}
	t.finished = append(t.finished, ev.ID)
}

func (t *tally) span(start, end int64) {
	if t.Start == 0 || start < t.Start {
		t.Start = start
	}
	t.End = max(t.End, end)
}

func (t *tally) framing(ev *dftracer.Event) {
	t.Metadata++
	text := func(key string) string {
		a, _ := ev.Arg(key)
		return a.Text()
	}
	switch ev.Name {
	case dftracer.NameStart:
		t.program = [3]string{text("exec_hash"), text("cmd_hash"), text("cwd")}
		t.version = text("version")
	case dftracer.NameEnd:
		t.ended = true
		_, mended := ev.Arg("recovered")
		t.mended = t.mended || mended
		if a, ok := ev.Arg("events_lost"); ok {
			t.Lost = max(t.Lost, a.Int64())
		}
	}
}

func (t *tally) fact(ev *dftracer.Event) {
	t.Metadata++
	t.facts = true
	key, value := ev.Meta()
	switch ev.Name {
	case dftracer.NameHostHash, dftracer.NameFileHash, dftracer.NameStringHash:
		if ev.Name != dftracer.NameFileHash || len(t.names) < 1<<12 {
			t.names[value] = key
		}
	case dftracer.NameProcess:
		if key == "rank" {
			t.proc(ev.HostHash, ev.PID).Rank = value
		}
	case dftracer.NameCustom:
		switch key {
		case dftracer.KeyPart:
			t.part = true
		case dftracer.KeyEventsLost:
			n := dftracer.String("", value)
			t.Lost += n.Int64()
		}
		if b, ok := dftracer.BeginOf(ev); ok {
			if t.begun == nil {
				t.begun = make(map[uint64]dftracer.Event)
			}
			b.Args = nil
			t.begun[b.ID] = b
		}
	}
}

// rankByName gives the first process the rank that the name of the file says,
// unless a record says one.
func (t *tally) rankByName(path string) {
	rank := runs.RankOf(path)
	if rank < 0 || len(t.order) == 0 {
		return
	}
	for _, p := range t.procs {
		if p.Rank != "" {
			return
		}
	}
	t.procs[t.order[0]].Rank = strconv.Itoa(rank)
}

// forget drops what only merge needs.
func (t *tally) forget() {
	for _, id := range t.finished {
		delete(t.begun, id)
	}
	t.finished = t.finished[:0]
}

// merge adds what a chunk has. Chunks come in the order of the file.
func (t *tally) merge(c *tally) {
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
	if c.Events > 0 {
		t.span(c.Start, c.End)
	}
	if c.Torn {
		t.Torn, t.cause = true, c.cause
	}
	t.ended, t.part, t.mended = t.ended || c.ended, t.part || c.part, t.mended || c.mended
	if c.facts && !t.facts {
		t.facts, t.dialect = true, c.dialect
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
		from, to := c.procs[key], t.proc(key.host, key.pid)
		to.Events += from.Events
		if from.Rank != "" {
			to.Rank = from.Rank
		}
		maps.Copy(to.lanes, from.lanes)
	}
}
