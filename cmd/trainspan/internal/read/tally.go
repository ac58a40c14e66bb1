package read

import (
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// counts counts the records of a file.
type counts struct {
	Events     int64            `json:"events"`
	Counters   int64            `json:"counters"`
	Metadata   int64            `json:"metadata"`
	Start      int64            `json:"start_us"`
	End        int64            `json:"end_us"`
	Aside      int64            `json:"aside,omitempty"` // events whose times are not used
	Categories map[string]int64 `json:"categories"`
}

// tally collects the data of info and index about the records of a file.
type tally struct {
	counts
	member Member // current; only the counts of its records are set

	lost     int64
	ended    bool // there is an end record
	part     bool // it continues another file
	repaired bool // recover repaired it
	unended  bool // it was made from a trace without an end

	who   *job.FileTracker
	judge *filetime.Judge

	procs   map[job.Key]*procTally
	order   []job.Key
	names   map[string]string // by hash
	begun   map[uint64]string // names of open spans
	program [3]string         // hashes of program, command line and folder
	version string
}

type procTally struct {
	events int64
	lanes  map[int64]struct{}
}

func newTally(who *job.FileTracker, judge *filetime.Judge) *tally {
	return &tally{who: who, judge: judge, counts: counts{Categories: make(map[string]int64)}, procs: make(map[job.Key]*procTally),
		names: make(map[string]string), begun: make(map[uint64]string)}
}

func (t *tally) proc(key job.Key) *procTally {
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
	t.member.span(ev)
	if end := ev.End(); end < ev.TS || !t.judge.Has(ev.TS) || !t.judge.Near(end) {
		t.Aside++
	} else {
		if t.Start == 0 || ev.TS < t.Start {
			t.Start = ev.TS
		}
		t.End = max(t.End, end)
	}
	p := t.proc(t.who.Key(ev))
	p.events++
	p.lanes[ev.TID] = struct{}{}
	delete(t.begun, ev.ID)
}

func (t *tally) framing(ev *dftracer.Event) {
	t.Metadata++
	t.member.Metadata++
	text := func(key string) string {
		a, _ := ev.Arg(key)
		return a.Text()
	}
	switch ev.Name {
	case tracefile.NameStart:
		t.who.Of(ev)
		t.program = [3]string{text("exec_hash"), text("cmd_hash"), text("cwd")}
		t.version = text("version")
	case tracefile.NameEnd:
		t.ended = true
		_, repaired := ev.Arg("recovered")
		_, unknown := ev.Arg(tracefile.ArgEndUnknown)
		t.repaired, t.unended = t.repaired || repaired, t.unended || unknown
		if a, ok := ev.Arg("events_lost"); ok {
			t.lost = max(t.lost, a.Int64())
		}
	}
}

func (t *tally) fact(ev *dftracer.Event) {
	t.Metadata++
	t.member.Metadata++
	key, value := ev.Meta()
	switch ev.Name {
	case tracefile.NameHostHash, tracefile.NameFileHash, tracefile.NameStringHash:
		if ev.Name != tracefile.NameFileHash || len(t.names) < 1<<12 {
			t.names[value] = key
		}
	case tracefile.NameProcess:
		t.who.Of(ev)
		if key == "rank" {
			t.proc(t.who.Key(ev)) // includes processes without events
		}
	case tracefile.NameCustom:
		t.who.Of(ev)
		switch key {
		case tracefile.KeyPart:
			t.part = true
		case tracefile.KeyEventsLost:
			n := dftracer.String("", value)
			t.lost += n.Int64()
		}
		if b, ok := tracefile.BeginOf(ev); ok {
			t.begun[b.ID] = b.Cat + "/" + b.Name
		}
	}
}

// RankText returns the rank of a process for printing, or "".
func RankText(p *job.Process) string {
	if !p.RankKnown {
		return ""
	}
	return strconv.Itoa(p.Rank)
}
